"""Unit tests: without Docker, in seconds, on recorded outputs."""
