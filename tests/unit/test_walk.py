"""A whole lab without Docker: on the fake engine, which keeps the contract of the real ones."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from faultlab.core import events, lock
from faultlab.core.errors import CannotRun, SaidNo
from faultlab.core.lock import Held
from faultlab.core.naming import stack_name, verify_namespace
from faultlab.core.terminal import Terminal
from faultlab.engine.stack import Stack
from faultlab.lab import load as labs
from faultlab.learn import checking, learner
from faultlab.run import placement, preflight
from faultlab.run import run as runs
from faultlab.run.contract import Contract, cheat, walk
from faultlab.run.readings import FAULTY, FIXED, HEALTHY
from faultlab.run.record import Record
from faultlab.run.run import Run
from faultlab.verify import verify
from tests.engine import EngineContract
from tests.unit.conftest import Project
from tests.unit.conftest import Run as Verbs
from tests.unit.fake import FakeEngine, only_fake


class TestFakeEngine(EngineContract):
    """The fake engine keeps the contract."""

    @pytest.fixture(scope="class")
    @classmethod
    def engine(cls) -> FakeEngine:
        return FakeEngine()

    @pytest.fixture(scope="class")
    @classmethod
    def stack(cls, engine: FakeEngine, tmp_path_factory: pytest.TempPathFactory) -> Stack:
        engine.launch(labs.load("mtu"), "faultlab-mtu", "r", tmp_path_factory.mktemp("run"))
        made = Stack(engine, "faultlab-mtu")
        made.make_ready()
        return made


@pytest.fixture
def begun(project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """A run of mtu on a fake engine."""
    monkeypatch.setattr(runs, "_TAKES_EFFECT", 0.0)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert project.root
    return Run.begin(FakeEngine(), labs.load("mtu"), stack_name("mtu"))


def test_a_whole_lab(begun: Run) -> None:
    walk(begun)
    begun.down()
    wanted = {HEALTHY, FAULTY, FIXED, "alternative 1, before", "alternative 1", cheat(1)}
    assert wanted <= {*begun.phases}
    assert begun.reading(FIXED).answers
    # The page does not come after this cheat. It is not waited for again.
    assert begun.reading(cheat(1)).answers == {}
    told = Contract()
    for name in (name for name in dir(Contract) if name.startswith("test_")):
        test = getattr(told, name)
        test(begun)


def test_the_last_fresh_stack_is_healthy_before_its_fault(
    begun: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The late look needs no stack of its own."""
    made: list[str] = []
    again, still = begun.again, begun.healthy_still

    def fresh() -> None:
        made.append("fresh")
        again()

    def late() -> None:
        made.append("late")
        still()

    monkeypatch.setattr(begun, "again", fresh)
    monkeypatch.setattr(begun, "healthy_still", late)
    walk(begun)
    begun.down()
    trials = len(begun.lab.alternative) + len(begun.lab.cheat)
    assert made == [*["fresh"] * trials, "late"]


def test_an_interrupted_verify_removes_what_no_other_command_holds(begun: Run) -> None:
    engine = begun.engine
    other, ours = (stack_name(lab_id, verify_namespace()) for lab_id in ("mtu", "gzip"))
    for name in (other, ours):
        engine.launch(labs.load("mtu"), name, "r", begun.record.folder)
    with lock.hold(other, "verify"):
        verify._take_down({"mtu": engine, "gzip": engine})
    assert {other, ours} & {*engine.stacks()} == {other}


def test_two_commands_try_the_machine_one_after_the_other(project: Project) -> None:
    """The second one was refused, and two campaigns could not begin at the same time."""
    assert project.root
    name, tried = stack_name("doctor"), threading.Event()

    def second() -> None:
        preflight.examine(FakeEngine())
        tried.set()

    with lock.hold(name, "doctor"):
        thread = threading.Thread(target=second)
        thread.start()
        assert not tried.wait(0.3)
    assert tried.wait(10)
    thread.join()


def test_before_labs_are_verified_only_what_they_require_is_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A whole stack was started for it, also for labs that require nothing."""
    tried: list[str] = []

    class Here(FakeEngine):
        def once(self, image: str, script: str, stack: str, rights: Sequence[str] = ()) -> str:
            tried.append(script)
            return "lacks iptables-hashlimit\n"

        def launch(self, *_: Any, **__: Any) -> None:
            raise AssertionError("a stack")

    monkeypatch.setattr(placement, "ENGINES", {"local": Here})
    certificate, flood = labs.load("certificate"), labs.load("syn-flood")
    assert placement.engines_of(Terminal(), [certificate], "local")[1] == {}
    assert tried == []
    places, cannot = placement.engines_of(Terminal(), [certificate, flood], "local")
    assert [*places] == ["certificate"]
    assert "this kernel has no iptables-hashlimit" in cannot["syn-flood"]
    assert len(tried) == 1 and "hashlimit" in tried[0] and "netem" not in tried[0]


@pytest.fixture
def learners(begun: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The same run in the hands of a learner, after the fault."""

    @contextmanager
    def attached(_lab: str, _verb: str) -> Iterator[Run]:
        yield begun

    monkeypatch.setattr(learner, "attached", attached)
    begun.healthy()
    begun.inject()
    return begun


WHOLE = ["Every connection to the port opens.", "The page arrives whole."]
GONE = ["Every connection to the port opens.", "The page does not arrive."]


