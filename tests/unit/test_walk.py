"""A whole lab without Docker: on the fake engine, which keeps the contract of the real ones."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import wraps
from types import SimpleNamespace
from typing import Any

import pytest

from faultlab.core import events, lock
from faultlab.core.errors import CannotRun, Problem, SaidNo
from faultlab.core.lock import Held
from faultlab.core.naming import stack_name, verify_namespace
from faultlab.core.terminal import Terminal
from faultlab.engine.contract import Machine
from faultlab.engine.stack import Stack
from faultlab.lab import loader as labs
from faultlab.lab.check import Measure
from faultlab.lab.leftover import Leftover
from faultlab.lab.limits import at_least_times, at_most_times
from faultlab.lab.outage import Outage
from faultlab.learn import checking, learner
from faultlab.run import inject, leftovers, placement, preflight
from faultlab.run.contract import Contract, walk
from faultlab.run.phase import FAULTY, FIXED, HEALTHY, STILL, cheat
from faultlab.run.readings import Measured
from faultlab.run.record import READY, Record
from faultlab.run.run import Run
from faultlab.verify import verify
from tests.engine import EngineContract
from tests.unit.conftest import Project
from tests.unit.conftest import Run as Verbs
from tests.unit.fake import FakeEngine, engines, only_fake


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
def begun(project: Project, engine: FakeEngine) -> Run:
    """A run of mtu."""
    return Run.begin(engine, labs.load("mtu"), stack_name("mtu"))


def test_a_whole_lab(begun: Run, engine: FakeEngine) -> None:
    """The late look at a healthy stack needs none of its own: it is at that of the last trial."""
    limits = at_most_times(2), at_least_times(5)
    time = Measure[Any]("time", lambda now: 1.0 if now.page.bytes else 9.0, *limits)
    begun.check = replace(begun.check, symptom=(*begun.check.symptom, time))
    walk(begun)
    begun.down()
    trials = len(begun.lab.alternative) + len(begun.lab.cheat)
    assert engine.launched == 1 + trials and [*begun.phases].index(STILL) > len(begun.phases) - 4
    wanted = {HEALTHY, FAULTY, FIXED, "alternative 1, before", "alternative 1", cheat(1)}
    assert wanted <= {*begun.phases}
    assert begun.reading(FIXED).answers
    # The page does not come after this cheat. It is not waited for again.
    assert begun.reading(cheat(1)).answers == {}
    told = Contract()
    for name in (name for name in dir(Contract) if name.startswith("test_")):
        test = getattr(told, name)
        test(begun)


def test_an_interrupted_verify_removes_what_no_other_command_holds(
    begun: Run, engine: FakeEngine
) -> None:
    other, ours = (stack_name(lab_id, verify_namespace()) for lab_id in ("mtu", "gzip"))
    for name in (other, ours):
        engine.launch(labs.load("mtu"), name, "r", begun.record.folder)
    with lock.hold(other, "verify"):
        verify._take_down({"mtu": engine, "gzip": engine})
    assert {other, ours} & {*engine.stacks()} == {other}


def test_two_commands_try_the_machine_one_after_the_other(project: Project) -> None:
    """The second one was refused, and two campaigns could not begin at the same time."""
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

    engines(monkeypatch, local=Here)
    certificate, flood = labs.load("certificate"), labs.load("syn-flood")
    assert placement.engines_of(Terminal(), [certificate], "local")[1] == {}
    assert tried == []
    places, cannot = placement.engines_of(Terminal(), [certificate, flood], "local")
    assert [*places] == ["certificate"]
    assert "this kernel has no iptables-hashlimit" in cannot["syn-flood"]
    assert len(tried) == 1 and "hashlimit" in tried[0] and "netem" not in tried[0]


@pytest.fixture
def learners(begun: Run) -> Run:
    """The same run in the hands of a learner, after the fault."""
    begun.healthy()
    begun.inject()
    begun.record.event(READY)
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


def seen(run: Run) -> list[dict[str, Any]]:
    """The verdicts in a record."""
    events = Record.read(run.record.id).facts["events"]
    found = [e for e in events if e["event"] in ("check", "later")]
    return [
        {key: its for key, its in e.items() if key not in ("t", "popular", "found")} for e in found
    ]


def test_a_learner_hears_how_to_see_if_it_lasts(
    learners: Run, engine: FakeEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    learners.apply("fix", learners.lab.fix)
    assert checking.check(Terminal(), "mtu").later is None
    assert "faultlab check mtu --later\n" in capsys.readouterr().out
    assert (seen(learners), engine.paused) == ([{"event": "check", "fixed": True}], [])


def test_the_later_look_counts(learners: Run, engine: FakeEngine) -> None:
    with pytest.raises(SaidNo, match="not fixed yet"):
        checking.check(Terminal(), "mtu", 3)
    assert engine.paused == []
    inject.apply(learners.stack, learners.lab.fix)
    found = checking.check(Terminal(as_json=True), "mtu", 0.5)
    assert (found.verdict, found.later, engine.paused) == ("pass", 0.5, [5.0] * 6)
    assert seen(learners)[1:] == [
        {"event": "check", "fixed": True, "later": 0.5},
        {"event": "later", "fixed": True},
    ]


def test_a_repair_that_ends_soon(
    learners: Run, engine: FakeEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    learners.apply("fix", learners.lab.fix)
    engine.meanwhile.append(lambda: inject.apply(learners.stack, learners.lab.inject))
    with pytest.raises(SaidNo, match="mtu is not fixed for good") as no:
        checking.check(Terminal(), "mtu", 1)
    assert "mtu: repaired; looked at again in 1 minute" in capsys.readouterr().out
    assert isinstance(no.value.result, checking.Checked) and no.value.result.later == 1
    assert seen(learners)[-1] == {"event": "later", "fixed": False}


def test_a_mystery_is_looked_at_again_by_itself(project: Project, engine: FakeEngine) -> None:
    drawn = Run.begin(engine, labs.load("mtu").called("mystery"), stack_name("mystery"))
    drawn.record.facts["lab"] = "mtu"
    drawn.healthy()
    drawn.record.event(READY)
    checking.check(Terminal(), "mystery")
    checking.check(Terminal(), "mystery", 0)
    checking.check(Terminal(), "mystery", 2, only_late=True)
    assert sum(engine.paused) == 180
    assert [(e["event"], e.get("later")) for e in seen(drawn)] == [
        *(("check", 3.0), ("later", None), ("check", None), ("later", None))
    ]


def test_another_run_is_not_looked_at(learners: Run, engine: FakeEngine) -> None:
    """A reset in the meantime: its fault is there again, and nobody has failed."""
    learners.apply("fix", learners.lab.fix)
    engine.meanwhile.append(lambda: learner.reset(Terminal(as_json=True), "mtu", "fake"))
    with pytest.raises(CannotRun, match="mtu was started again"):
        checking.check(Terminal(), "mtu", 1)


@pytest.mark.parametrize("phase", ["check", "later", "verdict", "repair 3"])
def test_what_an_examinee_has_ended_is_a_no(learners: Run, engine: FakeEngine, phase: str) -> None:
    """It is in the reading, so a recorded run is judged the same."""
    engine.end("nginx")
    learners.measure(phase)
    assert learners.reading(phase).outages == (Outage("nginx", 137),)
    [found] = learners.good(phase)
    assert (found.holds, found.says) == (
        False,
        "nginx has ended (exit code 137); its users get nothing.",
    )
    assert learners.harmed(phase) and learners.bad(phase) == []
    assert Measured(learners.lab, learners.check, learners.record).good(phase) == [found]


@pytest.mark.parametrize("phase", [HEALTHY, FAULTY, FIXED, "cheat 1"])
def test_what_has_ended_otherwise_proves_nothing(
    learners: Run, engine: FakeEngine, phase: str
) -> None:
    engine.end("nginx")
    with pytest.raises(CannotRun, match=r"nginx \(exit code 137\) is not running") as problem:
        learners.measure(phase)
    assert problem.value.hint == "fake start nginx"


@pytest.mark.parametrize("fails", [1, 2])
def test_what_cannot_be_measured_after_a_repair_is_a_no(learners: Run, fails: int) -> None:
    """An examinee who spoils a measurement has no case less. One failure can be a stall."""
    learners.apply("fix", learners.lab.fix)
    left, look = [CannotRun("PHP-FPM printed no JSON.")] * fails, learners.check.look

    @wraps(look)  # its type is that of the readings
    def failing(stack: Stack) -> Any:
        if left:
            raise left.pop()
        return look(stack)

    learners.check = replace(learners.check, look=failing)
    learners.measure("check")
    found = learners.good("check")
    assert all(finding.holds for finding in found) is (fails == 1)
    if fails == 2:
        [finding] = found
        assert finding.says.endswith("could not be measured, twice: PHP-FPM printed no JSON.")
        with pytest.raises(CannotRun, match="no JSON"):  # where no examinee has been
            left[:] = [CannotRun("PHP-FPM printed no JSON.")] * 2
            learners.measure(FIXED)


def test_a_machine_that_was_started_again(learners: Run, engine: FakeEngine) -> None:
    """All that was set on it is gone, the fault too: that is no repair."""
    learners.stack["web"].restart()
    with pytest.raises(SaidNo) as no:
        checking.check(Terminal(), "mtu")
    assert no.value.hint == "make reset-mtu"
    assert isinstance(no.value.result, checking.Checked)
    says = "web was started again, and everything set on it since is gone."
    assert [found.says for found in no.value.result.findings] == [says]
    engine.end("web")
    engine.end("client-user")
    with pytest.raises(CannotRun, match="client-user is not there"):  # not the learner's doing
        learners.measure("check")


def test_a_late_look_is_taken_again_while_what_was_left_is_frozen(
    learners: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds only while a loop runs, and so do recorded runs say."""
    learners.apply("fix", learners.lab.fix)
    left = [Leftover("web", "perl loop")]

    @contextmanager
    def frozen() -> Iterator[None]:
        learners.apply("inject", learners.lab.inject)
        yield
        learners.apply("fix", learners.lab.fix)

    what = SimpleNamespace(found=left, can_be_frozen=True, frozen=frozen)
    monkeypatch.setattr(leftovers, "find", lambda *_: what)
    learners.measure("check")
    assert learners.reading("check").left is None
    learners.measure("later")
    last = learners.good("later")[-1]
    assert (last.holds, last.says) == (False, "It holds only while `perl loop` runs on web.")
    assert all(found.holds for found in learners.good("later")[:-1])
    again = Measured(learners.lab, learners.check, Record.read(learners.record.id))
    assert again.good("later")[-1] == last
    what.found, what.frozen = [Leftover("web", "sleep 9", waits=True)], None
    learners.measure("later")  # it is no already, so nothing is frozen
    assert "sleep 9" in learners.good("later")[-1].says


