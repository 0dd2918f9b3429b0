"""The page of one learner: whom it lets in, and how labs are chosen."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from faultlab.core import naming
from faultlab.core.errors import BadInput, CannotRun
from faultlab.core.processes import Outcome
from faultlab.engine.docker import docker_list
from faultlab.lab import curriculum
from faultlab.lab import loader as labs
from faultlab.lab.model import Lab
from faultlab.learn import mystery, progress
from faultlab.run.record import READY, Record
from faultlab.workshop import actions, solo, solo_session, view
from faultlab.workshop.access import Keys
from faultlab.workshop.guard import Guard
from faultlab.workshop.journal import Event, Journal
from faultlab.workshop.plan import ClassPlan
from faultlab.workshop.roster import Roster, Seat
from faultlab.workshop.site import Site
from tests.unit.conftest import Project
from tests.unit.fake import FakeEngine


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_whose_a_socket_is(address: str) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, 0), family=family) as line:
        there = line.getsockname()[:2]
        with socket.create_connection(there) as client:
            here = client.getsockname()[:2]
            assert solo.owner(here, there) == os.getuid()
            # Another connection from the same address and port can be somebody else's.
            assert solo.owner(here, (address, 1)) is None
        assert solo.owner((address, 1), there) is None


def test_a_socket_of_somebody_else() -> None:
    """Each end of a connection can be another user's."""
    if os.getuid() != 0:
        pytest.skip("only root can act for another user")
    with socket.create_server(("127.0.0.1", 0)) as line:
        os.seteuid(64201)
        try:
            theirs = socket.create_connection(line.getsockname())
        finally:
            os.seteuid(0)
        with theirs:
            assert solo.owner(theirs.getsockname(), line.getsockname()) == 64201


