"""Naming: the names and the owners of our stacks."""

import getpass
import hashlib
import os
import re
from contextlib import suppress
from pathlib import Path

from faultlab.core import paths

STACK_LABEL = "faultlab.stack"
LAB_LABEL = "faultlab.lab"
RUN_LABEL = "faultlab.run"
OWNER_LABEL = "faultlab.owner"
SLOT_LABEL = "faultlab.slot"  # the CPUs of a stack that has only some of this machine
BATCH_LABEL = "faultlab.batch"  # of the Jobs of one command, and of the stacks that they start

VERIFY = "verify"  # the end of the namespace of `faultlab verify`
JUDGE = "judge"  # the end of the namespace of `faultlab judge-error`
_CHOSEN = "FAULTLAB_NAMESPACE"
CASE = "case-"  # the beginning of the name of each case of an agent
_USUAL = "faultlab"  # the folder that `git clone` creates in a user's home


def namespace() -> str:
    """Return the namespace of this command: FAULTLAB_NAMESPACE, or this checkout's own."""
    chosen = os.environ.get(_CHOSEN)
    return _own() if chosen is None else chosen


def _own() -> str:
    """Return the namespace of this user and checkout; no other stacks have these names.

    All packages that a user has installed share one.
    """
    name = re.sub("[^a-z0-9]+", "-", _user().lower()).strip("-") or str(os.getuid())
    home = paths.home().absolute()
    with suppress(RuntimeError):  # a user without a home
        if home == Path.home() / _USUAL:
            return name
    return f"{name}-{hashlib.sha256(str(home).encode()).hexdigest()[:4]}"


def verify_namespace() -> str:
    """Return the namespace of verify, which is never a learner's."""
    return _ending(VERIFY)


def judge_namespace() -> str:
    """Return the namespace of judge-error, which is never a learner's and never verify's."""
    return _ending(JUDGE)


def _ending(name: str) -> str:
    own = namespace()
    return own if own.split("-")[-1] == name else f"{own}-{name}".lstrip("-")


def prefix(of: str | None = None) -> str:
    """Return the prefix of stack names: `faultlab-` and a namespace (default: this command's)."""
    chosen = namespace() if of is None else of
    return f"faultlab-{chosen}-" if chosen else "faultlab-"


def prefix_of_all() -> str:
    """Return the prefix of all stack names that this command can see.

    These are the stacks of every user and checkout, unless FAULTLAB_NAMESPACE is set.
    """
    return prefix(os.environ.get(_CHOSEN, ""))


def case_name(number: int) -> str:
    """Return the neutral name of an agent's case, which its stack has too."""
    return f"{CASE}{number:02}"


def owner() -> str:
    """Return the owner of the stacks that this command starts: the user and the checkout."""
    return f"{_user()} in {paths.home()}"


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without a name
        return str(os.getuid())


def neutral(stack: str) -> str:
    """Return another name for a stack, which says nothing of us."""
    return f"n{hashlib.sha256(stack.encode()).hexdigest()[:8]}"


_FLAT = str.maketrans({"/": "-", "@": "-", "+": "-", "~": "-", ".": "-", "%": ""})


def flat(lab_id: str) -> str:
    """Return an id as containers, labels and folders can have it: `mtu@0.1%` is `mtu-0-1`."""
    return lab_id.translate(_FLAT)


def stack_name(lab_id: str, of: str | None = None) -> str:
    """Return the name of a lab's stack in a namespace (default: this command's)."""
    return prefix(of) + flat(lab_id)
