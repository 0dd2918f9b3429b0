"""The stacks of a class: who measures when, and what becomes of a seat that fills the disk."""

from __future__ import annotations

import asyncio.constants
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from faultlab.core import events
from faultlab.core.errors import BadInput
from faultlab.core.processes import Outcome, Processes
from faultlab.lab import loader as labs
from faultlab.workshop import (
    view,
)
from faultlab.workshop.access import TRAINER
from faultlab.workshop.journal import Event, Journal
from faultlab.workshop.roster import DISK_FULL, Roster, Seat
from faultlab.workshop.session import Session
from faultlab.workshop.slots import Slots
from faultlab.workshop.stacks import Stacks
from tests.unit.fake import FakeEngine, FakeStack, engines
from tests.unit.served import (
    RIGHT,
    Fake,
    Served,
    planned,
    roster,
)
from tests.waiting import until


def test_a_lab_that_cannot_be_removed_keeps_its_result(tmp_path: Path) -> None:
    """The seat does not go on to the next lab, whose stack would be one too many."""
    session = Fake(tmp_path)
    seat = session.roster.seat(1)
    session.note(Event.READY, 1)
    session.note(Event.CHECKED, 1, fixed=True, findings=[])
    session.stacks.outcome = Outcome(3, {}, "Docker is away.")

    async def goes_on() -> None:
        session.next(seat)
        while session.doing:
            await asyncio.sleep(0.01)

    asyncio.run(goes_on())
    assert (seat.at, seat.turn.state, seat.turn.why) == (0, "green", "Docker is away.")


def told_by(script: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Outcome, Any]:
    """Return how a command ended that is this script, and the steps that it began."""
    stub = folder / "faultlab"
    stub.write_text(f"#!/bin/sh\n{script}\n")
    stub.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(stub))
    heard: list[events.Step] = []
    got = asyncio.run(Processes().run(("check", "mtu"), {}, 1, heard.append))
    return got, [step.name for step in heard if step.event == events.Kind.BEGIN]


