"""Lock: one command at a time on one stack, and one load at a time on this machine.

The kernel releases a lock when its holder dies, even by `kill -9`.
"""

import fcntl
import math
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path

from faultlab.core import cpus, naming
from faultlab.core.errors import CannotRun

# Seconds: how long a load lets the others go first, how long it keeps new ones out after that, and
# for how long it then lets them go on.
_GIVES_WAY, _CLOSED, _OPEN = 15.0, 2.0, 5.0
_PAUSE = 0.02  # seconds
_TRIES = 50  # pauses
_CLASS = "class-"
_MACHINE = "machine"  # a command that has its lock alone makes load
_LOCKS = Path("/proc/locks")
_OF_ALL = "faultlab-slots"
# Not TMPDIR: it differs between the terminals of a user, and their commands must see each other.
# The path of a socket in it is short enough, too.
_TOP = Path("/tmp")


class Held(CannotRun):
    """Another command holds the stack, or it belongs to another user or checkout."""


def folder() -> Path:
    """Return the folder for the locks of all this user's checkouts, which share one Docker."""
    return _TOP / f"faultlab-{os.getuid()}"


def private(folder: Path) -> Path:
    """Create and return a folder that only this user can use. Raises CannotRun if others can.

    Any user can create a folder in /tmp, with files that we would lock and sockets that we would
    use.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise CannotRun(f"{folder} is not yours alone.", f"ls -ld {folder}")
    return folder


def refuse_others(stack: str, owners: Iterable[str]) -> None:
    """Check that a stack belongs to this user and checkout. Raises Held with its owner.

    `owners`: the labels of its parts (naming.owner); empty if an older faultlab started them.
    """
    if others := {*owners} - {"", naming.owner()}:
        raise Held(
            f"{stack} belongs to {others.pop()}.",
            "export FAULTLAB_NAMESPACE=another, then type it again",
        )


@contextmanager
def hold(stack: str, doing: str, wait: bool = False) -> Iterator[None]:
    """Hold the stack while the body runs. Raises Held with its holder, unless told to wait."""
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
    """Hold the class whose stacks have names with this prefix. Raises Held."""
    return hold(_CLASS + prefix, doing)


def refuse_class(stack: str) -> None:
    """Check that a stack belongs to no running class. Raises Held with the holder of the class."""
    for file in folder().glob(f"{_CLASS}*.lock"):
        prefix = file.stem.removeprefix(_CLASS)
        # The seats have numbers: `slow-1-mystery` is of the class `slow`, `slow-log` is a lab.
        if re.match(rf"{re.escape(prefix)}[1-9][0-9]*-[a-z]", stack):
            with hold_class(prefix, "sweep"):
                pass


@contextmanager
def turn(alone: bool, patience: float = math.inf, slot: str = "") -> Iterator[None]:
    """Wait for a turn on this machine and keep it while the body runs.

    After `patience` seconds without a turn the body runs all the same: the command that has one can
    be suspended.

    A look that makes load is `alone`: no other command of this user has a turn meanwhile. Actions
    that must not disturb such a look, such as starting a stack, share turns with each other. A load
    lets them go first for a while, so that they run in parallel. Then it keeps new ones out, so
    that many of them cannot keep a load waiting without end.

    `slot`: the CPUs of the stack, as in `0-1`, if it has only these. Then a turn on the machine is
    shared, and each of these CPUs is taken or shared in the same way, among all users.
    """
    with ExitStack() as held:
        queue, machine = held.enter_context(_file("queue")), held.enter_context(_file("machine"))
        _take(queue, machine, alone and not slot, patience)
        for cpu in sorted(cpus.parse(slot)):  # in one order, so that no two wait for each other
            queue = held.enter_context(_file_of_all(f"cpu-{cpu}-queue.lock"))
            machine = held.enter_context(_file_of_all(f"cpu-{cpu}.lock"))
            _take(queue, machine, alone, patience)
        yield


def looks(stack: str, slot: str = "") -> bool:
    """Return whether a command works on a stack now, or has its CPUs for a load.

    It touches no lock, because a command that wants it in this moment would be refused. `slot`: the
    CPUs of the stack; empty if it has those of the whole machine.
    """
    files = [folder() / f"{name}.lock" for name in (stack, _MACHINE)]
    files += [folder_of_all() / f"cpu-{cpu}.lock" for cpu in cpus.parse(slot)]
    wanted = dict[str, os.stat_result]()
    for file in files:
        with suppress(OSError):  # it was never taken
            found = file.stat()
            wanted[str(found.st_ino)] = found
    for line in _LOCKS.read_text().splitlines():  # source: proc(5)
        _, kind, _, how, process, place, *_ = line.replace(" -> ", " ").split()
        found_there = wanted.get(place.rpartition(":")[2])
        if (kind, how) == ("FLOCK", "WRITE") and found_there and _has(process, found_there):
            return True
    return False


def _has(process: str, file: os.stat_result) -> bool:
    """Return whether a process has this file open: another file system can have its number too."""
    with suppress(OSError):  # it has just ended, or is of another user
        for each in Path(f"/proc/{process}/fd").iterdir():
            with suppress(OSError):  # it has just closed this one
                if os.path.samestat(each.stat(), file):
                    return True
    return False


def _take(queue: int, machine: int, alone: bool, patience: float) -> None:
    if patience < math.inf:
        _taken(machine, fcntl.LOCK_EX if alone else fcntl.LOCK_SH, patience)
    elif alone:
        _take_alone(queue, machine)
    else:
        fcntl.flock(queue, fcntl.LOCK_EX)
        fcntl.flock(machine, fcntl.LOCK_SH)
        fcntl.flock(queue, fcntl.LOCK_UN)


def _take_alone(queue: int, machine: int) -> None:
    """Take the machine alone, and keep others out of the queue for longer each time.

    One of those who share the machine can need half a minute. If the queue was closed until then,
    the others and the machine would be idle.
    """
    taken, closed = _taken(machine, fcntl.LOCK_EX, _GIVES_WAY), _CLOSED
    while not taken:
        fcntl.flock(queue, fcntl.LOCK_EX)
        taken = _taken(machine, fcntl.LOCK_EX, closed)
        fcntl.flock(queue, fcntl.LOCK_UN)
        taken = taken or _taken(machine, fcntl.LOCK_EX, _OPEN)
        closed *= 2


def _taken(machine: int, how: int, seconds: float) -> bool:
    """Take the machine at a moment when it is free; give up after some seconds."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            fcntl.flock(machine, how | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_PAUSE)
        else:
            return True
    return False


