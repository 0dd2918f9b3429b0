"""`python -m faultlab` is the same as `faultlab`."""

from faultlab.cli.main import entry

entry()