def test_a_socket_that_was_closed_is_of_no_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel lists it as root's: `faultlab page` by root would accept what others left behind.

    Whatever is in the queue when the server comes to it: closed, half closed, or with an end of it.
    """
    monkeypatch.setattr(os, "getuid", lambda: 0)
    with socket.create_server(("127.0.0.1", 0), backlog=200) as line:
        there = line.getsockname()
        queued = []
        for number in range(90):
            with socket.create_connection(there) as client:
                client.sendall(b"POST /seat/1/remove HTTP/1.1\r\n\r\n")
                queued.append(client.getsockname())
                if number % 3 == 0:
                    client.shutdown(socket.SHUT_WR)
        accepted = [line.accept()[0] for _ in queued]
        owners = [solo.owner(here, there) for here in queued]
        assert owners == [None] * 90
        for one in accepted:
            one.close()
        assert [solo.owner(here, there) for here in queued] == [None] * 90  # TIME_WAIT


class FakeStacks(solo_session.OwnStacks):
    """Stacks that are there at once."""

    def __init__(self, plan: ClassPlan) -> None:
        super().__init__(plan)
        self.ran: list[tuple[str, ...]] = []
        self.outcome = Outcome(0)

    async def run(self, seat: Seat, *words: str, seconds: float = 0, hear: Any = None) -> Outcome:
        self.ran.append(words)
        return self.outcome


Page = Callable[[], solo_session.SoloSession]


@pytest.fixture
def page(project: Project, tmp_path: Path, engine: FakeEngine) -> Page:
    def make() -> solo_session.SoloSession:
        plan = ClassPlan(id="page", title="faultlab", seats=["ada"], labs=["mtu"], blind=False)
        roster = Roster(plan, [["mtu"]])
        return solo_session.SoloSession(
            plan, roster, Journal(tmp_path / "journal"), FakeStacks(plan)
        )

    return make


def finished(session: solo_session.SoloSession, *acts: Callable[[], None]) -> Seat:
    """Do one after the other, each to its end."""

    async def all_of_them() -> None:
        session.begin()
        for act in acts:
            act()
            async with asyncio.timeout(10):
                while session.doing:
                    await asyncio.sleep(0.01)

    asyncio.run(all_of_them())
    return session.roster.seat(1)


def test_a_lab_is_chosen_and_removed(page: Page) -> None:
    session = page()
    seat = session.roster.seat(1)
    stacks = session.stacks
    assert isinstance(stacks, FakeStacks)
    finished(session, lambda: session.choose(seat, "gzip"))
    assert (seat.turn.lab, seat.turn.state) == ("gzip", "red")
    assert stacks.ran == [("down", "gzip"), ("start", "gzip", "--engine", "auto")]
    stacks.ran.clear()
    finished(session, lambda: session.choose(seat, "mtu"), lambda: session.remove(seat))
    assert stacks.ran[:2] == [("down", "gzip"), ("down", "mtu")]
    assert (seat.turn.lab, seat.turn.state) == ("mtu", "waiting")
    assert view.seat(session, seat)["lab"] == ""


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """With which options a mystery was drawn; it is mtu."""
    asked: list[dict[str, Any]] = []

    def draw(**how: Any) -> Lab:
        asked.append(how)
        if how["decoys"] > 1:
            raise BadInput("No lab here can have 2 false leads.", "faultlab decoys")
        return labs.load("mtu")

    monkeypatch.setattr(mystery, "drawn", draw)
    return asked


def asked_for(session: solo_session.SoloSession, **how: Any) -> Seat:
    """Start a mystery, to its end."""
    wanted = {"faults": 1, "decoys": 0, "hard": False, **how}

    async def begun() -> None:
        await session.draw(session.roster.seat(1), **wanted)
        while session.doing:
            await asyncio.sleep(0.01)

    asyncio.run(begun())
    return session.roster.seat(1)


def test_a_mystery_is_as_in_a_class(page: Page, drawn: list[dict[str, Any]]) -> None:
    """No view names it before it is repaired and answered; then its debrief opens."""
    session = page()
    session.plan = session.plan.model_copy(update={"later": 0})  # as `faultlab page` has it
    seat = asked_for(session, decoys=1, hard=True)
    stacks = session.stacks
    assert isinstance(stacks, FakeStacks)
    assert drawn == [{"faults": 1, "decoys": 1, "hard": True}]
    started = ("start", "mtu", "--blind", "--engine", "auto")
    assert stacks.ran == [("down", "mystery"), started]
    assert stacks.name(seat) == naming.stack_name("mystery")

    def shown() -> dict[str, Any]:
        it = view.seat(session, seat)
        rest = {key: it[key] for key in it.keys() - {"catalogue", "terms"}}
        if not it["debrief"] and not it["answer"]:
            assert not re.search(r"\bmtu\b", json.dumps(rest))
        return it

    it = shown()
    assert (it["state"], it["lab"], it["title"]) == ("red", "mystery", "A mystery")
    assert it["blind"] and it["terms"] and it["debrief"] is None
    stacks.outcome = Outcome(0, {"verdict": "pass", "findings": [{"name": "page", "holds": True}]})
    asyncio.run(session.check(seat))
    assert " ".join(stacks.ran[-1]) == "check mystery --later 0"
    assert shown()["debrief"] is None
    session.answer(seat, ("web", "network", "mtu"))
    it = shown()["debrief"]
    assert (it["lab"], it["points"], it["of"]) == ("mtu", 40, 40)
    stacks.outcome = Outcome(0)
    finished(session, lambda: session.remove(seat))
    assert " ".join(stacks.ran[-1]) == "down mystery"
    assert finished(session, lambda: session.choose(seat, "gzip")).turn.lab == "gzip"
    assert not view.seat(session, seat)["blind"]


def test_a_mystery_that_cannot_be_drawn_leaves_the_lab_before_it(
    page: Page, drawn: list[dict[str, Any]]
) -> None:
    session = page()
    finished(session, lambda: session.choose(session.roster.seat(1), "gzip"))
    with pytest.raises(BadInput, match="No lab here can have 2 false leads"):
        asked_for(session, decoys=2)
    assert (session.roster.seat(1).turn.lab, session.doing) == ("gzip", {})
    assert session.roster.seat(1).turn.state == "red" and len(drawn) == 1


def test_a_mystery_that_cannot_start_does_not_say_why(
    page: Page, drawn: list[dict[str, Any]]
) -> None:
    session = page()
    stacks = session.stacks
    assert isinstance(stacks, FakeStacks)
    run = stacks.run

    async def fails(seat: Seat, *words: str, **more: Any) -> Outcome:
        said = Outcome(3, {}, "eth0 of mtu is gone.") if words[0] == "start" else None
        return said or await run(seat, *words, **more)

    stacks.run = fails  # type: ignore[method-assign]
    seat = asked_for(session)
    it = view.seat(session, seat)
    assert (it["state"], it["lab"], len(drawn)) == ("failed", "mystery", 1)
    assert it["why"].endswith("Remove it, and start another one.")


@pytest.mark.parametrize("wrong", [{"faults": "1"}, {"hard": 1}, {"decoys": True}, {"faults": 9}])
def test_options_of_a_mystery_that_make_no_sense(page: Page, wrong: dict[str, Any]) -> None:
    session = page()
    with pytest.raises(BadInput):
        asked_for(session, **actions.options({"faults": 1, "decoys": 0, "hard": False, **wrong}))


def test_a_mystery_of_the_command_line_is_gone_on_with(page: Page, engine: FakeEngine) -> None:
    """With what was answered there."""
    record = started(engine, "mtu", naming.stack_name("mystery"))
    words = {"component": "web", "resource": "network", "cause": "mtu"}
    record.event("answer", **words)
    record.event("answer", **words, also=True)
    session = page()
    session.last = solo_session.last_up()
    seat = finished(session)
    assert (seat.turn.lab, seat.turn.blind, seat.turn.answers) == ("mtu", True, [[words, words]])
    assert view.seat(session, seat)["lab"] == "mystery"


def test_an_earlier_check_of_the_command_line_has_its_values_alone(page: Page) -> None:
    """Its limits are not in the record, so no verdict about it is made up."""
    record = Record.create("mtu", naming.stack_name("mtu"), {})
    rows = [{"name": "page", "value": 9.0, "unit": "", "wanted": "at least 57", "holds": False}]
    record.event(READY)
    record.facts["judged"]["check"] = {"good": rows}
    for value in (3.0, 9.0):
        record.event("check", fixed=False, found={"page": value})
    session = page()
    session.last = record
    seat = finished(session)
    assert (seat.turn.before[0]["value"], seat.turn.before[0]["holds"]) == (3.0, None)
    (found,) = view.seat(session, seat)["findings"]
    assert (found["was"], found["value"], found["change"]) == (3.0, 9.0, "better")


def test_a_lab_that_cannot_be_removed_stays(page: Page) -> None:
    session = page()
    seat = finished(session, lambda: session.choose(session.roster.seat(1), "gzip"))
    stacks = session.stacks
    assert isinstance(stacks, FakeStacks)
    stacks.outcome = Outcome(3, {}, "Docker is away.")
    finished(session, lambda: session.choose(seat, "mtu"))
    assert (seat.turn.lab, seat.turn.state, seat.turn.why) == ("gzip", "failed", "Docker is away.")


def test_a_lab_that_is_gone_already_is_removed(page: Page) -> None:
    """As by a command in a shell, while the page asks whether to remove it."""
    session = page()
    seat = finished(session, lambda: session.choose(session.roster.seat(1), "gzip"))
    session.note(Event.REMOVED, 1, why="gzip was removed by a command outside this page.")
    finished(session, lambda: session.remove(seat))
    assert not session.doing and seat.turn.state == "waiting"


def test_a_lab_that_is_up_already_is_gone_on_with(page: Page) -> None:
    record = Record.create("mtu", naming.stack_name("mtu"), {})
    record.event(READY)
    record.event("hint", number=2)
    record.facts["judged"]["check"] = {"good": [{"name": "page", "holds": False}]}
    record.event("check", fixed=False)
    session = page()
    session.last = record
    seat = finished(session)
    assert (seat.turn.lab, seat.turn.state) == ("mtu", "red")
    assert (seat.turn.hints, seat.turn.checks, len(seat.turn.findings)) == ([2], 1, 1)


def test_the_time_of_a_lab_is_that_of_its_run(page: Page) -> None:
    """Also of one that was solved without the page."""
    record = Record.create("mtu", naming.stack_name("mtu"), {})
    for event, t in ((READY, 10.0), ("check", 130.0)):
        record.event(event, fixed=True)
        record.facts["events"][-1]["t"] = t
    session = page()
    session.last = record
    seat = finished(session)
    assert (seat.turn.state, seat.turn.seconds(session.journal.now())) == ("green", 120)


def started(engine: FakeEngine, lab: str, stack: str = "") -> Record:
    """Start a lab as the command line does, and return its record."""
    name = stack or naming.stack_name(lab)
    record = Record.create(lab, name, {})
    record.event(READY)
    engine.launch(labs.load(lab), name, record.id, record.folder)
    return record


def test_the_newest_of_those_that_are_up(project: Project, engine: FakeEngine) -> None:
    """Neither a run whose stack has gone nor one of another learner."""
    newest = max((started(engine, lab) for lab in ("mtu", "gzip")), key=lambda its: its.id)
    started(engine, "busy", "faultlab-grace-busy")
    found = solo_session.last_up()
    assert found and found.id == newest.id
    engine.stacks_up.clear()
    assert solo_session.last_up() is None


def test_a_lab_that_the_command_line_has_started_is_not_started_again(
    page: Page, engine: FakeEngine
) -> None:
    started(engine, "gzip").event("hint", number=1)
    session = page()
    seat = finished(session, lambda: session.choose(session.roster.seat(1), "gzip"))
    stacks = session.stacks
    assert isinstance(stacks, FakeStacks)
    assert (seat.turn.lab, seat.turn.state, seat.turn.hints, stacks.ran) == ("gzip", "red", [1], [])


class Docker:
    """What the labs here are said to be: the run of each."""

    def __init__(self) -> None:
        self.runs: dict[str, str] = {}
        self.ended: dict[str, str] = {}

    def __call__(self) -> dict[str, dict[str, docker_list.Part]]:
        named = {naming.stack_name(lab): run for lab, run in self.runs.items()}
        states = {"web": "running", **self.ended}
        return {
            name: {part: docker_list.Part(run, state) for part, state in states.items()}
            for name, run in named.items()
        }


@pytest.fixture
def docker(monkeypatch: pytest.MonkeyPatch) -> Docker:
    its = Docker()
    monkeypatch.setattr(docker_list, "stacks", its)
    return its


def up(session: solo_session.SoloSession) -> list[str]:
    """Return the labs that the catalogue shows as up."""
    return [row["lab"] for track in session.catalogue() for row in track["labs"] if row["up"]]


def test_a_dead_daemon_is_shown_with_the_button_to_press(
    page: Page, engine: FakeEngine, docker: Docker
) -> None:
    session = page()
    seat = finished(session, lambda: session.choose(session.roster.seat(1), "heap-oom"))
    docker.runs["heap-oom"], docker.ended = "r", {"tomcat": "exited 137"}
    asyncio.run(session.poll())
    assert view.seat(session, seat)["states"] == {"tomcat": "exited 137"}

    started(engine, "heap-oom")
    for name in ("app", "tomcat"):
        engine.end(name)
    with pytest.raises(CannotRun, match=r"tomcat is not running \(exit code 137\). Press Restart"):
        session.stacks.terminal(seat, "tomcat")
    with pytest.raises(CannotRun, match=r"Start the lab over"):
        session.stacks.terminal(seat, "app")


def test_a_lab_that_is_removed_elsewhere_leaves_the_page(page: Page, docker: Docker) -> None:
    session = page()
    seat = finished(session, lambda: session.choose(session.roster.seat(1), "gzip"))
    asyncio.run(session.poll())  # a lab that this Docker does not have, as one in the lab VM
    assert seat.turn.state == "red"
    docker.runs["gzip"] = "first"
    asyncio.run(session.poll())
    assert seat.turn.state == "red"
    docker.runs.clear()
    session.doing[1] = "removing gzip"  # our own doing
    asyncio.run(session.poll())
    assert seat.turn.state == "red"
    session.doing.clear()
    asyncio.run(session.poll())
    assert (seat.turn.state, "outside this page" in seat.turn.why) == ("waiting", True)


def test_a_lab_that_is_removed_right_after_it_was_gone_on_with(page: Page, docker: Docker) -> None:
    record = Record.create("mtu", naming.stack_name("mtu"), {})
    record.event(READY)
    session = page()
    session.last = record
    seat = finished(session)
    asyncio.run(session.poll())
    assert seat.turn.state == "waiting"


def test_a_fresh_stack_of_the_command_line_is_not_that_of_the_page(
    page: Page, docker: Docker
) -> None:
    session = page()
    seat = finished(session, lambda: session.choose(session.roster.seat(1), "gzip"))
    for run, state in (("first", "red"), ("second", "waiting")):
        docker.runs["gzip"] = run
        asyncio.run(session.poll())
        assert seat.turn.state == state


def test_labs_of_the_command_line_are_marked(page: Page, docker: Docker) -> None:
    """As soon as they are ready."""
    session = page()
    record = Record.create("gzip", naming.stack_name("gzip"), {})
    docker.runs["gzip"] = record.id
    asyncio.run(session.poll())
    assert up(session) == []
    record.event(READY)
    asyncio.run(session.poll())
    assert up(session) == ["gzip"]


def test_a_measurement_that_is_repeated_is_explained(page: Page, docker: Docker) -> None:
    session = page()
    seat = finished(session, lambda: session.choose(session.roster.seat(1), "gzip"))
    record = Record.create("gzip", naming.stack_name("gzip"), {})
    docker.runs["gzip"] = record.id
    record.event("undecided", text="other programs used 27% of the CPU time")
    record.facts["events"][-1]["t"] -= 60  # during an earlier check
    record.save()

    async def checked() -> list[str]:
        said = []
        async with session._busy(seat, "measuring"):
            await session.poll()
            said.append(session.own(seat)["delay"])
            record.event("undecided", text="other programs used 27% of the CPU time")
            await session.poll()
            said.append(session.own(seat)["delay"])
        await session.poll()
        return [*said, session.own(seat)["delay"]]

    once = "Looked again: other programs used 27% of the CPU time."
    assert asyncio.run(checked()) == ["", once, ""]


def test_the_ticket_is_there_while_the_lab_is_measured(page: Page) -> None:
    session = page()
    seat = session.roster.seat(1)
    session.note(Event.CHOSEN, 1, lab="gzip")
    session.note(Event.STARTING, 1)
    shown = view.seat(session, seat)
    assert (bool(shown["ticket"]), bool(shown["title"]), shown["machines"]) == (True, True, [])


def test_a_hint_is_that_of_the_command_line(page: Page) -> None:
    session = page()
    seat = finished(session, lambda: session.choose(session.roster.seat(1), "mtu"))
    stacks = session.stacks
    assert isinstance(stacks, FakeStacks)
    stacks.outcome = Outcome(0, {"number": 3})
    asyncio.run(session.hint(seat))
    assert (stacks.ran[-1], seat.turn.hints) == (("hint", "mtu"), [3])
    stacks.outcome = Outcome(3, {}, "mtu is not up.")
    with pytest.raises(CannotRun, match="mtu is not up"):
        asyncio.run(session.hint(seat))


def test_the_catalogue_has_every_lab_and_one_that_is_next(page: Page) -> None:
    tracks = page().catalogue()
    rows = [row for track in tracks for row in track["labs"]]
    assert len(rows) == progress.so_far(curriculum.labs_in_order()).of
    assert [row["lab"] for row in rows if row["next"]] == ["p01"]


def test_only_its_owner_comes_in(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another user of this machine can connect to loopback, and is shown nothing."""
    session = page()
    keys = Keys(tmp_path / "keys.json")
    guard = Guard(session, keys, ["testserver"], secure=False, who=solo.learner)
    site = Site(session, keys, guard, tmp_path / "alive")
    whose = {"uid": os.getuid() + 1}
    monkeypatch.setattr(solo, "owner", lambda *_: whose["uid"])

    async def code(act: str, where: str, **headers: str) -> int:
        wire = httpx.ASGITransport(site.app())
        async with httpx.AsyncClient(transport=wire, base_url="http://testserver") as client:
            head = {"origin": "http://testserver", **headers}
            answer = await client.request(act, where, headers=head, content="{}")
        return answer.status_code

    def asked(act: str, where: str, **headers: str) -> int:
        return asyncio.run(code(act, where, **headers))

    assert (asked("GET", "/seat/1"), asked("POST", "/seat/1/check")) == (401, 401)
    whose["uid"] = os.getuid()
    assert (asked("GET", "/seat/1"), asked("GET", "/trainer")) == (200, 403)
    assert asked("POST", "/seat/1/check", origin="http://evil") == 403
    assert asked("GET", "/seat/1", host="evil") == 403