def test_a_fault_without_effect_is_refused(begun: Run) -> None:
    begun.healthy()
    with pytest.raises(SaidNo, match="the fault has no effect"):
        begun.gate()


def test_a_stack_that_goes_away_proves_nothing(begun: Run) -> None:
    begun.healthy()
    begun.engine.down(begun.stack.name)
    with pytest.raises(CannotRun):
        begun.measure(FAULTY)


def test_the_verbs_of_a_learner(project: Project, engine: FakeEngine, faultlab: Verbs) -> None:
    """A new kind of engine is one line of placement: no verb knows which one it has."""
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
    project: Project, engine: FakeEngine, faultlab: Verbs
) -> None:
    """Several people on one server: the second `make lab-mtu` destroyed the first one's stack."""
    assert faultlab("start", "mtu").code == 0
    before = engine.machines(stack_name("mtu"))
    for machine in before:
        machine.owner = "anna in /home/anna/faultlab"
    for words in ("start", "reset", "check", "fix", "down"):
        got = faultlab(words, "mtu")
        assert got.code == 3 and "faultlab-mtu belongs to anna in /home/anna/faultlab." in got.err
        assert "export FAULTLAB_NAMESPACE=" in got.err
    with pytest.raises(Held):
        Run.begin(engine, labs.load("mtu"), stack_name("mtu"))
    assert faultlab("sweep").code == 3
    assert "anna" in faultlab("status").out
    assert engine.machines(stack_name("mtu")) == before


