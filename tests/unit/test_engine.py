"""What an LocalEngine makes of what Docker sends, in pieces as unlucky as they may be."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import ClassVar

import pytest
from docker.models.containers import Container

from faultlab.core.errors import CannotRun
from faultlab.core.terminal import Terminal
from faultlab.engine import shell
from faultlab.engine.contract import Machine, output_of
from faultlab.engine.docker import helper, local
from faultlab.engine.docker.container import DockerMachine
from faultlab.engine.docker.local import LocalEngine
from faultlab.engine.vm import boot
from tests.unit.fake import FakeProcess

UPGRADED = (
    b"HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.raw-stream\r\n"
    b"Connection: Upgrade\r\nUpgrade: tcp\r\n\r\n"
)


def frame(stream: int, data: bytes) -> bytes:
    """As the Docker LocalEngine API has it, "Attach to a container", stream format."""
    return struct.pack(">BxxxL", stream, len(data)) + data


class Docker(BaseHTTPRequestHandler):
    """Knows one command, and sends its headers and all that it printed in one piece.

    `removals`: the statuses of the next responses to the request to remove a container.
    """

    protocol_version = "HTTP/1.1"
    printed = b""
    removals: ClassVar[list[int]] = []
    updates: ClassVar[list[object]] = []

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self.tell({"ApiVersion": "1.41", "ExitCode": 0, "Id": "1", "Config": {}})

    def do_DELETE(self) -> None:
        self.tell({"message": "no exit event"}, self.removals.pop(0))

    def do_POST(self) -> None:
        asked = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path.endswith("/update"):
            self.updates.append(json.loads(asked))
        if "/exec/" not in self.path or not self.path.endswith("/start"):
            return self.tell({"Id": "1"})
        self.wfile.write(UPGRADED + self.printed)
        self.close_connection = True

    def tell(self, what: dict[str, object], status: int = 200) -> None:
        body = json.dumps(what).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def engine() -> Iterator[LocalEngine]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Docker)
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        local = LocalEngine(f"tcp://127.0.0.1:{server.server_port}")
        yield local
        local.client.close()
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def machine(engine: LocalEngine) -> Machine:
    cache = Container({"Id": "cache", "Config": {"Labels": {}}}, engine.client)
    return DockerMachine("cache", cache, engine)


@pytest.mark.parametrize("statuses", [[204], [404], [500, 204], [409, 409, 404]])
def test_a_helper_is_gone_at_its_end(
    engine: LocalEngine, statuses: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Docker can refuse to remove a container that is just ending."""
    monkeypatch.setattr(Docker, "removals", [*statuses])
    with engine.sidecar("stack", 10):
        pass
    assert Docker.removals == []


def test_a_helper_that_stays_is_an_error(
    engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Docker, "removals", [500] * 100)
    monkeypatch.setattr(helper, "_PATIENCE", 0.2)
    with pytest.raises(CannotRun, match="no exit event"), engine.sidecar("stack", 10):
        pass


def test_limits_as_docker_update_sets_them(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Docker, "updates", [])
    machine.limit(0.5, "1m", 300)
    machine.limit(None, None, -1)
    sizes = {"Memory": 1 << 20, "MemorySwap": 1 << 20}
    assert Docker.updates == [
        {"NanoCpus": 500_000_000, **sizes, "PidsLimit": 300},
        {"PidsLimit": -1},
    ]


def test_what_came_with_the_headers_is_not_lost(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = frame(1, b"a" * 5000) + frame(2, b"no such file\n") + frame(1, b"b" * 20_000)
    monkeypatch.setattr(Docker, "printed", printed)
    done = machine.run("true")
    assert (done.code, done.err) == (0, "no such file\n")
    assert done.out == "a" * 5000 + "b" * 20_000


def test_a_command_that_prints_nothing(machine: Machine) -> None:
    done = machine.run("true")
    assert (done.code, done.out, done.err) == (0, "", "")


def test_a_command_that_prints_without_end(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell, "_MOST_OUTPUT", 1 << 20)
    monkeypatch.setattr(Docker, "printed", frame(1, b"y\n" * 1000) * 1000)
    with pytest.raises(CannotRun, match="printed more than 1 MiB"):
        machine.run("yes")


@pytest.mark.parametrize(
    ("info", "parts", "why"),
    [
        ({"SecurityOptions": ["name=seccomp,profile=default"]}, ["Engine", "containerd"], ""),
        ({"SecurityOptions": ["name=seccomp", "name=rootless"]}, ["Engine"], "rootless Docker"),
        ({"SecurityOptions": ["name=rootless"]}, ["Podman Engine", "Conmon"], "Podman"),
        ({}, [], ""),
    ],
)
def test_what_answers_like_docker(info: dict[str, object], parts: list[str], why: str) -> None:
    found = local._unfit(info, parts)
    assert why in found and bool(found) == bool(why)


def test_no_vm_for_another_kind_of_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    with pytest.raises(CannotRun, match="on x86-64 only, and this is aarch64"):
        boot.bring_up(Terminal())


@pytest.mark.parametrize(("printed", "said"), [(b"a\nno\n", "no"), (b"", "exit code 3")])
def test_a_script_that_fails_is_an_error_with_its_last_line(printed: bytes, said: str) -> None:
    class Failed(FakeProcess):
        def wait(self, seconds: float) -> int:
            return 3

    with pytest.raises(CannotRun, match=f"A helper failed: {said}"):
        output_of(Failed(printed))
    assert output_of(FakeProcess(b"ok\n")) == "ok\n"
