"""Measure: how fast the machine of an engine is, and what other programs took of it."""