def test_a_command_that_prints_a_line_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that prints a line without end: its seat was "starting" for good."""
    got, _ = told_by("head -c 3000000 /dev/zero | tr '\\0' x", tmp_path, monkeypatch)
    assert got == Outcome(3, {}, "it printed an endless line")


@pytest.mark.parametrize(
    ("waiting", "order"),
    [
        ([("mtu", False), ("mtu", False), ("mtu", False)], [{0, 1}, {1, 2}, {2}]),
        ([("mtu", False), ("scale-out", False), ("mtu", False)], [{0}, {1}, {2}]),
        ([("mtu", False), ("scale-out", False), ("mtu", True)], [{0, 2}, {2}, {1}]),
    ],
)
def test_who_measures_when(waiting: list[tuple[str, bool]], order: list[set[int]]) -> None:
    """Two calm labs at once, one with load alone, and a check before a start."""
    seen: list[set[int]] = []

    async def all_of_them() -> None:
        slots, now, ends = Slots(2), set[int](), [asyncio.Event() for _ in waiting]

        async def one(number: int, lab_id: str, urgent: bool) -> None:
            async with slots.take(labs.load(lab_id), urgent):
                now.add(number)
                await ends[number].wait()
                seen.append({*now})
                now.remove(number)

        tasks = [asyncio.create_task(one(i, *what)) for i, what in enumerate(waiting)]
        while not all(task.done() for task in tasks):
            for _ in range(20):  # until no other seat can begin
                await asyncio.sleep(0)
            for first in sorted(now)[:1]:
                ends[first].set()

    asyncio.run(all_of_them())
    assert seen == order


def test_who_waits_no_more_lets_others_pass() -> None:
    """A start that was called off."""

    async def three() -> None:
        slots, mtu, loud = Slots(2), labs.load("mtu"), labs.load("scale-out")
        async with slots.take(mtu, False):
            waiting = asyncio.create_task(slots.take(loud, False).__aenter__())
            await asyncio.sleep(0)
            waiting.cancel()
            async with asyncio.timeout(1), slots.take(mtu, False):
                pass

    asyncio.run(three())


def test_each_slot_of_cpus_has_a_load_of_its_own() -> None:
    async def some() -> None:
        slots, mtu, loud = Slots(2, parts=2), labs.load("mtu"), labs.load("scale-out")
        async with asyncio.timeout(1), slots.take(loud, False), slots.take(mtu, False):
            waiting = asyncio.create_task(slots.take(loud, False).__aenter__())
            await asyncio.sleep(0)
            assert not waiting.done()
            waiting.cancel()
            async with slots.take(mtu, False):
                pass
        async with asyncio.timeout(1), slots.take(loud, False), slots.take(loud, False):
            pass

    asyncio.run(some())


def test_a_seat_that_fills_the_disk(here: Served) -> None:
    """A seat that fills the disk loses its stack, is told why, and can have a fresh one."""
    here.wait(1, "red")
    here.stacks.full.add(1)
    here.wait(1, "failed")
    with here.events(1, "/seat/1/events") as views:
        assert next(views)["why"] == DISK_FULL
    assert here.session.roster.seat(2).turn.state == "red"
    assert here.post(TRAINER, "/trainer/seat/1/restore").status_code == 200
    here.wait(1, "red")


def test_a_seat_answers_after_its_machines_were_removed(here: Served) -> None:
    here.stacks.well.add(1)
    assert here.post(1, "/seat/1/check").status_code == 200
    here.stacks.full.add(1)
    until(lambda: not here.session.roster.seat(1).turn.up)
    told = view.seat(here.session, here.session.roster.seat(1))
    assert (told["state"], told["machines"], told["why"]) == ("green", [], DISK_FULL)
    assert here.status(1, "/seat/1/terminal/web") == 403
    assert here.post(1, "/seat/1/check").status_code == 409
    assert here.post(1, "/seat/1/restart", {"daemon": "nginx"}).status_code == 409
    assert here.post(1, "/seat/1/diagnose", RIGHT).status_code == 200
    assert view.seat(here.session, here.session.roster.seat(1))["debrief"]["points"] == 40
    assert here.post(1, "/seat/1/next").status_code == 200
    here.wait(1, "red", at=1)


@pytest.mark.parametrize("act", ["next", "restore"])
@pytest.mark.parametrize("when", ["while it is weighed", "while it is cut off", "before"])
def test_a_disk_that_was_full_costs_no_new_stack(act: str, when: str, tmp_path: Path) -> None:
    """In a blind class each stack of a seat has the same name: what is removed is the old one."""
    session = Fake(tmp_path)
    seat, stacks = session.roster.seat(1), session.stacks
    session.note(Event.READY, 1)
    said: list[str] = []
    weighed, cut = asyncio.Event(), asyncio.Event()

    async def too_large(seats: Iterable[Seat]) -> list[Seat]:
        found = [one for one in seats if one is seat]
        if when == "while it is weighed":
            await weighed.wait()
        return found

    async def cut_off(_: Seat) -> None:
        said.append("cut off begins")
        if when == "while it is cut off":
            await cut.wait()
        said.append("cut off")

    async def run(_: Seat, *words: str, seconds: float = 0, hear: Any = None) -> Outcome:
        said.append(words[0])
        await asyncio.sleep(0.05)
        return Outcome(0)

    for fake in (too_large, cut_off, run):
        setattr(stacks, fake.__name__, fake)

    async def both() -> None:
        if when == "before":
            getattr(session, act)(seat)
            await asyncio.sleep(0.02)
            await session.poll()
        else:
            weighing = asyncio.create_task(session.poll())
            await asyncio.sleep(0.01)
            getattr(session, act)(seat)
            await asyncio.sleep(0.02 if when == "while it is cut off" else 0.3)
            weighed.set()
            await asyncio.sleep(0.1)
            cut.set()
            await weighing
        while session.doing:
            await asyncio.sleep(0.01)

    asyncio.run(both())
    assert said[-1] == "start" and seat.turn.up, said
    if "cut off" in said:
        assert said[:2] == ["cut off begins", "cut off"], said
    assert (when == "while it is cut off") == ("cut off" in said)


def test_a_check_of_a_stack_that_is_removed_meanwhile_says_why(here: Served) -> None:
    here.stacks.slow = 0.5
    checking = threading.Thread(target=lambda: here.post(1, "/seat/1/check"))
    checking.start()
    until(lambda: here.stacks.ran[-1][1][0] == "check")
    here.session.note(Event.DISK_FULL, 1)
    checking.join()
    assert here.session.roster.seat(1).turn.why == DISK_FULL
    assert here.session.roster.seat(1).turn.checks == 0


def test_an_error_of_ours_is_shown(here: Served, capfd: pytest.CaptureFixture[str]) -> None:
    """Not only one that was expected; the seat goes on."""

    async def broken(*_: Any, **__: Any) -> Outcome:
        raise ZeroDivisionError("of ours")

    run, here.stacks.run = here.stacks.run, broken  # type: ignore[method-assign]
    assert here.post(TRAINER, "/trainer/seat/1/restore").status_code == 200
    here.wait(1, "failed")
    assert "of ours" in here.session.roster.seat(1).turn.why
    said = capfd.readouterr().err
    assert "faultlab: Ada: ZeroDivisionError: of ours" in said and "Traceback" not in said
    here.stacks.run = run  # type: ignore[method-assign]
    assert here.post(TRAINER, "/trainer/seat/1/restore").status_code == 200
    here.wait(1, "red")


@pytest.mark.parametrize("what", ["tick", "poll"])
def test_a_clock_outlives_an_error_of_ours(
    what: str, here: Served, capfd: pytest.CaptureFixture[str]
) -> None:
    """Such as a disk that is full for a moment."""
    here.site.polls = 0.05

    def broken(*_: Any) -> None:
        raise ZeroDivisionError("of ours")

    setattr(here.session, what, broken)
    said = ""
    deadline = time.monotonic() + 5
    while "of ours" not in said and time.monotonic() < deadline:
        time.sleep(0.01)
        said += capfd.readouterr().err
    assert "faultlab: ZeroDivisionError: of ours" in said
    again = threading.Event()

    async def poll() -> None:
        again.set()

    setattr(here.session, what, poll if what == "poll" else lambda _: again.set())
    assert again.wait(5)


@pytest.mark.parametrize("where", ["local", "kubernetes"])
def test_a_seat_over_its_disk_loses_its_stack(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One byte more than it may have, and only what is its own; on the engine of the class."""
    engine = FakeEngine()
    reached = type("Reached", (FakeEngine,), {"reach": staticmethod(lambda: engine)})
    engines(monkeypatch, **{where: reached})
    its = {"seat_disk": "1m", "engine": where}
    stacks, seats = Stacks(planned(**its)), roster(**its).seats
    names = [stacks.name(seat) for seat in seats]
    engine.stacks_up = {name: FakeStack() for name in names}
    engine.sizes = {names[0]: 2**20, names[1]: 2**20 + 1}
    assert asyncio.run(stacks.too_large(seats)) == [seats[1]]
    asyncio.run(stacks.cut_off(seats[1]))
    assert [*engine.stacks_up] == [names[0], names[2]]


