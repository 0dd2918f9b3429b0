"""faultlab: one documented failure in a real stack, and its fix, both proven by measurement."""

__version__ = "0.1.0"
