"""The base of all unit tests: no Docker, a command line to call, a copy to break."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from faultlab.cli.main import main
from faultlab.core import lock
from faultlab.engine import cpu_slots
from faultlab.engine.docker import compose
from faultlab.engine.shell import Done, Shell
from faultlab.lab import collection, images
from faultlab.lab import loader as labs
from faultlab.score import tool

if TYPE_CHECKING:
    from tests.unit.fake import FakeEngine
    from tests.unit.served import Served

REPO = Path(__file__).resolve().parents[2]


def recorded(name: str) -> str:
    """Return the recorded output of a program behind a probe."""
    return (REPO / f"tests/recorded/{name}.txt").read_text()


class Printing(Shell):
    """A machine whose commands all print the same; it keeps what was typed."""

    name = "web"
    root = "/proc/7/root"
    pid = "7"

    def __init__(self, out: str = "", code: int = 0, err: str = "") -> None:
        self.said = code, out, err
        self.typed: list[str] = []
        self.waits = 0.0  # seconds for the last command, at most

    def run(self, command: str, timeout: float = 30) -> Done:
        """Print it, and keep the command."""
        self.typed.append(command)
        self.waits = timeout
        return Done(command, *self.said, 0.1)


@dataclass(frozen=True)
class Result:
    """The result of one command line: the exit code and both outputs."""

    code: int
    out: str
    err: str


def said(problem: str, hint: str, code: int = 2) -> Result:
    """Return the result of a command line that ends with an error."""
    return Result(code, "", f"faultlab: {problem}\n  next: {hint}\n")


def told(folder: Path) -> dict[str, Any]:
    """Return what verify has written to r.json in a folder."""
    facts: dict[str, Any] = json.loads((folder / "r.json").read_text())
    return facts


@dataclass(frozen=True)
class Project:
    """A copy of labs and checks that a test may break; the images are the real ones."""

    root: Path

    def write(self, file: str, text: str) -> None:
        """Write a file whole."""
        (self.root / file).write_text(text)

    def change(self, file: str, old: str, new: str) -> None:
        """Replace the first of some words in a file that has them."""
        text = (self.root / file).read_text()
        assert old in text
        self.write(file, text.replace(old, new, 1))

    def run(self, name: str, **facts: Any) -> Path:
        """Put the record of a run where runs are, and return its folder."""
        folder = self.root / "runs" / name
        folder.mkdir(parents=True)
        whole = {
            "schema": 2,
            "id": name,
            "lab": name.split("-", 2)[2][:-5],
            "started": "2026-01-01T00:00:00.000+00:00",
            "events": [],
            "readings": {},
            **facts,
        }
        (folder / "run.json").write_text(json.dumps(whole))
        return folder


Run = Callable[..., Result]

# What a launcher may have set, and what a test must not meet unless it sets it itself: a hook of
# Git, CI, a proxy, a terminal's colours and size.
LAUNCHER = re.compile(
    r"(FAULTLAB|GIT|XDG|DOCKER|COMPOSE|TTY)_.*|.*_proxy|(NO|FORCE)_COLOR|CLICOLOR.*|COLUMNS|LINES"
    r"|LC_.*|LANGUAGE|BUNDLE|POSIXLY_CORRECT|BASH_ENV|CDPATH",
    re.IGNORECASE,
)
MEMORY = "/dev/shm"
PLAIN = {"LANG": "C.UTF-8", "TERM": "xterm"}


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No Docker, no locks of other people, no cache and no signal handler of another test.

    And the environment of a plain terminal, however the tests were launched.
    """
    for name in filter(LAUNCHER.fullmatch, list(os.environ)):
        monkeypatch.delenv(name)
    for name, value in PLAIN.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("FAULTLAB_NAMESPACE", "")
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent.sock")
    monkeypatch.setenv("FAULTLAB_VM_NAME", "of-the-unit-tests")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(lock, "_TOP", tmp_path)
    monkeypatch.setattr(cpu_slots, "_USUAL", 1 << 20)  # one slot, on whatever machine the tests run
    monkeypatch.setattr(collection, "added", lambda: tmp_path / "added")
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    forget()
    yield
    forget()
    for number, handler in handlers.items():
        signal.signal(number, handler)


def forget() -> None:
    """Empty the caches that hold for one process: a test can have labs of its own, in its folder.

    Not that of compose files: it goes by their paths, and each test has its own folder.
    """
    for kept in (images.tag, compose.program, labs.loaded, tool.causes, collection._installed):
        kept.cache_clear()


@pytest.fixture
def project(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Project:
    """The project, copied to where FAULTLAB_ROOT points."""
    root = tmp_path / "project"
    root.mkdir()
    ignored = shutil.ignore_patterns("__pycache__", "*.svg")
    shutil.copyfile(REPO / collection.FILE, root / collection.FILE)
    for name in ("labs", "checks", "decoys"):
        shutil.copytree(REPO / name, root / name, ignore=ignored, copy_function=shutil.copyfile)
    (root / "images").symlink_to(REPO / "images")
    monkeypatch.setenv("FAULTLAB_ROOT", str(root))
    return Project(root)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    """A fake engine, which all commands of a test have."""
    from tests.unit.fake import only_fake

    return only_fake(monkeypatch)


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Served]:
    """A class of three that has begun."""
    from tests.unit.served import served

    with served(tmp_path) as it:
        yield it


@pytest.fixture
def faultlab(capsys: pytest.CaptureFixture[str]) -> Run:
    """`faultlab(*words)`: the command line, without a process of its own."""

    def run(*words: str) -> Result:
        capsys.readouterr()
        try:
            code = main(list(words))
        except SystemExit as stop:
            code = int(stop.code or 0)
        said = capsys.readouterr()
        return Result(code, said.out, said.err)

    return run


def pytest_configure(config: pytest.Config) -> None:
    """The Docker SDK leaves its socket to the collector when nothing answers on it.

    The labs are read while tests are collected; a FAULTLAB_ROOT would point elsewhere. The tests
    make and remove 145,000 small files. On a disk that takes some of them longer than the rest.
    """
    os.environ.pop("FAULTLAB_ROOT", None)
    os.environ.pop(collection.PATH, None)
    os.environ["XDG_STATE_HOME"] = os.devnull  # collections that this user has added
    if os.access(MEMORY, os.W_OK) and not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", MEMORY)
    config.addinivalue_line("filterwarnings", "ignore:unclosed <socket:ResourceWarning")


@pytest.fixture(autouse=True)
def faultlab_in_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hints say `faultlab …` where that can be typed, and `.venv/bin/faultlab …` elsewhere."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
