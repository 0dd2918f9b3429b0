"""Docker list: the containers of local stacks, read from Docker's socket without Docker's SDK.

Importing the SDK takes 0.1 s. If only the SDK knows how to reach Docker (another context, TLS,
ssh), or if Docker does not respond, this returns no answer and the caller uses the SDK.
"""

import http.client
import json
import os
import re
import socket
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from faultlab.core import paths
from faultlab.core.naming import RUN_LABEL, STACK_LABEL

_SCHEME = "unix://"
_SOCKET = "/var/run/docker.sock"
_SECONDS = 5
_ROLE = "com.docker.compose.service"
_EXITED = re.compile(r"Exited \((\d+)\)")
_JUST_UP = re.compile(r"Up (\d+|Less than a) second")


@dataclass(frozen=True)
class Part:
    """One container of a stack: its run, and its state as text (running, exited 137).

    `up`: for how many seconds it runs, in its first minute; Docker rounds it later.
    """

    run: str
    state: str
    up: int | None = field(default=None, compare=False)


def labels(stack: str) -> dict[str, dict[str, str]] | None:
    """Return the labels of each container of the stack, by machine or daemon; None if unknown."""
    found = _containers(f"{STACK_LABEL}={stack}")
    return None if found is None else {role: each["Labels"] for role, each in found}


def stacks() -> dict[str, dict[str, Part]] | None:
    """Return the containers of all stacks, by stack and by machine or daemon; None if unknown."""
    found = _containers(STACK_LABEL)
    if found is None:
        return None
    every: dict[str, dict[str, Part]] = {}
    for role, its in found:
        code = _EXITED.match(its.get("Status", ""))
        state = f"exited {code[1]}" if code else str(its.get("State", ""))
        young = _JUST_UP.match(its.get("Status", ""))
        up = int(young[1]) if young and young[1].isdigit() else 0 if young else None
        part = Part(its["Labels"].get(RUN_LABEL, ""), state, up)
        every.setdefault(its["Labels"][STACK_LABEL], {})[role] = part
    return every


def _containers(label: str) -> list[tuple[str, dict[str, Any]]] | None:
    """Return what Docker lists with this label, by machine or daemon; None if unknown."""
    where = _socket()
    if where is None:
        return None
    wanted = quote(json.dumps({"label": [label]}))
    try:
        found = _get(where, f"/containers/json?all=1&filters={wanted}")
        return [(its["Labels"][_ROLE], its) for its in found if _ROLE in its["Labels"]]
    except (OSError, http.client.HTTPException, ValueError, TypeError, KeyError):
        return None


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
