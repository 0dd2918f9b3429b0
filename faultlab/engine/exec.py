"""Exec: the connection over which Docker answers a command that runs in a container."""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from typing import Any

from faultlab.core.errors import CannotRun

_MOST_OUTPUT = 64 << 20  # bytes of one command
_STDERR = 2  # in the headers of what a command prints


@contextmanager
def cut_off_after(line: Any, seconds: float) -> Iterator[None]:
    """End a connection to Docker that has not ended by itself by then."""
    plain = wire(line)
    plain.settimeout(None)  # a command may be silent for longer than Docker itself

    def cut() -> None:
        with suppress(OSError):
            plain.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        getattr(line, "_response", line).close()  # what holds the connection


def wire(line: Any) -> socket.socket:
    """The socket below a connection that `exec_start(socket=True)` opened."""
    found: socket.socket = getattr(line, "_sock", line)
    return found


def answer(line: Any) -> BufferedReader:
    """Return a reader of all that Docker sends on a connection of `exec_start(socket=True)`.

    The SDK reads the socket itself, and loses what came in one piece with the headers
    (docker/docker-py#3332): a command that is quick on a busy machine seems to print nothing.
    """
    behind_the_headers: BufferedReader = line._response.raw._fp.fp
    return behind_the_headers


def both(stream: BufferedReader) -> tuple[bytes, bytes]:
    """Read both outputs of a command to their end. Raises CannotRun when they are too much.

    Source: Docker Engine API, "Attach to a container", stream format.
    """
    out, err = bytearray(), bytearray()
    while len(header := stream.read(8)) == 8:
        which, length = struct.unpack(">BxxxL", header)
        (err if which == _STDERR else out).extend(stream.read(length))
        if len(out) + len(err) > _MOST_OUTPUT:
            raise CannotRun(
                f"A command printed more than {_MOST_OUTPUT >> 20} MiB.", "faultlab status"
            )
    return bytes(out), bytes(err)
