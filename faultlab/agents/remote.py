"""Remote: what a harness asks of a machine: words to run, and whole files.

A file that cannot be read or written raises the error that Python has for it.
"""

import errno
import os
import shlex
from base64 import b64decode
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from faultlab.agents import host
from faultlab.agents.command import MOST
from faultlab.agents.session import Session

_HOME = "/root"  # where relative paths begin
_PIECE = MOST * 3 // 4  # bytes whose Base64 fits into the output of a command


class TooLarge(OSError):
    """A file has more bytes than the caller allows."""


def absolute(path: str) -> str:
    """Return a path from the root; a relative one begins in root's home."""
    return str(PurePosixPath(_HOME, path))


def script(
    words: Sequence[str],
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    user: str | int | None = None,
) -> str:
    """Return a command for a shell that runs these words in a folder, for a user."""
    given = [f"{name}={value}" for name, value in (env or {}).items()]
    whole = ["env", "--", *given, *words]
    if user is not None:
        whole = ["runuser", "-u", str(user), "--", *whole]
    return f"cd {shlex.quote(absolute(cwd or ''))} && exec {shlex.join(whole)}"


def read(session: Session, machine: str, path: str, most: int) -> bytes:
    """Return the content of a file. Raises FileNotFoundError and the like, or TooLarge."""
    if machine == host.NAME:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    name = shlex.quote(path)
    size = session.run(machine, f"test ! -d {name} || exit {errno.EISDIR}; wc -c <{name}")
    for number in (errno.EISDIR, errno.ENOENT, errno.EACCES):
        if os.strerror(number) in size.err or size.code == number == errno.EISDIR:
            raise OSError(number, os.strerror(number), path)  # of the class for this number
    if size.code:
        raise OSError(size.err.strip() or f"{path}: exit code {size.code}")
    try:  # the agent can have replaced the programs
        if int(size.out) > most:
            raise TooLarge(f"{path}: more than {most} bytes")
        content = b""
        for start in range(1, int(size.out) + 1, _PIECE):
            piece = f"tail -c +{start} -- {name} | head -c {_PIECE} | base64 -w 0"
            content += b64decode(session.run(machine, piece).out)
    except ValueError as error:
        raise OSError(f"{path}: {error}") from error
    return content


def within(folder: Path, name: str) -> Path:
    """Return the path of a file in a folder. Raises PermissionError for a name that leads outside.

    An agent chooses the names of its files, and can replace the program that lists them.
    """
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), name)
    return path


def write(session: Session, machine: str, path: str, content: bytes) -> None:
    """Write a file, and create its folder. Raises IsADirectoryError, or OSError."""
    if session.run(machine, f"test -d {shlex.quote(path)}").code == 0:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    session.write_file(machine, path, content)
