"""Where stacks run: Docker here or in the lab VM, and the kernels below them."""
