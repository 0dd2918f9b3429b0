"""Errors of the command line: the exact words, the exit code, no traceback; `--json` as well."""

from __future__ import annotations

import errno
import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import docker
import pytest
from docker.context import ContextAPI

from faultlab.cli import main as cli
from faultlab.core import paths
from faultlab.core.errors import CannotRun
from faultlab.engine.docker.local import LocalEngine
from faultlab.lab import checks
from faultlab.lab import loader as labs
from faultlab.report import catalogue
from faultlab.run.record import Record
from tests.unit.conftest import Project, Run, said
from tests.unit.fake import FakeEngine

CHECK = "checks/test_port_range.py"
NOWHERE = "unix:///nonexistent.sock"
NEED_DOCKER = [
    *(
        (verb, "mtu")
        for verb in ("start", "shell", "use", "hint", "check", "fix", "reset", "down", "transcript")
    ),
    ("verify", "mtu"),
    ("verify", "--all"),
    *((verb,) for verb in ("doctor", "status", "sweep", "images")),
]


@pytest.mark.parametrize(
    ("line", "problem", "hint"),
    [
        ("", "Missing command.", "faultlab --help"),
        ("start", "Missing argument 'LAB...'.", "faultlab start --help"),
        (
            "fly mtu",
            "There is no command 'fly'.",
            "faultlab --help",
        ),
        ("start mtu --now", "No such option '--now'.", "faultlab start --help"),
        (
            "list --mark",
            "No such option '--mark'. Did you mean '--markdown'?",
            "faultlab list --help",
        ),
        ("list --json=1", "Option '--json' does not take a value.", "faultlab list --help"),
        (
            "hint mtu somaxconn",
            "Got unexpected extra argument (somaxconn).",
            "faultlab hint --help",
        ),
        (
            "start mtu --engine moon",
            "There is no engine 'moon'; there are auto, local, vm, kubernetes, node.",
            "faultlab --help",
        ),
        (
            "vm",
            "Missing argument '{up|down|ssh|status|reset}'. "
            "Choose from: up, down, ssh, status, reset.",
            "faultlab vm --help",
        ),
        ("diagnose --cause mtu", "Missing option '--component'.", "faultlab diagnose --help"),
        (
            "verify mtu --jobs two",
            "Invalid value for '--jobs': 'two' is not a valid integer.",
            "faultlab verify --help",
        ),
        (
            "verify mtu --repeat",
            "Option '--repeat' requires an argument.",
            "faultlab verify --help",
        ),
        (
            "verify mtu --json --quick",
            "Option '--json' requires an argument.",
            "faultlab verify --help",
        ),
        (
            "verify mtu --jobs 0",
            "--jobs and --repeat take a number from 1 up.",
            "faultlab verify --help",
        ),
        (
            "verify mtu --repeat -3",
            "--jobs and --repeat take a number from 1 up.",
            "faultlab verify --help",
        ),
        ("verify", "Name some labs, or say --all.", "faultlab verify --help"),
        ("verify mtu --all", "Name some labs, or say --all.", "faultlab verify --help"),
        (
            "verify mtu --json /nowhere/r.json",
            "There is no folder for /nowhere/r.json.",
            "mkdir -p /nowhere",
        ),
        (
            "verify mtu --junit /nowhere/r.xml",
            "There is no folder for /nowhere/r.xml.",
            "mkdir -p /nowhere",
        ),
        ("verify mtu mut", "There is no lab called 'mut'; did you mean mtu?", "faultlab"),
    ],
)
def test_usage(line: str, problem: str, hint: str, faultlab: Run) -> None:
    got = faultlab(*line.split())
    if hint == "faultlab":  # which command follows is test_lab's matter
        hint = got.err.splitlines()[1].removeprefix("  next: ")
    assert got == said(problem, hint, 2)


@pytest.mark.parametrize("words", NEED_DOCKER, ids=" ".join)
def test_no_docker(words: tuple[str, ...], faultlab: Run) -> None:
    assert faultlab(*words) == said(f"Docker does not answer on {NOWHERE}.", "make setup", 3)


def test_an_engine_at_an_address_of_its_own_names_this_address() -> None:
    with pytest.raises(CannotRun, match=r"does not answer on unix:///elsewhere\.sock"):
        LocalEngine("unix:///elsewhere.sock")


def test_what_needs_no_docker(faultlab: Run) -> None:
    assert faultlab("list").code == 0
    assert faultlab("debrief", "mtu").code == 0


