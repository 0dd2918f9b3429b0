"""Lock: one command at a time on one stack, and one load at a time on this machine.

The kernel frees a lock when its holder dies, also by `kill -9`.
"""

import fcntl
import os
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO

from faultlab.core import naming
from faultlab.core.errors import CannotRun

_GIVES_WAY = 15.0  # seconds: longer than any look that shares its turn
_PAUSE = 0.02  # seconds
_CLASS = "class-"


class Held(CannotRun):
    """Another command holds the stack, or it is of another user or checkout."""


def folder() -> Path:
    """One place for all copies of the project that this user has: they share one Docker."""
    return Path(tempfile.gettempdir(), f"faultlab-{os.getuid()}")


def private(folder: Path) -> Path:
    """Make a folder that is this user's alone, or return it. Raises CannotRun where it is not.

    Anybody can make a folder in /tmp, and so give us their own files to lock and to talk to.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise CannotRun(f"{folder} is not yours alone.", f"ls -ld {folder}")
    return folder


def refuse_others(stack: str, owners: Iterable[str]) -> None:
    """Check that a stack is of this user and checkout. Raises Held with whose it is.

    `owners`: what its parts say (naming.owner); empty where an older faultlab started them.
    """
    if others := {*owners} - {"", naming.owner()}:
        raise Held(
            f"{stack} is of {others.pop()}.",
            "export FAULTLAB_NAMESPACE=another, then type it again",
        )


@contextmanager
def hold(stack: str, doing: str, wait: bool = False) -> Iterator[None]:
    """Hold the stack while the body runs. Raises Held with who has it, unless told to wait."""
    with os.fdopen(_open(stack), "r+") as file:
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


def hold_class(prefix: str, doing: str) -> AbstractContextManager[None]:
    """Hold the class whose stacks have names that begin like this. Raises Held."""
    return hold(_CLASS + prefix, doing)


def refuse_class(stack: str) -> None:
    """Check that a stack is of no class that is going on. Raises Held with who has the class."""
    for file in folder().glob(f"{_CLASS}*.lock"):
        prefix = file.stem.removeprefix(_CLASS)
        if stack.startswith(prefix):
            with hold_class(prefix, "sweep"):
                pass


@contextmanager
def turn(alone: bool) -> Iterator[None]:
    """Wait for a turn on this machine and keep it while the body runs.

    A look that makes load is `alone`: nothing else of this user has a turn meanwhile. What must not
    disturb such a look (a stack that starts or goes) shares its turn with others of its kind. A
    load lets these go first for a while, so that they are done side by side, and then queues up, so
    that many of them keep no load waiting for good.
    """
    with os.fdopen(_open("queue"), "r+") as queue, os.fdopen(_open("machine"), "r+") as machine:
        if not (alone and _taken_when_free(machine)):
            fcntl.flock(queue, fcntl.LOCK_EX)
            fcntl.flock(machine, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
            fcntl.flock(queue, fcntl.LOCK_UN)
        yield


def _taken_when_free(machine: IO[str]) -> bool:
    """Take the machine at a moment at which nobody has it; give up after a while."""
    until = time.monotonic() + _GIVES_WAY
    while time.monotonic() < until:
        try:
            fcntl.flock(machine, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_PAUSE)
        else:
            return True
    return False


def _open(name: str) -> int:
    """Open the file of a lock. Raises CannotRun."""
    try:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(private(folder()) / f"{name}.lock", flags, 0o600)
    except OSError as error:
        raise CannotRun(f"The lock of {name} cannot be made: {error.strerror}.", "df -h") from error
