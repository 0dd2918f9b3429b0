"""The command line: what it imports, and how several labs are started by it."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from faultlab.cli.main import VERBS
from faultlab.core import command, events, lock
from faultlab.core.defaults import AUTO
from faultlab.core.errors import BadInput, CannotRun, Problem, SaidNo
from faultlab.core.processes import Outcome
from faultlab.core.terminal import Terminal
from faultlab.engine.vm.engine import in_vm_mark
from faultlab.lab import loader as labs
from faultlab.lab.model import Step
from faultlab.learn import start_many
from faultlab.run import inject, placement
from tests.unit.conftest import REPO, Project, Run
from tests.unit.fake import FakeEngine, engines

HEAVY = ("docker", "requests", "pydantic", "rich", "matplotlib", "jinja2", "markdown_it", "pytest")


def imported_after(code: str) -> set[str]:
    """Which of the heavy packages a new Python has imported after it ran this."""
    asked = f"{code}\nimport sys\nprint(*[name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", asked], cwd=REPO, capture_output=True, text=True, check=True
    )
    return set(done.stdout.splitlines()[-1].split())


def test_the_help_imports_no_heavy_package() -> None:
    code = "from faultlab.cli.main import main\nmain(['start', '--help'])"
    assert imported_after(code) == set()


def test_the_catalogue_needs_neither_docker_nor_markdown() -> None:
    code = "from faultlab.cli.main import main\nmain(['list'])"
    assert imported_after(code) == {"pydantic", "rich"}


def test_a_hint_imports_no_docker() -> None:
    verb = "from faultlab.learn import hints; from faultlab.engine.docker import docker_list"
    assert not imported_after(verb) & {"docker", "requests", "rich"}


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("fix mtu -1", {"lab": "mtu", "fault": -1}),
        ("mystery --seed -7", {"seed": -7}),
        ("mystery --seed=-7", {"seed": -7}),
        ("use --seconds .5 mtu --json web", {"lab": "mtu", "machine": "web", "seconds": 0.5}),
        ("use mtu", {"machine": None, "seconds": 2.0}),
        ("shell mtu", {"machine": ""}),
        ("start --blind mtu gzip --engine vm", {"labs": ("mtu", "gzip"), "wanted": "vm"}),
        ("start -- --odd -", {"labs": ("--odd", "-"), "blind": False}),
        ("verify --all --json - --jobs 2", {"labs": (), "json_file": "-", "jobs": 2}),
        ("verify mtu --quick gzip", {"labs": ("mtu", "gzip"), "quick": True, "everything": False}),
        ("class --name a --name b start", {"file": "class.toml", "names": ("a", "b")}),
    ],
)
def test_words_are_read_in_any_order(line: str, named: dict[str, Any]) -> None:
    verb, *words = line.split()
    got = VERBS[verb].make_context(verb, words).params
    assert {name: got[name] for name in named} == named


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("start gzip qqq mtu", "There is no lab called 'qqq'."),
        ("start gzip mtu --blind", "A mystery is started alone."),
        ("start mystery mtu", "A mystery is started alone."),
    ],
)
def test_several_are_refused_before_any_starts(line: str, problem: str, faultlab: Run) -> None:
    got = faultlab(*line.split())
    assert (got.code, got.out) == (2, "")
    assert got.err.startswith(f"faultlab: {problem}\n  next: ")


def test_a_lab_that_is_named_twice_is_one(
    project: Project, engine: FakeEngine, faultlab: Run
) -> None:
    assert faultlab("start", "mtu", "mtu").code == 0
    assert engine.launched == 1


class TestSeveral:
    """Several labs, each by a stub in place of our own command line."""

    @pytest.fixture(autouse=True)
    def ours(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        stub = tmp_path / "faultlab"
        stub.write_text(
            """#!/bin/sh
            say() { echo "{\\"event\\": \\"$1\\", $2}"; }
            fail() {
            say error "\\"error\\": \\"$1\\", \\"next\\": \\"$2\\", \\"exit_code\\": $3"
            exit $3
            }
            say begin '"name": "stack", "text": "starting"'
            [ -z "$SLOW" ] || exec sleep "$SLOW"
            case "$4" in
            gzip) fail "no effect." look 1 ;;
            busy) fail "no Docker." "" 3 ;;
            swap) kill -9 $$ ;;
            esac
            say result "\\"data\\": {\\"run\\": \\"of-$4\\"}"
            """.replace(" " * 12, "")
        )
        stub.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(stub))
        return stub

    def test_each_gets_a_line_with_what_to_type(self, faultlab: Run) -> None:
        got = faultlab("start", "mtu", "somaxconn")
        assert (got.code, got.err) == (0, "")
        rows = got.out.splitlines()
        assert [row.split()[:2] for row in rows[-2:]] == [["mtu", "up"], ["somaxconn", "up"]]
        assert rows[-1].endswith("its ticket: make lab-somaxconn")
        assert max(map(len, rows)) <= 80

    def test_the_worst_exit_code_wins(self, faultlab: Run) -> None:
        got = faultlab("start", "busy", "mtu", "gzip")
        assert got.code == 1
        assert got.err.endswith("faultlab start busy gzip\n")
        assert "2 of 3 labs are not up." in got.err
        assert "no effect." in got.out and "next: look" in got.out and "no Docker." in got.out
        assert faultlab("start", "busy", "mtu").code == 3
        assert "it ended with -9" in faultlab("start", "swap", "mtu").out

    def test_one_json_object_holds_all(self, faultlab: Run) -> None:
        told = json.loads(faultlab("start", "mtu", "gzip", "--json").out)
        assert [{**lab, "seconds": 0} for lab in told["labs"]] == [
            {"run": "of-mtu", "lab": "mtu", "exit_code": 0, "seconds": 0},
            {"error": "no effect.", "next": "look", "lab": "gzip", "exit_code": 1, "seconds": 0},
        ]

    def test_events_tell_all(self, faultlab: Run) -> None:
        lines = faultlab("start", "mtu", "gzip", "--events").out.split("\n")
        told = [events.read(line) for line in lines]
        steps = [event for event in told if isinstance(event, events.Step)]
        assert (steps[0].name, steps[-1].text) == ("labs", "1 of 2 up; not up 1")
        result, error = told[-3:-1]
        assert isinstance(result, events.Result) and len(result.data["labs"]) == 2
        assert error == events.Error("1 of 2 labs are not up.", "faultlab start gzip", 1)

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_an_interruption_ends_all(
        self, number: signal.Signals, faultlab: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SLOW", "60")
        launched: list[asyncio.subprocess.Process] = []
        launch = asyncio.create_subprocess_exec

        async def then_interrupt(*words: str, **how: Any) -> asyncio.subprocess.Process:
            launched.append(await launch(*words, **how))
            if len(launched) == 2:
                asyncio.get_running_loop().call_later(0.1, signal.raise_signal, number)
            return launched[-1]

        monkeypatch.setattr(asyncio, "create_subprocess_exec", then_interrupt)
        # It is ignored if these tests run in the background.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            assert faultlab("start", "mtu", "somaxconn").code == 3
        finally:
            signal.signal(signal.SIGINT, before)
        assert [one.returncode for one in launched] == [-signal.SIGTERM] * 2


@pytest.mark.parametrize(
    ("line", "doing"),
    [
        ('{"event": "begin", "name": "stack", "text": "starting"}', "stack     starting"),
        ('{"event": "doing", "name": "stack", "text": "web", "seconds": 2}', "stack     web"),
        ('{"event": "flies", "name": "stack", "text": "web"}', "waiting for its turn"),
        ('{"event": "begin"}', "waiting for its turn"),
        ("[]", "waiting for its turn"),
        ("The shop is slow today", "waiting for its turn"),
        ("", "waiting for its turn"),
    ],
)
def test_what_a_lab_is_at(line: str, doing: str) -> None:
    command = start_many.Command("mtu")
    if isinstance(event := events.read(line), events.Step):
        command.hear(event)
    assert command.doing == doing


@pytest.mark.parametrize(
    ("codes", "kind"), [((0, 1, 3), SaidNo), ((2, 3), CannotRun), ((0, 2), BadInput)]
)
def test_the_order_of_badness(
    codes: tuple[int, ...], kind: type[Problem], capsys: pytest.CaptureFixture[str]
) -> None:
    commands = [
        start_many.Command(f"lab{i}", outcome=Outcome(code)) for i, code in enumerate(codes)
    ]
    with pytest.raises(kind):
        start_many._tell(Terminal(), commands, AUTO, 1.0)
    assert capsys.readouterr().out.count("up") == len(codes)


@pytest.mark.parametrize(
    ("step", "later"),
    [
        (Step(at="web", run="ip link set dev eth0 mtu 100"), False),
        (Step(at="web", run="sysctl -w net.core.somaxconn=10 net.ipv4.tcp_tw_reuse=0"), False),
        (Step(at="web", run="sysctl -w a=1; kill -HUP 1"), True),
        (Step(at="web", run="kill -HUP $(pgrep -o -x nginx)"), True),
        (Step(at="nginx", restart=True), True),
    ],
)
def test_what_takes_effect_at_once(step: Step, later: bool) -> None:
    assert inject.takes_effect_later([step]) is later
    assert not inject.takes_effect_later([])


class TestMeanwhile:
    """A job beside the body."""

    def test_both_are_done(self) -> None:
        gate = threading.Event()
        with command.meanwhile(lambda: gate.wait(10)):
            gate.set()
        assert gate.is_set()

    def test_what_the_job_raises_comes_after_the_body(self) -> None:
        def fail() -> None:
            raise CannotRun("no")

        body = []
        with pytest.raises(CannotRun), command.meanwhile(fail):
            body.append(1)
        assert body == [1]


class TestUpInTheVm:
    """A lab that may be up in the VM is looked for there; any other start does not ask."""

    @pytest.fixture
    def asked(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """The engines that were asked; the second is slow to answer."""
        reached: list[str] = []

        class Here(FakeEngine):
            name = "local"

        class There(FakeEngine):
            name = "vm"
            owns_kernel = True

            @classmethod
            def might_host(cls, stack: str) -> bool:
                return in_vm_mark(stack).exists()

            @classmethod
            def reach(cls, patient: bool = False) -> FakeEngine:
                reached.append(cls.name)
                return cls()

        engines(monkeypatch, local=Here, vm=There)
        return reached

    @pytest.mark.parametrize(
        ("lab_id", "wanted", "asks"),
        [
            ("mtu", "auto", False),
            ("mtu", "local", False),
            ("mtu", "vm", True),
            ("conntrack", "auto", True),
        ],
    )
    def test_a_lab_that_belongs_there(
        self, lab_id: str, wanted: str, asks: bool, asked: list[str]
    ) -> None:
        placement.find(labs.load(lab_id), wanted)
        assert asked == ["vm"] * asks

    def test_a_stack_that_was_started_there(self, asked: list[str]) -> None:
        lock.private(lock.folder())
        in_vm_mark("faultlab-mtu").touch()
        placement.find(labs.load("mtu"), "auto")
        assert asked == ["vm"]


@pytest.mark.parametrize("closed", ["| true", "2>/dev/full"])
def test_nobody_reads_the_error(closed: str) -> None:
    """The exit code is that of the error, and there is no traceback."""
    script = f"{sys.executable} -m faultlab start nosuch --json {closed}; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, "Traceback" in done.stderr + done.stdout) == (2, False)
