"""Files: whole files of a machine for a harness, with the errors that Python has for them."""

import errno
import os
import shlex
from base64 import b64decode

from faultlab.agents import host
from faultlab.agents.command import MOST
from faultlab.agents.session import Session

_PIECE = MOST * 3 // 4  # bytes whose Base64 fits into the output of a command


class TooLarge(OSError):
    """A file has more bytes than the caller allows."""


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
    if int(size.out) > most:
        raise TooLarge(f"{path}: more than {most} bytes")
    content = b""
    for start in range(1, int(size.out) + 1, _PIECE):
        piece = f"tail -c +{start} -- {name} | head -c {_PIECE} | base64 -w 0"
        content += b64decode(session.run(machine, piece).out)
    return content


def write(session: Session, machine: str, path: str, content: bytes) -> None:
    """Write a file, and create its folder. Raises IsADirectoryError, or OSError."""
    if session.run(machine, f"test -d {shlex.quote(path)}").code == 0:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    session.write_file(machine, path, content)
