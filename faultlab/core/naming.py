"""Naming: what our stacks are called, and whose they are."""

import getpass
import hashlib
import os
import re
from contextlib import suppress
from pathlib import Path

from faultlab.core import paths

VERIFY = "verify"  # ends the namespace of `faultlab verify`
_CHOSEN = "FAULTLAB_NAMESPACE"
_USUAL = "faultlab"  # the folder in a user's home that `git clone` makes


def namespace() -> str:
    """Return the namespace of this command: FAULTLAB_NAMESPACE, or one of this checkout's own."""
    chosen = os.environ.get(_CHOSEN)
    return _own() if chosen is None else chosen


def _own() -> str:
    """Return the namespace of this user and checkout: nobody else's stacks have these names."""
    name = re.sub("[^a-z0-9]+", "-", _user().lower()).strip("-") or str(os.getuid())
    root = paths.root().absolute()
    with suppress(RuntimeError):  # of a user without a home
        if root == Path.home() / _USUAL:
            return name
    return f"{name}-{hashlib.sha256(str(root).encode()).hexdigest()[:4]}"


def verify_namespace() -> str:
    """Return the namespace of verify: never the one that a learner's labs are in."""
    own = namespace()
    return own if own.split("-")[-1] == VERIFY else f"{own}-{VERIFY}".lstrip("-")


def prefix(of: str | None = None) -> str:
    """Return how the names of stacks begin: `faultlab-`, then a namespace (this command's)."""
    chosen = namespace() if of is None else of
    return f"faultlab-{chosen}-" if chosen else "faultlab-"


def prefix_of_all() -> str:
    """Return how the names of all stacks begin that this command may see.

    Those of every user and checkout, unless FAULTLAB_NAMESPACE names some.
    """
    return prefix(os.environ.get(_CHOSEN, ""))


def owner() -> str:
    """Return whose the stacks are that this command starts: a user's, of one checkout."""
    return f"{_user()} in {paths.root()}"


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without a name
        return str(os.getuid())


def stack_name(lab_id: str, of: str | None = None) -> str:
    """Return the name of a lab's stack in a namespace (this command's)."""
    return prefix(of) + lab_id
