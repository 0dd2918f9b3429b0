"""Podterminal: a shell with a terminal in a container of a pod.

A caller wants a socket with the plain bytes of the terminal. Kubernetes has messages with the
number of a channel, so two threads translate.
"""

import json
import secrets
import socket
import threading
from contextlib import suppress

from faultlab.core.errors import CannotRun
from faultlab.engine.docker.attach import HANG_UP, MARK
from faultlab.engine.kubernetes import pod_exec
from faultlab.engine.kubernetes.cluster import Cluster


class PodTerminal:
    """One shell with a terminal in one container."""

    def __init__(self, cluster: Cluster, at: pod_exec.Place, prompt: str) -> None:
        """Prepare. `prompt`: see Machine.prompt."""
        self._cluster = cluster
        self._at = at
        self._prompt = prompt
        self._mark = f"{MARK}={secrets.token_hex(8)}"
        self._exec: pod_exec.PodExec | None = None
        self._ours: socket.socket | None = None
        self.first = b""  # nothing is read before the socket is

    def open(self) -> socket.socket:
        """Start the shell. Raises CannotRun if the container does not run."""
        command = ["env", self._mark, self._prompt, "TERM=xterm-256color", "bash"]
        self._exec = pod_exec.connect(self._cluster, self._at, command, stdin=True, tty=True)
        self._ours, theirs = socket.socketpair()
        for work in (self._from_shell, self._to_shell):
            threading.Thread(target=work, args=(self._exec, self._ours), daemon=True).start()
        theirs.setblocking(False)
        return theirs

    def _from_shell(self, shell: pod_exec.PodExec, ours: socket.socket) -> None:
        with suppress(OSError):
            for _, piece in shell.read():
                ours.sendall(piece)
        with suppress(OSError):
            ours.shutdown(socket.SHUT_RDWR)

    def _to_shell(self, shell: pod_exec.PodExec, ours: socket.socket) -> None:
        with suppress(OSError, CannotRun):
            while typed := ours.recv(1 << 14):
                shell.send(pod_exec.STDIN, typed)

    def resize(self, columns: int, rows: int) -> None:
        """Tell the shell the size of its window."""
        if self._exec is not None:
            size = json.dumps({"Width": columns, "Height": rows}).encode()
            with suppress(OSError):
                self._exec.send(pod_exec.RESIZE, size)

    def ended(self) -> bool:
        """Return False: the connection ends together with the container."""
        return False

    def close(self) -> None:
        """Hang up the shell, as a terminal does, without waiting for the container."""
        if self._exec is None or self._ours is None:
            return
        self._exec.close()
        with suppress(OSError):
            self._ours.close()
        script = HANG_UP.format(mark=self._mark)
        with suppress(CannotRun):
            pod_exec.connect(self._cluster, self._at, ["timeout", "10", "sh", "-c", script]).close()