def test_the_host_of_a_seat(here: Served) -> None:
    """A seat can use `docker restart` and `docker update`, within what the class allows."""
    assert here.post(1, "/seat/1/restart", {"daemon": "nginx"}).status_code == 200
    assert here.post(1, "/seat/1/limit", {"daemon": "nginx", "cpus": 0.5}).status_code == 200
    assert here.stacks.acted == [(1, "nginx", "restart"), (1, "nginx", (0.5, None))]
    for facts in (
        {"cpus": 2},
        {"memory": "2g"},
        {"cpus": "x"},
        {"memory": "all"},
        {},
        {"cpus": -1},
    ):
        answer = here.post(2, "/seat/2/limit", {"daemon": "nginx", **facts})
        assert answer.status_code == 400, facts
    assert len(here.stacks.acted) == 2


def test_only_daemons_of_its_own_stack_can_be_restarted(tmp_path: Path) -> None:
    found = Roster(planned(), [["mtu", "somaxconn"]] * 3)
    session = Session(found.plan, found, Journal(tmp_path / "events.jsonl"), Stacks(found.plan))
    found.apply({"t": 0, "event": "ready", "seat": 1})
    for name in ("web", "client", "../faultlab-class-2-mystery-nginx", "mysql"):
        with pytest.raises(BadInput, match="There is no daemon"):
            asyncio.run(session.restart(found.seat(1), name))


@pytest.mark.parametrize(
    ("script", "steps", "outcome"),
    [
        (
            'echo \'{"event": "begin", "name": "check", "text": "the shop"}\'\n'
            'echo \'{"event": "result", "data": {"verdict": "fail"}}\'\n'
            'echo \'{"event": "error", "error": "not yet", "next": "x", "exit_code": 1}\'\n'
            "echo 'faultlab: not yet' >&2\necho '  next: x' >&2\nexit 1\n",
            ["check"],
            Outcome(1, {"verdict": "fail"}, "not yet", "x"),
        ),
        ("echo Segmentation fault >&2\nexit 139\n", [], Outcome(139, {}, "Segmentation fault")),
        ("exec sleep 9\n", [], Outcome(3, {}, "it did not end within 1 s")),
    ],
)
def test_a_command_is_read_by_its_events(
    script: str, steps: list[str], outcome: Outcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert told_by(script, tmp_path, monkeypatch) == (outcome, steps)
