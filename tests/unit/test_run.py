"""A run's readings: what lies between the limits is taken again, and only that."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest

from faultlab.core import lock
from faultlab.core.errors import CannotRun, SaidNo
from faultlab.engine.measure import cpu_reference, load_scale
from faultlab.engine.measure.cpu_interference import CpuInterference, Moment, Observer
from faultlab.engine.measure.load_scale import LoadScale
from faultlab.engine.stack import Stack
from faultlab.lab import loader as labs
from faultlab.lab.check import Check, Evidence, Measure
from faultlab.lab.limits import at_least, at_least_times, at_most, at_most_times
from faultlab.lab.severity import Severity
from faultlab.run.contract import Contract
from faultlab.run.looks import ANSWERS, PROGRAMS
from faultlab.run.phase import CHECK, FAULTY, FIXED, HEALTHY, STILL, Phase
from faultlab.run.record import Record
from faultlab.run.run import Run
from tests.unit.fake import FakeEngine

STEADY = at_least(1)
MTU = labs.load("mtu")
SYN_FLOOD = labs.load("syn-flood")  # it makes load


class Idle(dict[str, Any]):
    """A stack without machines."""

    name = "faultlab-mtu"
    slot = ""
    machines: tuple[()] = ()

    def helper(self) -> Idle:
        return self

    def must(self, _command: str) -> str:
        return ""

    def user(self) -> str:
        return "user"

    @property
    def engine(self) -> FakeEngine:
        return FakeEngine()

    def stopped(self) -> list[str]:
        return []


class Busy(Observer):
    """It sees the shares that a test has set; when none is left, others use nothing."""

    shares: ClassVar[list[float]] = []
    waited: ClassVar[list[float]] = []  # for how long a run was ready to wait for a calm machine

    def read(self) -> Moment:
        """Read nothing."""
        return Moment(0, 0, {})

    def since(self, before: Moment) -> CpuInterference:
        """Return the next share."""
        return CpuInterference(0.0, self.shares.pop(0) if self.shares else 0.0, "stress 1.0 CPUs")

    def wait_for_calm(self, seconds: float) -> None:
        """Do not wait."""
        self.waited.append(seconds)


class BusyEngine(FakeEngine):
    """An engine on a machine that has other programs."""

    def observer(self, stack: str) -> Observer:
        """Return one that sees what a test wants."""
        return Busy()


@pytest.fixture(autouse=True)
def shares(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Set the shares that others use during each look."""
    monkeypatch.setattr(cpu_reference, "measure", lambda: 3000.0)
    Busy.shares.clear()
    Busy.waited.clear()
    return Busy.shares


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Record:
    monkeypatch.setenv("FAULTLAB_ROOT", str(tmp_path))
    facts: dict[str, Any] = {"machines": {}, "readings": {}, "judged": {}}
    return Record.create("mtu", "faultlab-mtu", facts)


def reading(record: Record, left: list[float], good: float = 0.8, bad: float = 0.6) -> Run:
    """A run that reads these values, one after the other."""

    def look(_at: Stack) -> float:
        return left.pop(0)

    def inspect(_at: Stack) -> int:
        return 0

    judge = Check[float, int](
        look=look,
        inspect=inspect,
        symptom=(
            Measure("speed", lambda now: now, at_least_times(good), at_most_times(bad)),
            Measure("answers", lambda now: now, STEADY, STEADY),
        ),
        evidence=(),
    )
    return Run(BusyEngine(), MTU, judge, cast("Stack", Idle()), record)


def events(record: Record) -> list[str]:
    return [event["event"] for event in record.facts["events"]]


def measured(record: Record, *values: float) -> list[str]:
    """Return the events of a run that reads these values: first healthy, then those of a fix."""
    left = list(values)
    run = reading(record, left)
    run.measure(HEALTHY)
    run.measure(FIXED)
    assert not left, "it looked too seldom"
    return events(record)


@pytest.mark.parametrize("clear", [100, 80, 60, 5, 1])
def test_a_clear_reading_is_taken_once(record: Record, clear: float) -> None:
    assert measured(record, 100, clear) == ["measured", "measured"]
    assert record.facts["readings"]["fixed"]["look"] == clear


@pytest.mark.parametrize("clear", [90, 50])
def test_a_reading_between_the_limits_is_taken_again(record: Record, clear: float) -> None:
    assert measured(record, 100, 70, clear) == ["measured", "undecided", "measured"]
    assert record.facts["readings"]["fixed"]["look"] == clear
    assert record.facts["judged"]["fixed"]["good"][0]["holds"] == (clear == 90)
    noted = record.facts["events"][1]
    assert noted["phase"] == "fixed" and "measured 70, wanted at least 80" in noted["text"]


