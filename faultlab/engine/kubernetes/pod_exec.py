"""Pod exec: a command in a container of a pod, over one WebSocket.

A message is a byte with the number of its channel, and data. The last one says how the command
ended. Source: the Kubernetes API, "WebSocket subprotocols for exec and attach".
"""

import json
import shlex
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any
from urllib.parse import quote, urlencode

from faultlab.core.errors import CannotRun
from faultlab.core.later import Later
from faultlab.engine.kubernetes.cluster import Cluster
from faultlab.engine.shell import refuse_flood

websocket: Any = Later("websocket")

STDIN, STDOUT, STDERR, STATUS, RESIZE = range(5)
_PIECE = 1 << 15  # bytes in one message to a command
_PATIENCE = 30.0  # seconds, to connect


@dataclass(frozen=True)
class Place:
    """A container of a pod."""

    namespace: str
    pod: str
    container: str


@dataclass
class PodExec:
    """The connection to a running command."""

    socket: Any
    code: int | None = None  # its exit code when it has ended; None: not known
    problem: str = ""  # why Kubernetes could not run it
    _sending: threading.Lock = field(default_factory=threading.Lock)

    def send(self, channel: int, data: bytes) -> None:
        """Send data on a channel, in pieces."""
        with self._sending:
            for at in range(0, len(data), _PIECE):
                self.socket.send_binary(bytes([channel]) + data[at : at + _PIECE])

    def read(self) -> Iterator[tuple[int, bytes]]:
        """Yield the output as it arrives, each piece with its channel, until the command ends."""
        while self.code is None:
            try:
                opcode, frame = self.socket.recv_data_frame(True)
            except (websocket.WebSocketException, OSError, ValueError):
                return  # cut off
            if opcode == websocket.ABNF.OPCODE_CLOSE:
                return
            if opcode not in (websocket.ABNF.OPCODE_BINARY, websocket.ABNF.OPCODE_TEXT):
                continue
            if len(frame.data) > 1 and frame.data[0] == STATUS:
                self._end(frame.data[1:])
            elif len(frame.data) > 1 and frame.data[0] in (STDOUT, STDERR):
                yield frame.data[0], bytes(frame.data[1:])

    def _end(self, text: bytes) -> None:
        status = json.loads(text)
        if status.get("status") == "Success":
            self.code = 0
            return
        causes = (status.get("details") or {}).get("causes") or []
        codes = [each["message"] for each in causes if each.get("reason") == "ExitCode"]
        self.code = int(codes[0]) if codes else -1
        self.problem = "" if codes else str(status.get("message", "no reason given"))

    def close(self) -> None:
        """Close the connection. The command itself goes on."""
        with suppress(OSError, AttributeError):  # the library drops a socket that has ended
            self.socket.sock.shutdown(socket.SHUT_RDWR)
        with suppress(OSError, websocket.WebSocketException):
            self.socket.shutdown()


class PodTalk:
    """A program in a pod, with its standard input, which ends with the connection."""

    def __init__(self, line: PodExec) -> None:
        self._line = line
        self.output: Iterator[bytes] = (
            piece for channel, piece in line.read() if channel == STDOUT
        )

    def send(self, data: bytes) -> None:
        """Write to its standard input. Raises CannotRun if its container is gone."""
        try:
            self._line.send(STDIN, data)
        except (OSError, websocket.WebSocketException) as error:
            raise CannotRun("It is not running any more.", "faultlab status") from error


