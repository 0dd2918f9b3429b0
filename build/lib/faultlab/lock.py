"""Lock: one command at a time on one stack.

The kernel frees the lock when its holder dies, also by `kill -9`.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from faultlab.errors import CannotRun


class Held(CannotRun):
    """Another command holds the stack."""


def folder() -> Path:
    """One place for all copies of the project that this user has: they share one Docker."""
    return Path(tempfile.gettempdir(), f"faultlab-{os.getuid()}")


@contextmanager
def hold(stack: str, doing: str, wait: bool = False) -> Iterator[None]:
    """Hold the stack while the body runs. Raises Held with who has it, unless told to wait."""
    try:
        folder().mkdir(mode=0o700, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(folder() / f"{stack}.lock", flags, 0o600)
    except OSError as error:
        raise CannotRun(
            f"The lock of {stack} cannot be made: {error.strerror}.", "df -h"
        ) from error
    with os.fdopen(descriptor, "r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError as error:
            holder = file.read().strip() or "another command"
            raise Held(
                f"{stack} is in use by {holder}.", "wait until it has ended, then type it again"
            ) from error
        file.seek(0)
        file.truncate()
        file.write(f"`faultlab {doing}` (process {os.getpid()})")
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)
