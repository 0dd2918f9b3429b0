"""Scratch: a command's own temporary files, which `sweep` removes if the command was killed.

A note in the folder of locks names them. The kernel releases its lock when the command dies, so a
note without a lock is one of a command that did not come to its end.
"""

import fcntl
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from faultlab.core import lock, paths

_NOTES = "scratch-*"
_YOUNG = 60.0  # seconds in which a note can still be empty


@contextmanager
def folder(prefix: str = "faultlab-", where: Path | None = None) -> Iterator[Path]:
    """Yield a new folder that only this user can use, and remove it in the end.

    `where`: the folder that it is made in; without it, that of temporary files.
    """
    path = (where or Path(tempfile.gettempdir())).absolute() / f"{prefix}{secrets.token_hex(4)}"
    with noted(path):
        try:
            path.mkdir(mode=0o700)
        except OSError as error:
            raise paths.unwritable(path, error) from error
        yield path


@contextmanager
def noted(path: Path) -> Iterator[None]:
    """Note that a file or folder is this command's own, and remove it in the end.

    Raises CannotRun, for example on a full disk.
    """
    note = lock.private(lock.folder()) / f"scratch-{secrets.token_hex(8)}"
    try:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with os.fdopen(os.open(note, flags, 0o600), "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(str(path.absolute()))
            file.flush()
            try:
                yield
            finally:
                _remove(path)
    finally:
        note.unlink(missing_ok=True)


def sweep() -> list[str]:
    """Remove what killed commands of this user have left, and return their paths."""
    used: set[str] = set()
    left: list[tuple[IO[str], Path, str]] = []
    with ExitStack() as files:
        for note in lock.folder().glob(_NOTES):
            try:
                file = files.enter_context(note.open())
            except FileNotFoundError:  # its command has just ended
                continue
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                left.append((file, note, file.read()))
            except BlockingIOError:
                used.add(file.read())
        removed = []
        for opened, note, path in left:
            if not path and time.time() - os.fstat(opened.fileno()).st_mtime < _YOUNG:
                continue
            # Another command can use a file of the same name by now.
            if path and path not in used and _remove(Path(path)):
                removed.append(path)
            note.unlink(missing_ok=True)
    return removed


def _remove(path: Path) -> bool:
    """Remove a file or folder of this user's; return whether it was there."""
    try:
        found = path.lstat()
    except OSError:
        return False
    if found.st_uid != os.getuid():  # another user has made one of this name since
        return False
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
    return True
