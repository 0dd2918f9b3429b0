"""VM: Docker in the lab VM, whose kernel labs can change."""