@pytest.mark.parametrize(
    ("lab_id", "ended", "ready"),
    [
        ("heap-oom", "", True),
        ("heap-oom", "tomcat", True),  # its fault ends the shop
        ("heap-oom", "app", False),  # the host was started again
        ("mtu", "nginx", False),
    ],
)
def test_a_lab_whose_fault_ends_a_daemon_is_up(
    project: Project, engine: FakeEngine, lab_id: str, ended: str, ready: bool
) -> None:
    """A second `start` of it must not replace it, with all that its learner has done."""
    run = Run.begin(engine, labs.load(lab_id), stack_name(lab_id), collects=False)
    run.record.event(READY)
    if ended:
        engine.end(ended, 3)
    assert learner._ready(run.lab, run.stack) is ready


class Counted(FakeEngine):
    """It counts the helpers that are still there, and a stack on it can be broken."""

    helpers = began = 0
    breaks = ""

    def isolate_network(self, machines: Sequence[Machine]) -> None:
        """Fail, or break the network of the stack."""
        if self.breaks == "network":
            raise CannotRun("It is broken.")
        if self.breaks == "healthy":
            self.stacks_up[machines[0].stack].network.mtu = 100

    @contextmanager
    def lines(self, *args: Any, **options: Any) -> Iterator[Iterator[str]]:
        """Print nothing."""
        self.helpers, self.began = self.helpers + 1, self.began + 1
        try:
            yield iter([])
        finally:
            self.helpers -= 1


@pytest.mark.parametrize(
    ("breaks", "says"),
    [
        ("network", "It is broken"),
        ("healthy", "not healthy"),
        ("the fault", "the fault has no effect"),
    ],
)
def test_a_lab_that_does_not_start_leaves_no_helper(
    breaks: str, says: str, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Counted()
    only_fake(monkeypatch, engine)
    engine.breaks = breaks
    if breaks == "the fault":
        project.change("labs/mtu/lab.toml", "mtu 100", "mtu 1499")
    # Its traceback keeps the helpers, so that nothing else ends them.
    with pytest.raises(Problem, match=says) as error:
        learner.begin(Terminal(as_json=True), labs.load("mtu"), "fake")
    assert error.traceback and engine.began and engine.helpers == 0 and engine.stacks() == []