@contextmanager
def shared(name: str, *, alone: bool = True, stays: bool = True) -> Iterator[None]:
    """Hold a file that all users of this machine can lock, while the body runs.

    `stays`: False removes it in the end; only where a file that is gone means an open lock.
    """
    with _file_of_all(name) as file:
        fcntl.flock(file, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        try:
            yield
        finally:
            if not stays:
                with suppress(OSError):
                    (folder_of_all() / name).unlink()


def is_held(name: str) -> bool:
    """Return whether any command holds this shared file; remove one that was left behind."""
    file = folder_of_all() / name
    try:
        with _closing(_existing(file)) as number:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.unlink()
    except BlockingIOError:
        return True
    except OSError:  # gone, or of another user
        return False
    return False


def folder_of_all() -> Path:
    """Return the folder for the locks that all users of this machine share."""
    return _TOP / _OF_ALL


def _made_for_all() -> Path:
    """Create the folder in which every user can create files, and remove only their own.

    Raises CannotRun if it is another thing.
    """
    folder = folder_of_all()
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
        folder.chmod(0o1777)  # after that, because a umask would take bits away
    for _ in range(_TRIES):  # another command can be between the two
        found = folder.lstat()
        if stat.S_ISDIR(found.st_mode) and stat.S_IMODE(found.st_mode) == 0o1777:
            return folder
        time.sleep(_PAUSE)
    raise CannotRun(f"{folder} is not open to all users.", f"ls -ld {folder}")


@contextmanager
def _file_of_all(name: str) -> Iterator[int]:
    """Open a file that any user can lock; to lock it one need not be able to write.

    It is opened before it is created: some kernels refuse to create what is another user's here
    (fs.protected_regular). Raises CannotRun.
    """
    try:
        file = _made_for_all() / name
        for _ in range(_TRIES):
            with suppress(FileNotFoundError, PermissionError):
                number = _existing(file)
                break
            with suppress(FileExistsError):
                number = os.open(file, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                os.fchmod(number, 0o644)
                break
            time.sleep(_PAUSE)
        else:
            raise CannotRun(f"The lock {file} is not open to all users.", f"ls -l {file}")
    except OSError as error:
        raise _not_made(name, error) from error
    with _closing(number):
        yield number


def _existing(file: Path) -> int:
    return os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


@contextmanager
def _closing(number: int) -> Iterator[int]:
    try:
        yield number
    finally:
        os.close(number)


def _file(name: str) -> AbstractContextManager[int]:
    return _closing(_open(name))


def _open(name: str) -> int:
    """Open the file of a lock. Raises CannotRun."""
    try:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(private(folder()) / f"{name}.lock", flags, 0o600)
    except OSError as error:
        raise _not_made(name, error) from error


def _not_made(name: str, error: OSError) -> CannotRun:
    return CannotRun(f"The lock of {name} cannot be made: {error.strerror}.", "df -h")
