"""Peek: the containers of a local stack, read from Docker's socket without Docker's SDK.

Importing the SDK takes 0.1 s. If only the SDK knows how to reach Docker (another context, TLS,
ssh), or if Docker does not respond, this returns no answer and the caller uses the SDK.
"""

import http.client
import json
import os
import socket
from typing import Any
from urllib.parse import quote

from faultlab.core import paths

_SCHEME = "unix://"
_SOCKET = "/var/run/docker.sock"
_SECONDS = 5


def labels(stack: str) -> dict[str, dict[str, str]] | None:
    """Return the labels of each container of the stack, by machine or daemon; None if unknown."""
    where = _socket()
    if where is None:
        return None
    wanted = json.dumps({"label": [f"faultlab.stack={stack}"]})
    try:
        containers = _get(where, f"/containers/json?all=1&filters={quote(wanted)}")
        found = [container["Labels"] for container in containers]
    except (OSError, http.client.HTTPException, ValueError, TypeError, KeyError):
        return None
    role = "com.docker.compose.service"
    return {its[role]: its for its in found if role in its}


def _socket() -> str | None:
    """Return the socket of the Engine that `docker` uses, if that is quick to find."""
    host = os.environ.get("DOCKER_HOST", "")
    if host:
        return host.removeprefix(_SCHEME) if host.startswith(_SCHEME) else None
    try:
        text = (paths.docker_config() / "config.json").read_text()
        chosen = json.loads(text).get("currentContext")
    except FileNotFoundError:
        chosen = None
    except (OSError, ValueError, AttributeError):
        return None
    chosen = os.environ.get("DOCKER_CONTEXT") or chosen or "default"
    return _SOCKET if chosen == "default" else None


class _Connection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_SECONDS)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket instead of a host."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(_SECONDS)
        self.sock.connect(self._path)


def _get(where: str, path: str) -> Any:
    connection = _Connection(where)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        if answer.status != http.client.OK:
            raise ValueError(answer.reason)
        return json.loads(answer.read())
    finally:
        connection.close()
