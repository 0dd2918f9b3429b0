"""Live looks at a lab that is up: resources, flame graphs, the numbers that matter."""
