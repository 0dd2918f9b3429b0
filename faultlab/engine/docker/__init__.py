"""Docker: stacks on a Docker Engine, and its images."""