def connect(
    cluster: Cluster, at: Place, command: Sequence[str], *, stdin: bool = False, tty: bool = False
) -> PodExec:
    """Start a command in a container. Raises CannotRun if that does not run."""
    flags = {"stdin": stdin, "stdout": True, "stderr": not tty, "tty": tty}
    words = [("container", at.container), *((name, str(on).lower()) for name, on in flags.items())]
    words += [("command", word) for word in command]
    configuration = cluster.client.configuration
    path = f"/api/v1/namespaces/{quote(at.namespace)}/pods/{quote(at.pod)}/exec"
    host = configuration.host.replace("http", "ws", 1).rstrip("/")
    known = configuration.auth_settings().values()  # a token of the kubeconfig, if it has one
    headers = {str(its["key"]).lower(): its["value"] for its in known if its["in"] == "header"}
    try:
        url = f"{host}{path}?{urlencode(words)}"
        ws_client: Any = import_module("kubernetes.stream.ws_client")
        ws_client.WebSocket = _with_limit
        opened = ws_client.create_websocket(configuration, url, headers)
    except websocket.WebSocketBadStatusException as error:
        raise _refused(at, error) from error
    except (websocket.WebSocketException, OSError) as error:
        raise CannotRun(
            f"The Kubernetes API does not respond: {error}", "kubectl cluster-info"
        ) from error
    opened.settimeout(None)  # a command may print nothing for long
    opened.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return PodExec(opened)


def _with_limit(**options: Any) -> Any:
    """Return a WebSocket with a limit on its time to connect. The client of Kubernetes has none."""
    made = websocket.WebSocket(**options)
    made.settimeout(_PATIENCE)
    return made


def _refused(at: Place, error: Any) -> CannotRun:
    body = error.resp_body or b""
    try:
        text = json.loads(body).get("message", "")
    except (ValueError, AttributeError):
        text = body.decode(errors="replace")
    if error.status_code in (400, 404, 500) and (not text or "not found" in text):
        return CannotRun(f"{at.container} is not running any more.", "faultlab status")
    return CannotRun(f"Kubernetes refused: {' '.join(text.split())[:200]}", "faultlab status")


def failed(at: Place, problem: str) -> CannotRun:
    """Return the error for a user when Kubernetes could not run a command in a container."""
    if "error sending request" in problem:
        why = problem.rpartition('": ')[2]
        return CannotRun(f"The API does not reach the kubelet: {why}", "kubectl get nodes -o wide")
    return CannotRun(f"{at.container} is not running any more ({at.pod}).", "faultlab status")


@contextmanager
def cut_off_after(line: PodExec, seconds: float) -> Iterator[None]:
    """Close a connection that has not ended by then."""
    timer = threading.Timer(seconds, line.close)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        line.close()


@dataclass(frozen=True)
class Ended:
    """A command that ended; `code` is None if it was cut off."""

    code: int | None
    out: bytes
    err: bytes
    seconds: float


def run(
    cluster: Cluster, at: Place, command: Sequence[str], seconds: float, data: bytes = b""
) -> Ended:
    """Run a command to its end, at most for some seconds; `data` goes to its standard input.

    Raises CannotRun if its container does not run, or if it prints too much.
    """
    began = time.monotonic()
    line = connect(cluster, at, command, stdin=bool(data))
    printed = {STDOUT: bytearray(), STDERR: bytearray()}
    with cut_off_after(line, seconds):
        if data:
            with suppress(OSError, websocket.WebSocketException):  # it has ended; see below
                line.send(STDIN, data)
        for channel, piece in line.read():
            printed[channel] += piece
            refuse_flood(sum(map(len, printed.values())))
    if line.problem:
        raise failed(at, line.problem)
    seconds = time.monotonic() - began
    return Ended(line.code, bytes(printed[STDOUT]), bytes(printed[STDERR]), seconds)


def unpack(cluster: Cluster, at: Place, folder: str, archive: bytes) -> None:
    """Unpack a tar archive into a folder of a container. Raises CannotRun."""
    script = f"head -c {len(archive)} | tar -x -C {shlex.quote(folder)}"
    done = run(cluster, at, ["sh", "-c", script], 120, archive)
    if done.code != 0:
        ended = "it was cut off" if done.code is None else f"exit code {done.code}"
        said = done.err.decode(errors="replace").strip() or ended
        raise CannotRun(f"The files for {at.container} did not arrive: {said}", "faultlab status")
