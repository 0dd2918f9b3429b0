"""Let `python -m faultlab` do the same as `faultlab`."""

from faultlab.cli.main import entry

entry()
