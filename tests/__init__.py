"""Unit tests of the engine: no Docker, and what is printed was recorded from real machines."""
