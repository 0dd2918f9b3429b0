"""The lock of a stack: who has it is named, and `kill -9` of the holder frees it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from faultlab import engines, lock, stack, status
from faultlab.errors import CannotRun
from tests.conftest import Result, Run

HOLD = """
import sys
from faultlab import lock
with lock.hold("faultlab-mtu", "start mtu"):
    print("held", flush=True)
    sys.stdin.read()
"""
WAIT = "wait until it has ended, then type it again"


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process, in the middle of `faultlab start mtu`."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    with process:
        yield process
        process.kill()


class Quiet:
    """An engine that answers and has nothing."""

    def containers(self, **_labels: str) -> list[Any]:
        return []

    networks = volumes = containers


@pytest.mark.parametrize("verb", ["start", "reset", "down"])
def test_the_holder_is_named(
    verb: str,
    holder: subprocess.Popen[str],
    faultlab: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engines, "Engine", Quiet)
    assert faultlab(verb, "mtu") == Result(
        3,
        "",
        f"faultlab: faultlab-mtu is in use by `faultlab start mtu` (process {holder.pid}).\n"
        f"  next: {WAIT}\n",
    )


def test_kill_9_frees_it(holder: subprocess.Popen[str]) -> None:
    holder.kill()
    holder.wait()
    with lock.hold("faultlab-mtu", "check mtu"):
        held = (lock.folder() / "faultlab-mtu.lock").read_text()
        assert held == f"`faultlab check mtu` (process {os.getpid()})"
    assert (lock.folder() / "faultlab-mtu.lock").read_text() == ""


def test_another_stack_is_free(holder: subprocess.Popen[str]) -> None:
    with lock.hold("faultlab-somaxconn", "start somaxconn"):
        pass


def test_waiting_ends_with_the_holder(holder: subprocess.Popen[str]) -> None:
    got = threading.Event()

    def wait() -> None:
        with lock.hold("faultlab-mtu", "images", wait=True):
            got.set()

    thread = threading.Thread(target=wait)
    thread.start()
    assert not got.wait(0.1)
    holder.kill()
    assert got.wait(5)
    thread.join()


def test_an_error_inside_frees_it() -> None:
    with pytest.raises(RuntimeError), lock.hold("faultlab-mtu", "start mtu"):
        raise RuntimeError
    with lock.hold("faultlab-mtu", "start mtu"):
        pass


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    """/tmp belongs to everybody: nobody may point our lock at a file that we would empty."""
    precious = tmp_path / "precious"
    precious.write_text("keep")
    lock.folder().mkdir()
    (lock.folder() / "faultlab-mtu.lock").symlink_to(precious)
    with pytest.raises(CannotRun, match="cannot be made"), lock.hold("faultlab-mtu", "down"):
        pass
    assert precious.read_text() == "keep"


def test_sweep_leaves_what_is_held_and_says_so_once(
    holder: subprocess.Popen[str],
    faultlab: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`--json` prints one object, also when sweep ends with an error."""
    monkeypatch.setattr(engines, "Engine", Quiet)
    monkeypatch.setattr(stack, "names", lambda _engine: ["faultlab-mtu"])
    monkeypatch.setattr(status, "_sweep_images", lambda *_: [])
    got = faultlab("sweep", "--json")
    assert got.code == 3
    assert json.loads(got.out)["held"] == [
        f"faultlab-mtu is in use by `faultlab start mtu` (process {holder.pid})."
    ]
