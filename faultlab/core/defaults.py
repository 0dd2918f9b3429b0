"""Defaults: values that the help of the command line shows and the verbs use.

They are here because the help must not import the verbs.
"""

AUTO = "auto"  # `--engine`: the first engine that can run the lab
MYSTERY = "mystery"  # a lab whose name is hidden
ONCALL = "oncall"  # a stack in which faults come and go
EXAM = "exam"  # a stack with one of two faults
EXAM_DRAWS = 8
RELIABILITY = "docs/reliability.json"  # the source of docs/reliability.md
JUDGED = "docs/judge.json"  # the source of docs/judge.md and docs/remedies.md
BUNDLE = "faultlab.bundle.tar"  # `bundle --out`
CLASS_FILE = "class.toml"
CLASS_PORT = 8420
LOOPBACK = "127.0.0.1"
