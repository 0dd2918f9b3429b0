"""Naming: what our stacks are called, and whose they are."""

import getpass
import os

from faultlab.core import paths


def namespace() -> str:
    """Return the namespace of this command: FAULTLAB_NAMESPACE, or nothing."""
    return os.environ.get("FAULTLAB_NAMESPACE", "")


def verify_namespace() -> str:
    """Return the namespace of verify: never the one that a learner's labs are in."""
    own = namespace()
    return own if own.split("-")[-1] == "verify" else f"{own}-verify".lstrip("-")


def prefix(of: str | None = None) -> str:
    """Return how the names of stacks begin: `faultlab-`, then a namespace (this command's)."""
    chosen = namespace() if of is None else of
    return f"faultlab-{chosen}-" if chosen else "faultlab-"


def owner() -> str:
    """Return whose the stacks are that this command starts: a user's, of one checkout."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user id without a name
        user = str(os.getuid())
    return f"{user} in {paths.root()}"


def stack_name(lab_id: str, of: str | None = None) -> str:
    """Return the name of a lab's stack in a namespace (this command's)."""
    return prefix(of) + lab_id
