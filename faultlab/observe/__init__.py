"""Live looks into a lab that is up: resources, flame graphs, the numbers that matter."""