def test_a_check_says_in_words_what_users_meet(
    learners: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    """Below the table: a line for each measure, first ill and then well."""
    with pytest.raises(SaidNo):
        checking.check(Terminal(), "mtu")
    ill = capsys.readouterr().out
    learners.apply("fix", learners.lab.fix)
    checking.check(Terminal(), "mtu")
    well = capsys.readouterr().out
    for out, said in ((ill, GONE), (well, WHOLE)):
        below = out.partition("measured here")[2]
        points = [line.rstrip() for line in below.splitlines() if line.startswith("- ")]
        assert (points[0], points[2], len(points)) == (f"- {said[0]}", f"- {said[1]}", 4)
        assert all(len(line.rstrip()) <= 80 for line in out.splitlines())


def test_a_check_says_the_same_to_a_program(
    learners: Run,
) -> None:
    with pytest.raises(SaidNo) as no:
        checking.check(Terminal(as_json=True), "mtu")
    found = json.loads(events.text(no.value.result))["findings"]
    assert [{*each} for each in found] == [{"name", "value", "unit", "wanted", "holds", "says"}] * 4
    assert [found[0]["says"], found[2]["says"]] == GONE
    assert learners.lab.id not in json.dumps([each["says"] for each in found])


def test_a_fault_without_effect_is_refused(begun: Run) -> None:
    begun.healthy()
    with pytest.raises(SaidNo, match="the fault has no effect"):
        begun.gate()


def test_a_stack_that_goes_away_proves_nothing(begun: Run) -> None:
    begun.healthy()
    begun.engine.down(begun.stack.name)
    with pytest.raises(CannotRun):
        begun.measure(FAULTY)


def test_the_verbs_of_a_learner(
    project: Project, faultlab: Verbs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new kind of engine is one line of placement: no verb knows which one it has."""
    monkeypatch.setattr(runs, "_TAKES_EFFECT", 0.0)
    engine = only_fake(monkeypatch)
    assert project.root
    assert faultlab("start", "mtu", "--engine", "fake").code == 0
    assert engine.stacks() == [stack_name("mtu")]
    for words, code in (
        ("start mtu", 0),
        ("status", 0),
        ("hint mtu", 0),
        ("check mtu", 1),
        ("fix mtu", 0),
        ("check mtu", 0),
        ("debrief mtu", 0),
        ("reset mtu", 0),
        ("check mtu", 1),
        ("down mtu", 0),
        ("check mtu", 3),
        ("start mtu --engine local", 2),
        ("start conntrack", 3),
    ):
        got = faultlab(*words.split())
        assert got.code == code, (words, got)
    assert engine.stacks() == []


def test_nobody_takes_the_lab_of_another_user(
    project: Project, faultlab: Verbs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several people on one server: the second `make lab-mtu` destroyed the first one's stack."""
    monkeypatch.setattr(runs, "_TAKES_EFFECT", 0.0)
    engine = only_fake(monkeypatch)
    assert project.root
    assert faultlab("start", "mtu").code == 0
    before = engine.machines(stack_name("mtu"))
    for machine in before:
        machine.owner = "anna in /home/anna/faultlab"
    for words in ("start", "reset", "check", "fix", "down"):
        got = faultlab(words, "mtu")
        assert (got.code, "faultlab-mtu belongs to anna in /home/anna/faultlab." in got.err) == (
            3,
            True,
        )
        assert "export FAULTLAB_NAMESPACE=" in got.err
    with pytest.raises(Held):
        Run.begin(engine, labs.load("mtu"), stack_name("mtu"))
    assert faultlab("sweep").code == 3
    assert "anna" in faultlab("status").out
    assert engine.machines(stack_name("mtu")) == before


@pytest.mark.parametrize(
    ("lab_id", "ended", "ready"),
    [
        ("heap-oom", [], True),
        ("heap-oom", ["tomcat exited 3"], True),  # its fault ends the shop
        ("heap-oom", ["app exited 255"], False),  # the host was started again
        ("mtu", ["nginx exited 1"], False),
    ],
)
def test_a_lab_whose_fault_ends_a_daemon_is_up(
    lab_id: str, ended: list[str], ready: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second `start` of it must not replace it, with all that its learner has done."""
    lab = labs.load(lab_id)
    stack = cast(Any, Up({name: None for name in lab.services.needed(lab.daemons)}))
    stack.run_id, stack.stopped = "run", lambda: ended
    monkeypatch.setattr(Record, "ready", lambda _run: object())
    assert learner._ready(lab, stack) is ready


class Up(dict[str, None]):
    """The containers of a stack, by name."""


class Counted(FakeEngine):
    """It counts the helpers that are still there."""

    helpers = began = 0

    @contextmanager
    def lines(self, *args: Any, **options: Any) -> Iterator[Iterator[str]]:
        """Print nothing."""
        self.helpers, self.began = self.helpers + 1, self.began + 1
        try:
            yield iter([])
        finally:
            self.helpers -= 1


@pytest.mark.parametrize("breaks", [(Stack, "make_ready"), (Run, "healthy"), (Run, "gate")])
def test_a_lab_that_does_not_start_leaves_no_helper(
    breaks: tuple[type, str], project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert project.root
    engine = Counted()

    def broken(*args: object) -> None:
        raise CannotRun("It is broken.")

    monkeypatch.setattr(Stack, "make_ready", lambda _self: None)
    for name in ("healthy", "inject"):
        monkeypatch.setattr(Run, name, lambda _self: None)
    monkeypatch.setattr(*breaks, broken)
    monkeypatch.setattr(placement, "choose", lambda *args: engine)
    # Its traceback keeps the helpers, so that nothing else ends them.
    with pytest.raises(CannotRun, match="It is broken") as error:
        learner.begin(Terminal(as_json=True), labs.load("mtu"), "auto")
    assert error.traceback and engine.began and engine.helpers == 0 and engine.stacks() == []
