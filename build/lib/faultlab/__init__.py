"""faultlab: one documented failure in a real stack, proven by measurement, and its fix as well."""

__version__ = "0.1.0"
