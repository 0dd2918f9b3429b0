"""Where stacks run: Docker on this machine or in the lab VM, and the kernels below them."""