def test_no_permission_on_the_socket(faultlab: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK hides the PermissionError of connect() in an error of its own."""
    real = socket.socket.connect

    def connect(self: socket.socket, address: Any) -> None:
        if self.family == socket.AF_UNIX:
            raise PermissionError(errno.EACCES, "Permission denied")
        real(self, address)

    monkeypatch.setattr(socket.socket, "connect", connect)
    monkeypatch.setenv("DOCKER_HOST", "unix:///run/docker.sock")
    assert faultlab("start", "mtu") == said(
        "No permission on Docker's socket (unix:///run/docker.sock).",
        'sudo usermod -aG docker "$USER", then log in again',
        3,
    )


@pytest.mark.parametrize("host", ["tcp://127.0.0.1:1", "ssh://far"])
def test_docker_on_another_machine(
    host: str, faultlab: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Docker on another machine: a verdict rests on this machine's /proc as well."""
    monkeypatch.setenv("DOCKER_HOST", host)
    assert faultlab("status") == said(
        f"This Docker may be on another machine ({host}). Labs run on this one only.",
        "docker context use default; unset DOCKER_HOST DOCKER_CONTEXT",
        3,
    )


def test_the_context_of_the_environment_counts(
    faultlab: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The SDK reads only the one in its file."""
    monkeypatch.delenv("DOCKER_HOST")
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setenv("DOCKER_CONTEXT", "far")
    assert faultlab("status") == said("Docker has no context far.", "docker context ls", 3)


@pytest.mark.parametrize("host", ["foo"])
def test_a_docker_host_that_is_none(
    host: str, faultlab: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", host)
    assert faultlab("status") == said(f"Docker does not answer on {host}.", "make setup", 3)


def test_a_broken_docker_configuration(
    faultlab: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The address itself cannot be found out: the error handler must not stumble over that."""
    monkeypatch.delenv("DOCKER_HOST")

    def no_context() -> None:
        raise docker.errors.ContextException("no context")

    monkeypatch.setattr(ContextAPI, "get_current_context", no_context)
    got = faultlab("status")
    assert got.code == 3 and len(got.err.splitlines()) == 2


@pytest.mark.parametrize("verb", ["shell", "use", "check", "hint", "fix"])
def test_a_lab_that_is_not_up(verb: str, engine: FakeEngine, faultlab: Run) -> None:
    assert faultlab(verb, "mtu") == said("mtu is not up.", "make lab-mtu", 3)


@pytest.fixture
def load_check(faultlab: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A verb that does no more than load the check of a lab, as `start` does behind Docker."""

    def show(*_args: Any, **_more: Any) -> None:
        checks.load(labs.load("port-range"))

    monkeypatch.setattr(catalogue, "show", show)
    return lambda: faultlab("list")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("raise RuntimeError('boom')\n", "RuntimeError: boom"),
        ("raise RuntimeError('boom\\nbang')\n", "RuntimeError: boom bang"),
        ("import nothing_like_it\n", "ModuleNotFoundError: No module named 'nothing_like_it'"),
        ("CHECK = Check(\n", "SyntaxError: '(' was never closed (test_port_range.py, line 1)"),
    ],
)
def test_a_check_that_raises(text: str, problem: str, project: Project, load_check: Run) -> None:
    project.write(CHECK, text)
    assert load_check() == said(f"{CHECK}: {problem}", f".venv/bin/python {CHECK}", 2)


@pytest.mark.parametrize("text", ["CHECK = 5\n", "check = None\n"])
def test_a_check_that_is_none(text: str, project: Project, load_check: Run) -> None:
    project.write(CHECK, text)
    got = load_check()
    happened, following = got.err.splitlines()
    assert got.code == 2 and happened.startswith(f"faultlab: {CHECK}: ") and "CHECK" in happened
    assert following.startswith("  next: ")


def test_a_missing_check(project: Project, load_check: Run) -> None:
    (project.root / CHECK).unlink()
    assert load_check() == said(
        f"{CHECK}: missing file; every lab has its check", "see docs/adding-a-lab.md", 2
    )


def test_a_full_disk(project: Project, faultlab: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_args: Any, **_more: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def begin(*_args: Any, **_more: Any) -> None:
        Record.create("mtu", "faultlab-mtu", {})

    monkeypatch.setattr(Path, "write_text", full)
    monkeypatch.setattr(catalogue, "show", begin)
    got = faultlab("list")
    assert got.code == 3 and re.fullmatch(
        r"faultlab: runs/\S+/run.json cannot be written: No space left on device.\n"
        r"  next: df -h\n",
        got.err,
    )


@pytest.mark.parametrize(
    ("error", "problem", "hint"),
    [
        (
            OSError(errno.ENOSPC, "No space left on device", "/x/overlay.yaml"),
            "/x/overlay.yaml: No space left on device.",
            "df -h",
        ),
        (
            PermissionError(errno.EACCES, "Permission denied", "/x/lab.toml"),
            "/x/lab.toml: Permission denied.",
            "ls -l /x/lab.toml",
        ),
        (KeyboardInterrupt(), "Interrupted.", "faultlab status"),
        (
            KeyError("wrong"),
            "faultlab itself failed: KeyError: 'wrong'",
            "type it again with FAULTLAB_DEBUG=1 before it",
        ),
    ],
)
def test_what_is_unknown_and_no_verdict(
    error: BaseException, problem: str, hint: str, faultlab: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host says no, Ctrl-C, a mistake of ours.

    Exit 1 would say that the system under test was measured and said no.
    """

    def show(*_args: Any, **_more: Any) -> None:
        raise error

    monkeypatch.setattr(catalogue, "show", show)
    assert faultlab("list") == said(problem, hint, 3)


@pytest.mark.parametrize(
    ("line", "code"), [("start mut --json", 2), ("start --json", 2), ("status --json", 3)]
)
def test_json_errors_are_one_object(line: str, code: int, faultlab: Run) -> None:
    got = faultlab(*line.split())
    told = json.loads(got.out)
    assert told["exit_code"] == got.code == code
    assert got.err == f"faultlab: {told['error']}\n  next: {told['next']}\n"


def test_the_console_script_exits_with_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["faultlab", "start", "mut"])
    with pytest.raises(SystemExit) as stop:
        cli.entry()
    assert stop.value.code == 2


def test_a_closed_pipe_is_no_verdict() -> None:
    command = f"{sys.executable} -m faultlab list --markdown labs | true"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], check=False, cwd=paths.root())
    assert done.returncode in (0, 3)


def test_a_locale_without_utf8_is_enough() -> None:
    """Lab files are UTF-8, and so is what is printed; the exit code comes through."""
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    for words, code, wanted in (("list --markdown labs", 0, "●"), ("start mut", 2, "mut")):
        done = subprocess.run(
            [sys.executable, "-m", "faultlab", *words.split()],
            capture_output=True,
            env={**os.environ, **ascii_only},
            cwd=paths.root(),
            check=False,
        )
        assert done.returncode == code, done.stderr
        assert (done.stdout if code == 0 else done.stderr).decode().count(wanted)
