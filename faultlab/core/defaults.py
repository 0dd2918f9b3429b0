"""Defaults: the values that the help of the command line names and the verbs use.

They are here because the help must not import the verbs.
"""

AUTO = "auto"  # `--engine`: the first engine that can run the lab
MYSTERY = "mystery"  # a lab under a name that says nothing
RELIABILITY = "docs/reliability.json"  # what docs/reliability.md is made from
BUNDLE = "faultlab.bundle.tar"  # `bundle --out`
CLASS_FILE = "class.toml"
CLASS_PORT = 8420
LOOPBACK = "127.0.0.1"
