"""Joining: a second fault, or a false lead, comes to a stack that is up."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from faultlab.core.defaults import MYSTERY
from faultlab.core.errors import BadInput, SaidNo
from faultlab.core.terminal import Terminal
from faultlab.lab import checks, incident
from faultlab.lab import loader as labs
from faultlab.lab.check import Check, Evidence, Measure
from faultlab.lab.limits import at_least, exactly
from faultlab.learn import checking, join, learner
from faultlab.run import joining, placement
from faultlab.run.record import GONE, JOINED, ROOM, SHOWN, Record
from tests.unit.fake import FakeEngine, FakeMachine, Network, only_fake

PAIR = ("deleted-log", "mtu")  # proven, and the fake engine knows what mtu does


@dataclass(frozen=True)
class Seen:
    """Whether a fault made up is there."""

    there: float


class Stage:
    """A stack on the fake engine: its first fault is made up, its second one is mtu."""

    def __init__(self, engine: FakeEngine) -> None:
        self.engine = engine
        self.first = False

    def check(self) -> Check[Any, Any]:
        """Return the check of the first fault."""

        def see(_stack: Any) -> Seen:
            return Seen(float(self.first))

        return Check(
            look=see,
            inspect=see,
            symptom=(Measure("photos refused", "there", exactly(0), exactly(1)),),
            evidence=(Evidence("it is full", lambda _, now: now.there, at_least(1)),),
        )

    @property
    def network(self) -> Network:
        """Return the network of the stack that is up."""
        (up,) = self.engine.stacks_up.values()
        return up.network

    @property
    def record(self) -> Record:
        """Return the record of its run."""
        return Record.read(placement.up(MYSTERY).run_id)

    def start(self, lab: str = "deleted-log", room: str = "mtu") -> None:
        """Start it as a class does."""
        learner.start(Terminal(), lab, "auto", blind=True, room=room)

    def failing(self) -> set[str]:
        """Check it; return the measures that are not as they should be."""
        with pytest.raises(SaidNo) as caught:
            checking.check(Terminal(), MYSTERY, 0)
        told = caught.value.result
        assert isinstance(told, checking.Checked)
        return {found.name for found in told.findings if not found.holds}


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Stage:
    monkeypatch.setenv("FAULTLAB_STATE", str(tmp_path))
    monkeypatch.setattr(placement, "cannot_run", lambda *_: "")
    found = Stage(only_fake(monkeypatch))
    real, answer = checks.load, Network.answer

    def load(lab: Any) -> Check[Any, Any]:
        if lab.of:
            return incident.together({each: load(labs.load(each)) for each in lab.of})
        return found.check() if lab.id == "deleted-log" else real(lab)

    def answered(self: Network, command: str, machine: str) -> str | None:
        """Its first fault comes with the steps of its lab; no step of ours asks for more."""
        steps = labs.load("deleted-log").inject
        if command in [step.run for step in steps]:
            found.first = True
            return ""
        return answer(self, command, machine)

    monkeypatch.setattr(checks, "load", load)
    monkeypatch.setattr(Network, "answer", answered)
    monkeypatch.setattr(FakeMachine, "restart", lambda _: None)
    return found


def test_only_what_was_proven_together_can_have_room() -> None:
    assert frozenset(PAIR) in joining.pairs()
    mtu = labs.load("mtu")
    assert joining.refusal(mtu, "session-lock") == ""
    assert "were not proven together" in joining.refusal(mtu, "somaxconn")
    assert "no fault" in joining.refusal(labs.load("healthy"), "mtu")
    assert "several faults" in joining.refusal(labs.load("mtu+session-lock"), "regex")
    with pytest.raises(BadInput, match="mtu and somaxconn were not proven together"):
        joining.with_room(mtu, "somaxconn")
    whole = joining.with_room(labs.load("mtu~old-overflow"), "session-lock")
    assert (whole.id, whole.alias) == ("mtu+session-lock~old-overflow", "mtu~old-overflow")


def test_a_stack_with_room_begins_with_one_fault(stage: Stage) -> None:
    stage.start()
    assert stage.first and stage.network.mtu == 1500
    record = stage.record
    assert (record.lab, record.facts[ROOM]) == ("deleted-log", "deleted-log+mtu")
    assert record.facts[SHOWN] == [1] and JOINED not in record.facts


def test_a_second_fault_joins_and_both_are_judged(stage: Stage) -> None:
    stage.start()
    told = join.join(Terminal(), MYSTERY, "mtu", "")
    assert (told.fault, stage.network.mtu) == ("mtu", 100)
    record = stage.record
    assert (record.lab, record.facts[JOINED]) == ("deleted-log+mtu", "mtu")
    assert [e["event"] for e in record.events].index("joining") < [
        e["event"] for e in record.events
    ].index("joined")
    assert {"photos refused", "page: size"} <= stage.failing()  # no row names a fault
    stage.first = False
    assert "photos refused" not in stage.failing()
    assert stage.record.facts[GONE] == [1]
    stage.network.mtu = 1500
    assert checking.check(Terminal(), MYSTERY, 0).verdict == "pass"


def test_one_that_joins_after_the_first_was_repaired_is_the_only_one_left(stage: Stage) -> None:
    stage.start()
    stage.first = False
    assert checking.check(Terminal(), MYSTERY, 0).verdict == "pass"
    join.join(Terminal(), MYSTERY, "mtu", "")
    assert stage.record.facts[GONE] == [1]
    assert "page: size" in stage.failing()


def test_one_that_does_not_show_is_rolled_back(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.start()
    before = stage.record.readings["faulty"]
    monkeypatch.setattr(Network, "fits", True)
    monkeypatch.setattr(Network, "fits_any", True)
    with pytest.raises(SaidNo, match="does not show beside what is there"):
        join.join(Terminal(), MYSTERY, "mtu", "")
    assert stage.network.mtu == 1500
    record = stage.record
    assert (record.lab, JOINED in record.facts) == ("deleted-log", False)
    assert record.readings["faulty"] == before


def test_the_same_one_joins_once(stage: Stage) -> None:
    stage.start()
    join.join(Terminal(), MYSTERY, "mtu", "")
    before = len(stage.engine.ran)
    join.join(Terminal(), MYSTERY, "mtu", "")
    assert not any("mtu 100" in command for command in stage.engine.ran[before:])


def test_one_whose_program_was_killed_is_put_in_again(stage: Stage) -> None:
    stage.start()
    record = stage.record
    record.event("joining", faults=[2])
    stage.network.mtu = 100  # and then it was killed
    before = len(stage.engine.ran)
    join.join(Terminal(), MYSTERY, "mtu", "")
    ran = [command for command in stage.engine.ran[before:] if "dev eth0 mtu" in command]
    assert ran == ["ip link set dev eth0 mtu 1500", "ip link set dev eth0 mtu 100"]
    assert stage.record.facts[JOINED] == "mtu"


def test_a_stack_without_room_says_so(stage: Stage) -> None:
    stage.start(room="")
    with pytest.raises(BadInput, match="no room for mtu"):
        join.join(Terminal(), MYSTERY, "mtu", "")
    assert stage.network.mtu == 1500


def test_a_decoy_joins_once_and_is_part_of_the_lab(stage: Stage) -> None:
    stage.start()
    for _ in range(2):
        join.join(Terminal(), MYSTERY, "", "web-alerts")
    record = stage.record
    assert (record.lab, record.facts[ROOM]) == (
        "deleted-log~web-alerts",
        "deleted-log+mtu~web-alerts",
    )
    assert sum(event["event"] == "joined" for event in record.events) == 1
    join.join(Terminal(), MYSTERY, "mtu", "")
    assert stage.record.lab == "deleted-log+mtu~web-alerts"


@pytest.mark.parametrize(
    ("decoy", "why"),
    [
        ("slow-log-off", "it needs mysql"),
        ("mtu-1400", "it suggests the fault that is there"),
        ("no-such", "There is no decoy"),
    ],
)
def test_a_decoy_that_does_not_fit_is_refused(stage: Stage, decoy: str, why: str) -> None:
    stage.start()
    with pytest.raises(BadInput, match=why):
        join.join(Terminal(), MYSTERY, "", decoy)
    assert stage.record.lab == "deleted-log"


def test_a_fault_or_a_decoy_is_named() -> None:
    for fault, decoy in (("", ""), ("mtu", "web-alerts")):
        with pytest.raises(BadInput, match="Name a fault, or a false lead"):
            join.join(Terminal(), MYSTERY, fault, decoy)
