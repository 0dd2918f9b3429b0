"""Makes the pictures of docs/pictures from real runs: `make pictures`."""
