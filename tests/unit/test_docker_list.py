"""Peek: what a stand-in for Docker's socket says, and when there is no answer."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from faultlab.engine.docker import docker_list

ROLE = "com.docker.compose.service"


class Docker(BaseHTTPRequestHandler):
    """Answers every question with what `said` holds."""

    said: tuple[int, str] = (200, "[]")
    asked = ""

    def do_GET(self) -> None:
        Docker.asked = self.path
        code, text = self.said
        self.send_response(code)
        self.end_headers()
        self.wfile.write(text.encode())

    def address_string(self) -> str:
        return "nobody"

    def log_message(self, *_words: object) -> None:
        pass


@pytest.fixture(autouse=True)
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    where = tmp_path / "docker.sock"
    with socketserver.UnixStreamServer(str(where), Docker) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        monkeypatch.setenv("DOCKER_HOST", f"unix://{where}")
        yield
        server.shutdown()
        thread.join()


def test_labels_by_role(monkeypatch: pytest.MonkeyPatch) -> None:
    web = {ROLE: "web", "faultlab.run": "r"}
    containers = [{"Labels": web}, {"Labels": {"faultlab.stack": "a helper"}}]
    monkeypatch.setattr(Docker, "said", (200, json.dumps(containers)))
    assert docker_list.labels("faultlab-mtu") == {"web": web}
    assert "faultlab.stack%3Dfaultlab-mtu" in Docker.asked


def test_the_state_of_every_part(monkeypatch: pytest.MonkeyPatch) -> None:
    its = {"faultlab.stack": "faultlab-mtu", "faultlab.run": "r"}
    containers = [
        {"Labels": {**its, ROLE: "web"}, "State": "running", "Status": "Up 2 seconds"},
        {"Labels": {**its, ROLE: "tomcat"}, "State": "exited", "Status": "Exited (137) 1 hour ago"},
    ]
    monkeypatch.setattr(Docker, "said", (200, json.dumps(containers)))
    web, tomcat = docker_list.Part("r", "running"), docker_list.Part("r", "exited 137")
    assert docker_list.stacks() == {"faultlab-mtu": {"web": web, "tomcat": tomcat}}
    monkeypatch.setattr(Docker, "said", (500, ""))
    assert docker_list.stacks() is None


@pytest.mark.parametrize("said", [(500, "[]"), (200, "no json"), (200, "{}"), (200, '[{"a": 1}]')])
def test_what_is_no_answer(said: tuple[int, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Docker, "said", said)
    assert not docker_list.labels("faultlab-mtu")


@pytest.mark.parametrize("host", ["tcp://10.0.0.1:2376", "ssh://host", "unix:///nonexistent.sock"])
def test_no_way_or_nobody_there(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", host)
    assert docker_list.labels("faultlab-mtu") is None


def test_another_context_is_left_to_the_sdk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DOCKER_HOST")
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.delenv("DOCKER_CONTEXT", raising=False)
    assert docker_list._socket() == "/var/run/docker.sock"
    (tmp_path / "config.json").write_text('{"currentContext": "far"}')
    assert docker_list._socket() is None
