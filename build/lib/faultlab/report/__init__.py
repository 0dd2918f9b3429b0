"""Report: recorded runs as pages that a browser opens without a network."""
