"""Exec: the connection on which Docker sends the output of a command in a container."""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from typing import Any

from faultlab.core.errors import CannotRun
from faultlab.engine.shell import refuse_flood

_STDERR = 2  # in the headers of the output


@contextmanager
def cut_off_after(line: Any, seconds: float) -> Iterator[None]:
    """Close a connection to Docker that has not ended by then."""
    plain = socket_of(line)
    plain.settimeout(None)  # a command can be silent for longer than Docker itself

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
        getattr(line, "_response", line).close()  # the object that holds the connection


def socket_of(line: Any) -> socket.socket:
    """Return the socket of a connection that `exec_start(socket=True)` opened."""
    found: socket.socket = getattr(line, "_sock", line)
    return found


def answer(line: Any) -> BufferedReader:
    """Return a reader of all data on a connection of `exec_start(socket=True)`.

    The SDK reads the socket itself and loses the data that arrived together with the headers
    (docker/docker-py#3332). Then a quick command on a busy machine seems to print nothing.
    """
    behind_the_headers: BufferedReader = line._response.raw._fp.fp
    return behind_the_headers


def pieces(stream: BufferedReader) -> Iterator[bytes]:
    """Yield the standard output of a command as it arrives, until it ends or is cut off."""
    with suppress(OSError, ValueError):  # closed by us while we read
        while len(header := stream.read(8)) == 8:
            which, length = struct.unpack(">BxxxL", header)
            data = stream.read(length)
            if which != _STDERR:
                yield data


class DockerTalk:
    """A program that `exec_start(socket=True)` has started, with its standard input."""

    def __init__(self, line: Any) -> None:
        self._line = line
        self._socket = socket_of(line)
        self._socket.settimeout(None)  # it can be silent for longer than Docker itself
        self.output: Iterator[bytes] = pieces(answer(line))

    def send(self, data: bytes) -> None:
        """Write to its standard input. Raises CannotRun if its container is gone."""
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise CannotRun("It is not running any more.", "faultlab status") from error

    def close(self) -> None:
        """Cut the connection: Docker ends the program's input then."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        getattr(self._line, "_response", self._line).close()


def both(stream: BufferedReader) -> tuple[bytes, bytes]:
    """Read both outputs of a command to their end. Raises CannotRun if they are too large.

    Source: Docker Engine API, "Attach to a container", stream format.
    """
    out, err = bytearray(), bytearray()
    while len(header := stream.read(8)) == 8:
        which, length = struct.unpack(">BxxxL", header)
        (err if which == _STDERR else out).extend(stream.read(length))
        refuse_flood(len(out) + len(err))
    return bytes(out), bytes(err)
