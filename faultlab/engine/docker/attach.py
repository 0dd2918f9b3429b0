"""Attach: a shell with a terminal in a container, by `docker exec`.

Docker leaves a shell running when its connection ends. So we send it SIGHUP as the leader of its
session, and its foreground processes end with it.
"""

import secrets
import socket
from contextlib import suppress
from typing import Any

from faultlab.core.errors import CannotRun
from faultlab.engine.docker.connection import Docker
from faultlab.engine.docker.exec import answer, socket_of

MARK = "TERMINAL_OF"
# The shell leads a session that has a terminal; a daemon that it started has left the session.
HANG_UP = """
for p in /proc/[0-9]*; do
  grep -qz '^{mark}$' $p/environ 2>/dev/null || continue
  stat=$(cat $p/stat 2>/dev/null) && set -- ${{stat##*) }}
  [ "$4" = "${{p#/proc/}}" ] && [ "$5" != 0 ] && kill -HUP ${{p#/proc/}}
done
true
"""


class DockerTerminal:
    """One shell with a terminal in one container."""

    def __init__(self, container: str, url: str, prompt: str) -> None:
        """Prepare. `prompt`: see Machine.prompt."""
        self.container = container
        self._url = url
        self._prompt = prompt
        self._docker: Docker | None = None
        self._mark = f"{MARK}={secrets.token_hex(8)}"
        self._id = ""
        self._stream: Any = None  # keeps the socket open
        self.first = b""  # what the shell printed before we could read from the socket

    def open(self) -> socket.socket:
        """Start the shell. Raises CannotRun if the container does not run."""
        self._docker = Docker(self._url)
        api = self._docker.client.api
        env = [self._mark, self._prompt, "TERM=xterm-256color"]
        with self._docker.errors():
            made = api.exec_create(self.container, ["bash"], tty=True, stdin=True, environment=env)
            self._id = made["Id"]
            self._stream = api.exec_start(self._id, tty=True, socket=True)
        found = socket_of(self._stream)
        found.setblocking(False)
        self.first = answer(self._stream).read1()
        return found

    def resize(self, columns: int, rows: int) -> None:
        """Tell the shell the size of its window."""
        if self._docker is not None:
            with suppress(CannotRun), self._docker.errors():
                self._docker.client.api.exec_resize(self._id, height=rows, width=columns)

    def ended(self) -> bool:
        """Return whether Docker has forgotten the shell.

        A daemon has the processes of its machine. When its container stops, Docker 20.10 ends the
        shell there and leaves the connection open.
        """
        if self._docker is None:
            return False
        try:
            with self._docker.errors():
                return not self._docker.client.api.exec_inspect(self._id)["Running"]
        except CannotRun as problem:
            from docker.errors import NotFound

            return isinstance(problem.__cause__, NotFound)  # any other error can pass

    def close(self) -> None:
        """Hang up the shell, as a terminal does, without waiting for the container."""
        if self._docker is None:
            return
        if self._stream is not None:
            with suppress(OSError):
                self._stream.close()
        with suppress(CannotRun), self._docker.errors():
            api = self._docker.client.api
            script = HANG_UP.format(mark=self._mark)
            hang_up = api.exec_create(self.container, ["timeout", "10", "sh", "-c", script])["Id"]
            api.exec_start(hang_up, detach=True)
        with suppress(CannotRun), self._docker.errors():
            self._docker.client.close()