def test_a_reading_that_is_neither_as_what_must_hold_in_both_does_not(record: Record) -> None:
    assert measured(record, 100, 0, 50) == ["measured", "undecided", "measured"]
    assert "answers: measured 0" in record.facts["events"][1]["text"]


@pytest.mark.parametrize(("phase", "looks"), [("cheat 1", 1), ("fixed", 2), ("alternative 1", 2)])
def test_after_a_cheat_that_harms_the_users_one_look_is_enough(
    record: Record, phase: str, looks: int
) -> None:
    """After a repair, a service that has not come back yet gets another look."""
    run = reading(record, [100, 0, 100])
    run.measure(HEALTHY)
    run.measure(phase)
    assert len(events(record)) == 1 + looks


def test_it_stays_undecided_after_three(record: Record) -> None:
    noted = measured(record, 100, 70, 71, 72)
    assert noted == ["measured", "undecided", "undecided", "measured"]
    judged = record.facts["judged"]["fixed"]
    assert not judged["good"][0]["holds"] and not judged["bad"][0]["holds"]


def test_the_pace_is_found_once_before_the_first_load(
    record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It can need the machine alone, so a stack that is not measured must not wait for that."""
    found: list[str] = []

    def find(user: str, _slot: str) -> LoadScale:
        found.append(user)
        return LoadScale(0.4)

    monkeypatch.setattr(load_scale, "find", find)
    run = reading(record, [100, 100])
    run.lab = SYN_FLOOD
    run.stack = cast("Stack", Idle())
    for phase in ("healthy", "fixed"):
        run.measure(phase)
    assert found == ["user"]
    assert run.stack.pace == LoadScale(0.4) and record.facts["pace"] == 0.4


BUSY = "other programs used 50% of the CPU time (stress 1.0 CPUs)"


def test_a_reading_of_a_busy_machine_is_taken_again_when_it_is_calm(
    record: Record, shares: list[float]
) -> None:
    shares += [0.01, 0.5, 0.0]
    assert measured(record, 100, 50, 90) == ["measured", "undecided", "measured"]
    noted = record.facts["events"][1]
    assert (noted["others"], noted["text"]) == (0.5, BUSY)
    assert len(Busy.waited) == 1 and 178 < Busy.waited[0] <= 179


@pytest.mark.parametrize(
    ("phase", "values"),
    [
        ("fixed", [0.1, 5]),
        ("check", [0.1]),  # the fault itself shows, and a neighbour's load costs no second look
        ("repair 8", [0.1, 5.0]),  # a stall of a second looked like it
        ("alternative 1", [0.1, 0.1, 0.1]),
        ("faulty", [0.1]),
        ("alternative 1, before", [0.1]),
        ("cheat 1", [0.1]),
        ("only mtu", [0.1]),
        ("verdict", [0.1, 2.0]),
    ],
)
def test_a_busy_machine_gets_more_looks_at_what_should_be_healthy(
    record: Record, shares: list[float], phase: str, values: list[float]
) -> None:
    """A stall of the machine makes a page late where no speed is judged, too."""
    shares += [0.0, *[0.5] * len(values)]
    left = [5.0, *values]
    run = reading(record, left)
    good = Measure("pages", lambda now: now, at_least(1), at_most(0.5))
    run.check = replace(run.check, symptom=(good,))
    run.measure(HEALTHY)
    run.measure(phase)
    assert not left, "it looked too seldom"
    again = [event["text"] for event in record.facts["events"] if event["event"] == "undecided"]
    assert again == [BUSY] * (len(values) - 1)


def test_a_check_on_a_busy_machine_that_shows_only_a_part_of_the_fault(
    record: Record, shares: list[float]
) -> None:
    """A learner who has repaired it must not be told otherwise because a page was late."""
    shares += [0.0, 0.5, 0.5]
    left = [5.0, 0.1, 5.0]
    run = reading(record, left)
    pages = Measure("pages", lambda now: now, at_least(1), at_most(0.5))
    start = Measure("start page", lambda now: now, at_least(0.05), at_most(0.01))
    run.check = replace(run.check, symptom=(pages, start))
    run.measure(HEALTHY)
    run.measure(CHECK)
    assert not left and run.good("check")[0].holds


@pytest.mark.parametrize(("others", "looks"), [(0.5, 3), (0.0, 1)])
def test_a_busy_machine_gets_more_looks_at_a_fault_without_evidence(
    record: Record, shares: list[float], others: float, looks: int
) -> None:
    """The users of a look do less while others work, so less of the fault shows."""
    shares += [0.0, *[others] * looks]
    counted = iter([0, 0, 0, 2, 2, 4, 4, 8])  # before and after each look

    def inspect(_at: Stack) -> int:
        return next(counted)

    run = reading(record, [5.0] * 4)
    run.inspects = True
    run.check = replace(
        run.check,
        symptom=(Measure("pages", lambda now: now, at_least(1), at_most(5)),),
        inspect=inspect,
        evidence=(Evidence("errors", lambda before, after: after - before, at_least(3)),),
    )
    run.measure(HEALTHY)
    run.measure(FAULTY)
    assert events(record) == ["measured", *["undecided"] * (looks - 1), "measured"]


def test_what_others_spoiled_is_neither_good_nor_bad(
    record: Record, shares: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that is never calm gives no verdict, and leaves no reading to make one from."""
    shares += [0.0, *[0.5] * 99]
    seconds = itertools.accumulate(itertools.repeat(8.0))  # that everything takes
    run, noted = reading(record, [100.0] * 100), list[str]()
    run.note = noted.append
    run.measure(HEALTHY)
    monkeypatch.setattr(time, "monotonic", lambda: next(seconds))
    with pytest.raises(CannotRun, match="too busy to judge mtu: other programs used 50%") as error:
        run.measure(CHECK)
    assert error.value.hint == "wait until it is calm, then: make check-mtu"
    assert list(record.facts["readings"]) == ["healthy"]
    assert "check" not in record.facts["judged"]
    assert set(events(record)[1:]) == {"undecided"} and len(Busy.waited) > 1
    parts = [ANSWERS, PROGRAMS]  # of the first look alone: then the reason stays
    assert noted[:2] == parts
    assert {*noted[2:]} == {"again: other programs used 50% of the CPU time"}


def test_each_wait_is_twice_as_long_until_the_patience_ends(
    record: Record, shares: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that does nothing seems calm although its hypervisor is busy.

    Other labs go on meanwhile.
    """
    held: list[bool] = []

    @contextmanager
    def turn(alone: bool, slot: str) -> Iterator[None]:
        held.append(alone)
        yield
        held.pop()

    def free() -> None:
        assert not held, "no other lab can have the machine"

    monkeypatch.setattr(lock, "turn", turn)
    monkeypatch.setattr(time, "monotonic", lambda: 0.0)
    shares += [0.0, *[0.5] * 99]
    run, engine = reading(record, [100.0] * 9), BusyEngine()
    run.engine, engine.meanwhile = engine, [free] * 99
    run.measure(HEALTHY)
    with pytest.raises(CannotRun, match="too busy"):
        run.measure(FIXED)
    assert engine.paused == [1, 2, 4, 8, 16, 32, 64, 53]


def test_looks_that_are_spoiled_cost_patience(
    record: Record, shares: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look can take longer than the wait for the next one."""
    seconds = itertools.count(step=50.0)  # each look takes 50 s, and so does each wait
    run = reading(record, [100.0] * 9)
    run.measure(HEALTHY)
    shares += [0.5] * 9
    monkeypatch.setattr(time, "monotonic", lambda: next(seconds))
    with pytest.raises(CannotRun, match="too busy"):
        run.measure(FIXED)
    assert Busy.waited == [129, 27]


def baseline(record: Record, *values: float) -> list[str]:
    left = list(values)
    reading(record, left).healthy()
    assert not left, "it looked too seldom"
    return events(record)


def test_the_baseline_is_two_looks_that_agree(record: Record) -> None:
    assert baseline(record, 100, 95) == ["measured", "measured"]
    assert record.facts["readings"]["healthy"]["look"] == 95


def test_a_first_look_that_was_slowed_down_is_no_baseline(record: Record) -> None:
    assert baseline(record, 50, 100, 98) == ["measured", "measured", "unsteady", "measured"]
    assert "speed: 50, then 100" in record.facts["events"][2]["text"]


def test_any_two_looks_that_agree_are_a_baseline(record: Record) -> None:
    assert baseline(record, 100, 50, 99)[-2:] == ["unsteady", "measured"]


def test_a_stack_that_is_never_steady_is_no_baseline(record: Record) -> None:
    with pytest.raises(CannotRun, match="not steady"):
        baseline(record, 100, 50, 200, 25, 400, 12, 800)


def test_a_baseline_that_has_moved_ends_the_walk(record: Record) -> None:
    """A walk on a stack that was slow and is fast now was measured against nothing."""
    run = reading(record, [100.0, 98.0, 50.0, 97.0])
    run.healthy()
    run.healthy_still()
    moved = reading(record, [50.0] * 6)
    with pytest.raises(CannotRun, match="not what it was when the walk began"):
        moved.healthy_still()


@pytest.mark.parametrize(
    ("faulty", "fixed", "last", "decides"),
    [(20, 120, 10, ""), (35, 120, 10, "late"), (20, 60, 10, "late"), (20, 120, 60, "end")],
)
def test_a_baseline_that_has_moved_may_decide_nothing(
    record: Record, faulty: float, fixed: float, last: float, decides: str
) -> None:
    """A machine became faster by a third for good, and a walk with a clear fault was unknown."""
    left = [100.0, 98.0]
    run = reading(record, left, good=0.5, bad=0.3)
    run.inspects = True
    run.healthy()
    for phase, value in ((FAULTY, faulty), (FIXED, fixed)):
        left[:] = [value] * 3
        run.measure(phase)
    left[:] = [130.0] * 6
    with pytest.raises(CannotRun, match="98, then 130") if decides == "late" else nullcontext():
        run.healthy_still()
    left[:] = [last]
    run.measure(Phase("cheat 1"))
    with pytest.raises(CannotRun, match="when the walk began") if decides else nullcontext():
        Contract().test_healthy(run)


def test_no_healthy_stack_of_a_walk_shows_the_symptom(record: Record) -> None:
    """A measure that is ill on a fresh stack without the fault cannot prove the fault."""
    walked = reading(record, [100.0, 50.0, 90.0, 90.0, 55.0])
    for phase in (HEALTHY, FAULTY, FIXED, STILL):
        walked.measure(phase)
    Contract().test_opposite(walked)
    walked.measure(STILL)
    with pytest.raises(AssertionError, match="ill, healthy, late: speed: measured 55"):
        Contract().test_opposite(walked)


def test_a_daemon_that_has_ended_is_found_by_the_look(record: Record) -> None:
    """Not by the question whether the look makes a load, which asks the daemon too."""

    def ended(_stack: object) -> bool:
        raise CannotRun("tomcat is not running.")

    run = reading(record, [100.0])
    run.check = replace(run.check, idle=ended)
    run.measure(HEALTHY)
    assert events(record) == ["measured"]


@pytest.mark.parametrize(
    ("idle", "first", "turns"),
    [(False, 1, [False, False]), (False, 0, [True, True]), (True, 0, [])],
)
def test_a_look_has_the_machine_alone_if_speed_is_judged(
    record: Record, monkeypatch: pytest.MonkeyPatch, idle: bool, first: int, turns: list[bool]
) -> None:
    """Others would spoil it, also if the lab makes no load. They do not spoil an idle one.

    `first`: the first measure of the check; the second one alone judges no speed.
    """
    Busy.shares += [0.5] * (2 if idle else 0)
    had: list[bool] = []

    @contextmanager
    def turn(alone: bool, slot: str) -> Iterator[None]:
        had.append(alone)
        yield

    monkeypatch.setattr(lock, "turn", turn)
    run = reading(record, [100.0, 99.0])
    symptom = run.check.symptom[first:]
    run.check = replace(run.check, idle=lambda _stack: idle, symptom=symptom)
    run.measure(HEALTHY)
    run.measure(FIXED)
    assert had == turns and events(record) == ["measured", "measured"]


@pytest.mark.parametrize(
    ("felt", "dropped", "amiss"), [(100, 5, ""), (100, 0, "drops"), (50, 5, "speed")]
)
def test_a_dose_that_no_user_feels_is_proven_by_its_evidence(
    record: Record, felt: float, dropped: int, amiss: str
) -> None:
    counter = iter((0, dropped))

    def inspect(_at: Stack) -> int:
        return next(counter)

    run = reading(record, [100, felt])
    dose = Severity.model_validate({"name": "1400", "silent": True, "size": 1400.0})
    run.lab = MTU.model_copy(update={"severity": [dose], "dose": dose})
    drops = Evidence[int]("drops", lambda was, now: now - was, at_least(1))
    run.check = replace(run.check, inspect=inspect, evidence=(drops,))
    run.measure(HEALTHY)
    if not amiss:
        assert [finding.name for finding in run.gate()] == ["speed", "answers", "drops"]
        return
    with pytest.raises(SaidNo, match=f"users feel it, or no evidence shows: {amiss}"):
        run.gate()
