"""`python -m faultlab` is the same as `faultlab`."""

from faultlab.cli import entry

entry()
