"""Workshop: the plan, the journal, the roster, and a server that is attacked; no Docker.

The server is the real one, on loopback, with real connections. Stacks that say what a test wants
take the place of the command line, and a pair of sockets that of a shell in a container.
"""

from __future__ import annotations

import asyncio.constants
import csv
import io
import json
import math
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Route, WebSocketRoute
from websockets.exceptions import ConnectionClosed
from websockets.sync import client
from websockets.typing import Origin

from faultlab.core import events, paths
from faultlab.core.errors import BadInput, CannotRun
from faultlab.core.processes import Outcome, Processes
from faultlab.core.terminal import Terminal
from faultlab.lab import checks, services
from faultlab.lab import load as labs
from faultlab.run import placement
from faultlab.workshop import (
    access,
    address,
    connections,
    export,
    plan,
    site,
    terminals,
    tty,
    verbs,
    view,
)
from faultlab.workshop.access import TRAINER, Allowance, Keys
from faultlab.workshop.folder import Folder
from faultlab.workshop.guard import Guard
from faultlab.workshop.journal import Event, Journal
from faultlab.workshop.plan import ClassPlan
from faultlab.workshop.roster import DISK_FULL, Roster, Seat, Turn
from faultlab.workshop.session import Session
from faultlab.workshop.site import Site
from faultlab.workshop.slots import Slots
from faultlab.workshop.stacks import STEPS, Stacks
from tests.unit.conftest import Project, Run
from tests.unit.fake import FakeEngine, FakeStack
from tests.unit.served import FOUND, Fake, FakeStacks, Mirror, Served, planned, served
from tests.waiting import until

CLASS = """
title = "Tuesday"
seats = ["Ada", "Grace", "Linus"]
labs  = ["mtu", "somaxconn"]
"""
RIGHT = {"component": "web", "resource": "network", "cause": "mtu"}


# --- class.toml ------------------------------------------------------------------------------


def test_a_plan(tmp_path: Path) -> None:
    file = tmp_path / "class.toml"
    file.write_text(CLASS)
    found = plan.read(str(file))
    assert found == planned()
    assert found.turns(2, set()) == ["mtu", "somaxconn"]


def test_a_class_does_not_have_the_name_of_the_tests(tmp_path: Path) -> None:
    """`faultlab verify` and the tests take down what is called so."""
    (tmp_path / "verify.toml").write_text(CLASS)
    with pytest.raises(BadInput, match="give the class another name"):
        plan.read(str(tmp_path / "verify.toml"))


def test_each_seat_has_a_draw_of_its_own(tmp_path: Path) -> None:
    draw = planned(labs=[], draw={"count": 3, "seed": 7, "tier": "web", "level": 3})
    running = set(labs.ids()) - {"mtu"}
    drawn = [draw.turns(seat, running) for seat in (1, 2, 3)]
    assert drawn == [draw.turns(seat, running) for seat in (1, 2, 3)]
    assert len({tuple(one) for one in drawn}) == 3
    assert all(len(set(one)) == 3 and "mtu" not in one for one in drawn)
    with pytest.raises(BadInput, match="at most 1: only so many"):
        draw.turns(1, {"gzip"})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("title = ", "not valid TOML: Invalid value"),
        (CLASS.replace("title", "titel"), "title: missing key"),
        (CLASS + "hint = 1", "hint: unknown key"),
        (CLASS + "id = 'x'", "id: unknown key"),
        (CLASS.replace('"mtu"', '"mtv"'), "There is no lab called 'mtv'; did you mean mtu?"),
        (CLASS.replace('"Grace"', '"Ada"'), "expected names, each once"),
        (CLASS.replace('"Grace"', r'"A\u001b[2J"'), "expected names, each once"),
        (CLASS.replace('"Tuesday"', '""'), "title: "),
        (CLASS + "minutes = 0", "minutes: expected greater than 0, got 0"),
        (CLASS + "minutes = true", "minutes: expected a valid number"),
        (CLASS + "minutes = inf", "minutes: expected a finite number"),
        (CLASS + "hours = '3'", "hours: expected a valid number"),
        (CLASS + "limits = 'cpus=all'", "limits: expected cpus=1 memory=1g pids=512"),
        (CLASS + "seat_limits = 'cpus=0.5'", "a container can use more CPUs than its seat"),
        (CLASS + "seat_disk = 'all'", "seat_disk: "),
        (CLASS + "[draw]\ncount = 1", "expected either labs or [draw]"),
        (CLASS.replace("labs ", "#labs "), "expected either labs or [draw]"),
        (
            CLASS.replace("labs ", "#labs ") + "[draw]\ncount = 1\ntier = 'moon'",
            "No lab is of tier moon",
        ),
    ],
)
def test_a_mistake_in_a_plan(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "class.toml"
    file.write_text(text)
    with pytest.raises(BadInput, match=re.escape(said)) as caught:
        plan.read(str(file))
    assert caught.value.message.startswith(str(file))
    assert "docs/workshop.md" in caught.value.hint


def test_the_command_line(project: Project, faultlab: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project.root)
    assert faultlab("class", "start") == (
        faultlab("class", "start", "class.toml")  # the name that a class has without another
    )
    assert faultlab("class", "start").code == 2
    for verb in ("status", "end", "export"):
        result = faultlab("class", verb)
        assert result.code == 2
        assert result.err.startswith("faultlab: The class of class.toml was never started.")
    (project.root / "Klasse 1.toml").write_text(CLASS)
    assert "becomes one of containers" in faultlab("class", "start", "Klasse 1.toml").err
    (project.root / "class.toml").write_text(CLASS)
    assert "--cert and --key go together" in faultlab("class", "start", "--cert", "x").err
    begun = project.root / "classes/class"
    begun.mkdir(parents=True)
    journal = Journal(begun / "events.jsonl")
    journal.add(Event.PLANNED, plan=planned().model_dump(), labs=[["mtu"], ["mtu"], ["gzip"]])
    journal.add(Event.STARTING, 1)
    journal.add(Event.READY, 1)
    result = faultlab("class", "status")
    assert result.code == 0
    assert "Tuesday: goes on, its server is not up" in result.out
    assert re.search(r"1 +Ada +mtu \(1 of 1\) +open ", result.out), result.out
    assert max(map(len, result.out.splitlines())) <= 80
    told = json.loads(faultlab("class", "status", "--json").out)
    assert [turn["state"] for turn in told["turns"]] == ["red", "waiting", "waiting"]
    assert faultlab("class", "export").code == 0
    assert {file.name for file in begun.glob("results.*")} == {
        "results.csv",
        "results.json",
        "results.html",
    }
    assert "ends with .csv, .json, .html" in faultlab("class", "export", "--to", "x.pdf").err
    (project.root / "class.toml").write_text(CLASS.replace("Grace", "Margaret"))
    assert "has been changed since this class began" in faultlab("class", "start").err
    (begun / "events.jsonl").write_text('{"t": 1, "event"\n')
    result = faultlab("class", "status")
    assert (result.code, "damaged in line 1" in result.err) == (3, True)


# --- journal, roster, export -----------------------------------------------------------------


def test_a_line_that_was_cut_off_is_dropped(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    Journal(file).add(Event.OPENED)
    with file.open("a") as cut:
        cut.write('{"t": 3, "event": "tw')
    half = file.read_bytes()
    assert [event["event"] for event in Journal(file).events] == ["opened"]
    assert file.read_bytes() == half  # a server may be in the middle of this line
    journal = Journal(file, mend=True)
    journal.add(Event.ENDED)
    assert [event["event"] for event in Journal(file).events] == ["opened", "ended"]


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "events.jsonl")
    journal.file = tmp_path / "nowhere/events.jsonl"
    with pytest.raises(CannotRun, match="cannot be written"):
        journal.add(Event.OPENED)
    assert journal.events == []


Happened = tuple[float, str, dict[str, Any]]


def test_half_a_line_does_not_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path / "events.jsonl")
    journal.add(Event.OPENED)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(CannotRun, match="No space left"):
            journal.add(Event.PAUSED)
    journal.add(Event.ENDED)
    assert [event["event"] for event in Journal(journal.file).events] == ["opened", "ended"]


def roster(*events: Happened, **facts: Any) -> Roster:
    found = Roster(planned(**facts), [["mtu", "somaxconn"]] * 3)
    for t, what, more in events:
        found.apply({"t": t, "event": what, **more})
    return found


def test_a_class_that_began_before_classes_had_an_engine(project: Project) -> None:
    folder = Folder("class")
    folder.path.mkdir(parents=True)
    old = planned().model_dump(exclude={"engine"})
    Journal(folder.path / "events.jsonl").add(Event.PLANNED, plan=old, labs=[["mtu"]] * 3)
    nothing = cast("Terminal", None)
    assert verbs._opened(nothing, planned(), "class.toml", folder).events
    with pytest.raises(BadInput, match="has been changed since"):
        verbs._opened(nothing, planned(engine="kubernetes"), "class.toml", folder)
    assert project.root


def test_a_class_goes_on_with_another_number_of_cpus(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that was resized, or another one. What the file sets must be as it was.

    The limits that it does not set are those of the machine as it is now.
    """
    folder, file = Folder("class"), project.root / "class.toml"
    nothing = cast("Terminal", SimpleNamespace(alive=lambda *_: nullcontext()))
    monkeypatch.setattr(verbs, "engines_of", lambda *_: ({"mtu": 1, "somaxconn": 1}, {}))

    def goes_on(text: str, cpus: int) -> ClassPlan:
        file.write_text(text)
        monkeypatch.setattr(os, "cpu_count", lambda: cpus)
        found = plan.read(str(file))
        assert verbs._opened(nothing, found, "class.toml", folder).events
        return found

    assert "cpus=6" in goes_on(CLASS + "hints = 2", 8).limits
    assert "cpus=1.5" in goes_on(CLASS + "hints = 2", 2).limits
    for other in ("", "hints = 3", "hints = 2\nhint_cost = 1", "hints = 2\nlimits = 'cpus=6'"):
        with pytest.raises(BadInput, match="has been changed since"):
            goes_on(CLASS + other, 8)
    shutil.rmtree(folder.path)
    assert "cpus=1" in goes_on(CLASS + "limits = 'cpus=1'", 8).limits
    for other in ("", "limits = 'cpus=2'"):
        with pytest.raises(BadInput, match="has been changed since"):
            goes_on(CLASS + other, 8)


def test_a_class_of_an_older_version_goes_on_with_another_number_of_cpus(project: Project) -> None:
    """Its journal does not tell what the file set."""
    folder = Folder("class")
    folder.make()
    old = planned().model_dump() | {"limits": "cpus=96", "seat_limits": "cpus=96 memory=4g"}
    folder.journal().add(Event.PLANNED, plan=old, labs=[["mtu"]] * 3)
    nothing = cast("Terminal", None)
    assert verbs._opened(nothing, planned(), "class.toml", folder).events
    with pytest.raises(BadInput, match="has been changed since"):
        verbs._opened(nothing, planned(limits="cpus=1"), "class.toml", folder)
    assert project.root


def test_what_follows_from_the_events() -> None:
    one = {"seat": 1}
    events: list[Happened] = [
        (0.0, "starting", one),
        (10.0, "ready", one),
        (70.0, "hinted", {**one, "given": 2}),
        (80.0, "answered", {**one, "answer": {**RIGHT, "cause": "gzip"}}),
        (90.0, "answered", {**one, "answer": RIGHT}),
        (100.0, "checked", {**one, "fixed": False, "findings": FOUND}),
        (110.0, "paused", {}),
        (210.0, "resumed", {}),
        (220.0, "checked", {**one, "fixed": True, "findings": []}),
    ]
    seat = roster(*events).seat(1)
    turn = seat.turn
    assert (turn.state, turn.checks, turn.hints, len(turn.answers)) == ("green", 2, [1, 2], 2)
    assert turn.seconds(999.0) == 110  # of 210, less the pause
    assert turn.told(blind=True)
    score = roster(*events).score(turn, 999.0)
    cost = sum(rung.cost for rung in labs.load("mtu").hint[:2])
    assert (score.points, score.of) == (40 - cost - 5, 40)
    assert roster(*events, hint_cost=7).score(turn, 999.0).points == 40 - 14 - 5
    seen = roster(*events, blind=False).score(turn, 999.0)
    assert (seen.points, seen.of) == (10 - cost - 5, 10)


def test_a_journal_that_counted_hints() -> None:
    """A class that began with an earlier version goes on with the hints that it had given."""
    one = {"seat": 1}
    turn = roster((0.0, "ready", one), (5.0, "hinted", {**one, "given": 2})).seat(1).turn
    assert turn.hints == [1, 2]
    again = roster((0.0, "ready", one), (5.0, "hinted", {**one, "number": 3})).seat(1).turn
    assert again.hints == [3]


def test_hints_are_for_what_the_last_check_found() -> None:
    lab = labs.load("packet-loss")
    turn = Turn(lab.id, hints=[n for n, rung in enumerate(lab.hint, 1) if not rung.fault])

    def of(*gone: int) -> list[str]:
        turn.faults_gone = [*gone]
        return [lab.hint[number - 1].fault for number in turn.next_hints()]

    assert (of(), of(1), of(1, 2), of(1, 2, 3)) == (["netem-loss"], ["iptables-drop"], ["mtu"], [])


def test_green_without_an_answer_is_not_told_yet() -> None:
    one = {"seat": 1}
    green: list[Happened] = [
        (0.0, "ready", one),
        (9.0, "checked", {**one, "fixed": True, "findings": []}),
    ]
    assert not roster(*green).seat(1).turn.told(blind=True)
    assert roster(*green).seat(1).turn.told(blind=False)
    gave_up = roster(*green, (10.0, "gave up", one))
    assert gave_up.seat(1).turn.state == "green"
    assert gave_up.seat(1).turn.told(blind=True)
    assert gave_up.score(gave_up.seat(1).turn, 10.0).points == 0


def test_time_without_a_server_does_not_count() -> None:
    one = {"seat": 1}
    found = roster((0.0, "ready", one), (500.0, "opened", {"alive": 60.0}))
    assert found.seat(1).turn.seconds(510.0) == 70


def test_time_without_a_server_does_not_count_at_its_end(
    tmp_path: Path, faultlab: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in the evening, and `class end` the next morning."""
    monkeypatch.setenv("FAULTLAB_STATE", str(tmp_path))
    monkeypatch.setattr(verbs, "Stacks", FakeStacks)
    folder, plan = Folder("x"), planned()
    folder.make()
    journal, now = folder.journal(), time.time()
    journal.add(Event.PLANNED, plan=plan.model_dump(), labs=[["mtu", "gzip"]] * 3)
    journal.add(Event.READY, 1, t=now - 50_000)
    folder.alive.touch()
    os.utime(folder.alive, (now - 49_940, now - 49_940))
    minutes = [verbs.status(Terminal(), "x.toml").turns[0]["minutes"]]
    verbs.end(Terminal(), "x.toml")
    minutes.append(verbs.status(Terminal(), "x.toml").turns[0]["minutes"])
    assert minutes == [pytest.approx(1, abs=0.1)] * 2


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


def test_a_fresh_stack_keeps_what_was_said_and_stops_the_clock() -> None:
    one = {"seat": 1}
    events: list[Happened] = [(0.0, "ready", one), (30.0, "answered", {**one, "answer": RIGHT})]
    found = roster(*events, (60.0, "starting", one), (100.0, "ready", one))
    turn = found.seat(1).turn
    assert (turn.state, turn.answers, turn.seconds(110.0)) == ("red", [RIGHT], 70)


def test_who_was_told_and_begins_anew_has_been_told() -> None:
    one = {"seat": 1}
    events: list[Happened] = [(0.0, "ready", one), (9.0, "gave up", one), (10.0, "starting", one)]
    found = roster(*events, (20.0, "ready", one))
    assert found.seat(1).turn.told(blind=True)
    found.apply({"t": 30.0, "event": "checked", "seat": 1, "fixed": True, "findings": []})
    found.apply({"t": 31.0, "event": "answered", "seat": 1, "answer": RIGHT})
    assert found.score(found.seat(1).turn, 40.0).points == 30  # none for the repair


def test_the_next_lab() -> None:
    found = roster((0.0, "ready", {"seat": 2}), (5.0, "moved on", {"seat": 2}))
    assert (found.seat(2).at, found.seat(2).turn.lab, found.seat(2).last) == (1, "somaxconn", True)
    assert found.seat(1).at == 0


def test_exports(tmp_path: Path) -> None:
    seats = ["Ada", "=HYPERLINK(1)", "<script>"]
    events: list[Happened] = [(0.0, "ready", {"seat": 1}), (9.0, "gave up", {"seat": 1})]
    found = roster(*events, seats=seats)
    journal = Journal(tmp_path / "events.jsonl")
    table = list(csv.DictReader(io.StringIO(export.text(found, journal, "csv", 99.0))))
    assert [row["name"] for row in table] == ["Ada", "'=HYPERLINK(1)", "<script>"]
    assert (table[0]["state"], table[0]["gave_up"], table[0]["points"]) == ("over", "True", "0")
    told = json.loads(export.text(found, journal, "json", 99.0))
    assert told["turns"][0]["lab"] == "mtu"
    page = export.text(found, journal, "html", 99.0)
    assert "<script>" not in page and "&lt;script&gt;" in page


# --- limits of containers --------------------------------------------------------------------


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(services.LIMITS, "cpus=0.5 memory=1g pids=512")
    own = {"image": "machine"}
    machines: dict[str, dict[str, Any]] = {name: {**own} for name in ("client", "web", "db")}
    for daemon, machine in (("nginx", "web"), ("mysql", "db")):  # so that these are needed
        machines[daemon] = {**own, "network_mode": f"service:{machine}"}
    parts: tuple[dict[str, Any], ...] = (
        {"services": machines, "networks": {"default": {}}},
        {"services": {"web": {"cpus": 0.2}, "db": {"mem_limit": "512m"}}},
    )
    documents = services.Plan(parts).documents("x", ["nginx", "mysql"], "198.18.7.0/24", {})
    made = services.Plan(tuple(documents)).services
    limits = {"cpus": 0.5, "mem_limit": "1g", "memswap_limit": "1g", "pids_limit": 512}
    assert limits.items() <= made["client"].items()
    # What a lab limits itself stays as it is, with what Docker makes of its swap.
    assert (made["web"]["cpus"], made["db"]["mem_limit"]) == (0.2, "512m")
    assert "memswap_limit" not in made["db"]


def test_one_cgroup_around_a_stack() -> None:
    """What the first process of a container prints stays within bounds in any case."""
    parts = ({"services": {"client": {"image": "machine"}}, "networks": {"default": {}}},)
    for parent in ("/faultlab/seat", ""):
        documents = services.Plan(parts).documents("x", [], "198.18.7.0/24", {}, parent=parent)
        client = documents[0]["services"]["client"]
        assert client.get("cgroup_parent", "") == parent
        assert client["logging"]["options"] == {"max-size": "5m", "max-file": "2"}


def test_a_command_that_prints_a_line_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that prints a line without end: its seat was "starting" for good."""
    endless = (sys.executable, "-c", "print('x' * 3 * 2**20)", "--")
    monkeypatch.setattr("faultlab.core.processes.DIE_WITH_US", endless)
    outcome = asyncio.run(Processes().run(["start"], {}, 10, lambda _: None))
    assert (outcome.code, outcome.error) == (3, "it printed a line without end")


def test_addresses_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bridge to somebody's network is one of them, and Docker's are none."""
    links = {"br-lan": "198.18.1.1", "br-0123456789ab": "198.18.2.1", "docker0": "198.18.3.1"}
    told = [
        {"ifname": name, "addr_info": [{"family": "inet", "local": local}]}
        for name, local in links.items()
    ]
    done = subprocess.CompletedProcess([], 0, json.dumps(told), "")
    monkeypatch.setattr("faultlab.core.command.run", lambda *_, **__: done)
    names = address.hosts("0.0.0.0", [])
    assert "198.18.1.1" in names and not {"198.18.2.1", "198.18.3.1"} & {*names}


# --- access ----------------------------------------------------------------------------------


def test_tokens(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    keys = Keys(file)
    keys.make([TRAINER, 1, 2], 1)
    assert file.stat().st_mode & 0o777 == 0o600
    assert len({keys.token(number) for number in (TRAINER, 1, 2)}) == 3
    assert all(len(keys.token(number)) >= 43 for number in (TRAINER, 1, 2))  # 256 bits
    one = keys.token(1)
    again = Keys(file)
    again.make([TRAINER, 1, 2], 1)
    assert again.token(1) == one
    found = again.visitor(one)
    assert found is not None and found.may(1) and not found.may(2) and not found.trainer
    again.replace(1, 1)
    assert again.visitor(one) is None and Keys(file).visitor(again.token(1)) == found
    for wrong in ("", one[:-1], one + "x", "é"):
        assert again.visitor(wrong) is None
    file.write_text("[]")
    with pytest.raises(CannotRun, match="damaged"):
        Keys(file)


def on_disk(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that will say what was put on the disk, and when a file took its name."""
    done: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def synced(descriptor: int) -> None:
        done.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        fsync(descriptor)

    def replaced(part: Path, target: Path) -> Path:
        done.append(f"{target.name} is new")
        return replace(part, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", replaced)
    return done


def test_what_is_written_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before a power failure: links that were handed out, records, the name of a new journal."""
    done = on_disk(monkeypatch)
    here = tmp_path.name
    Keys(tmp_path / "keys.json").make([1], 1)
    assert done == ["keys.json.part", "keys.json is new", here]
    done.clear()
    paths.write_whole(tmp_path / "run.json", "{}")
    assert done == ["run.json.part", "run.json is new", here]
    done.clear()
    journal = Journal(tmp_path / "events.jsonl")
    for _ in range(2):
        journal.add(Event.OPENED)
    assert done == ["events.jsonl", here, "events.jsonl"]


def test_a_link_that_cannot_be_written_does_not_end_the_old_one(
    here: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = here.keys.token(1)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        answer = here.post(TRAINER, "/trainer/seat/1/new-link")
    assert answer.status_code == 409 and "No space left" in answer.json()["error"]
    assert here.keys.token(1) == old and here.get(1, "/seat/1").status_code == 200
    assert Keys(here.keys.file).token(1) == old


def test_half_a_certificate_is_made_again(tmp_path: Path) -> None:
    """As after a power failure."""
    cert, key = access.certificate(tmp_path, ["lab.example"])
    for file in (cert, key):
        file.write_text("")
        access.usable(*map(str, access.certificate(tmp_path, ["lab.example"])))


def test_a_token_expires(tmp_path: Path) -> None:
    keys = Keys(tmp_path / "keys.json")
    keys.make([1], -1)
    old = keys.token(1)
    assert keys.visitor(old) is None
    keys.make([1], 1)
    assert keys.visitor(old) is None and keys.visitor(keys.token(1)) is not None


def test_an_allowance_is_used_up_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    some = Allowance(rate=1, stock=3)
    assert [some.take("a") for _ in range(4)] == [True, True, True, False]
    assert some.take("b")
    now[0] = 2.0
    assert [some.take("a") for _ in range(3)] == [True, True, False]
    now[0] = 99.0  # a long silence buys no more than the stock
    assert [some.take("a") for _ in range(4)] == [True, True, True, False]


def test_a_certificate(tmp_path: Path) -> None:
    cert, key = access.certificate(tmp_path, ["lab.example", "192.0.2.1"])
    assert key.stat().st_mode & 0o777 == 0o600
    first = cert.read_bytes()
    assert access.certificate(tmp_path, ["lab.example", "192.0.2.1"]) == (cert, key)
    assert cert.read_bytes() == first
    assert access.certificate(tmp_path, ["other"]) == (cert, key)
    assert cert.read_bytes() != first
    assert re.fullmatch(r"(?:[0-9A-F]{2}:){31}[0-9A-F]{2}", access.fingerprint(cert))
    with pytest.raises(CannotRun, match="is no certificate"):
        access.fingerprint(key)


def test_a_chain_of_certificates(tmp_path: Path) -> None:
    """The server's own comes first, and a file can have text around it."""
    for name in ("own", "authority"):
        (tmp_path / name).mkdir()
    own, key = access.certificate(tmp_path / "own", ["lab.example"])
    authority, _ = access.certificate(tmp_path / "authority", ["authority.example"])
    chain = tmp_path / "chain.pem"
    chain.write_text(f"subject=CN = lab.example\n{own.read_text()}\n{authority.read_text()}")
    access.usable(str(chain), str(key))
    for cert in (authority, key, tmp_path / "none.pem"):
        with pytest.raises(BadInput, match=r"^--cert, --key: "):
            access.usable(str(cert), str(key))


# --- a session that goes on ------------------------------------------------------------------


# Words of these labs' names that their users say as well, or that stand in any page.
SAID = {"busy", "healthy", "latent", "swap", "bandwidth", "throughput"}


@pytest.mark.parametrize("lab_id", labs.ids())
def test_no_view_of_a_blind_seat_names_its_lab(lab_id: str, tmp_path: Path) -> None:
    """Whatever the state, with all hints given, while it starts, and when it could not."""
    found = Roster(planned(labs=[lab_id]), [[lab_id]] * 3)
    session = Session(found.plan, found, Journal(tmp_path / "events.jsonl"), Stacks(found.plan))
    seat = found.seat(1)
    cause = labs.load(lab_id).inject[:1]
    why = f"On web this failed: {cause[0].run if cause else lab_id}: the fault has no effect"

    def seen() -> str:
        told = view.seat(session, seat)
        assert told["debrief"] is None
        return json.dumps({**told, "terms": {}})

    said = [seen()]
    for step in STEPS.values():
        session.doing[1] = step
        said.append(seen())
    found.apply({"t": 0, "event": "failed", "seat": 1, "why": why})
    said.append(seen())
    found.apply({"t": 0, "event": "starting", "seat": 1})
    found.apply({"t": 1, "event": "ready", "seat": 1})
    for well in (False, True):  # a seat shows what its last check said
        findings: list[dict[str, Any]] = [
            {"name": m.name, "holds": well, "says": m.when_good if well else m.when_bad}
            for m in checks.load(labs.load(lab_id)).symptom
        ]
        event = {"t": 1, "event": "checked", "seat": 1, "fixed": False, "findings": findings}
        found.apply({**event, "popular": ["A public answer says this."]})
        assert view.seat(session, seat)["popular"] == ["A public answer says this."]
        found.apply(event)
        assert view.seat(session, seat)["popular"] == []
        assert view.seat(session, seat)["findings"] == findings
        findings[0]["value"] = math.inf
        json.loads(json.dumps(view.seat(session, seat)["findings"]), parse_constant=pytest.fail)
        said.append(seen())
    found.apply({"t": 2, "event": "hinted", "seat": 1, "given": len(labs.load(lab_id).hint)})
    said.append(seen())
    whole = "\n".join(said)
    if lab_id not in SAID:
        assert not re.search(rf"(?<![\w.]){lab_id}(?![\w.])", "\n".join(said[:-1])), whole
    assert why not in whole and "as it should" not in whole
    assert labs.load(lab_id).title not in whole


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


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """A class of three that has begun."""
    monkeypatch.setattr(site, "_TICK", 0.1)
    monkeypatch.setattr(terminals, "_APART", 0.01)
    Mirror.opened.clear()
    with served(tmp_path) as it:
        yield it


def test_a_seat_from_the_link_to_the_debrief(here: Served) -> None:
    with httpx.Client(base_url=here.url, headers={"origin": here.url}) as page:
        assert page.get("/seat/1").status_code == 401
        answer = page.get(f"/join?token={here.keys.token(1)}", follow_redirects=True)
        assert (answer.status_code, answer.url.path) == (200, "/seat/1")
        cookie = answer.history[0].headers["set-cookie"]
        assert "HttpOnly" in cookie and "SameSite=lax" in cookie
        assert page.get("/", follow_redirects=False).headers["location"] == "/seat/1"
        with here.events(1, "/seat/1/events") as views:
            first = next(views)
            assert (first["state"], first["turn"], first["turns"]) == ("red", 1, 2)
            assert "mtu" not in json.dumps({**first, "terms": ""})
            assert page.post("/seat/1/hint").status_code == 200
            assert len(next(views)["hints"]) == 1
            assert page.post("/seat/1/check").status_code == 200
            assert page.post("/seat/1/next").status_code == 400  # first the debrief
            assert page.post("/seat/1/diagnose", json={**RIGHT, "cause": "x"}).status_code == 400
            assert page.post("/seat/1/diagnose", json=RIGHT).status_code == 200
            here.stacks.well.add(1)
            assert page.post("/seat/1/check").status_code == 200
            for told in views:
                if told["debrief"]:
                    break
        assert told["debrief"]["lab"] == "mtu" and told["debrief"]["points"] == 39
        assert all(told["debrief"]["right"].values())
        assert page.post("/seat/1/diagnose", json=RIGHT).status_code == 409  # too late
        assert page.post("/seat/1/next").status_code == 200
        here.wait(1, "red", at=1)
        assert here.stacks.ran[-1][1] == ("start", "somaxconn", "--blind", "--engine", "local")
        assert page.post("/seat/1/give-up").status_code == 200
        assert page.post("/seat/1/next").status_code == 400  # the last one


LATE = ("check", "mystery", "--later", "0.01", "--late")


@pytest.fixture
def again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """A class of three that looks at a repair again after 0.6 s. Seat 1 has repaired its lab."""
    monkeypatch.setattr(site, "_TICK", 0.1)
    with served(tmp_path, later=0.01) as it:
        it.stacks.slow = 0.3
        it.stacks.well.add(1)
        assert it.post(1, "/seat/1/check").status_code == 200
        it.wait(1, "amber")
        yield it


def test_a_repair_that_lasts(again: Served) -> None:
    """It is no point until it was looked at again, and the seat can read and answer meanwhile."""
    told = view.seat(again.session, again.session.roster.seat(1))
    assert (told["state"], told["debrief"], told["machines"][0]) == ("amber", None, "client")
    assert told["why"] == "repaired; looked at again in 0.6 seconds" and told["again"] <= 0.6
    assert again.post(1, "/seat/1/check").status_code == 409
    assert again.post(1, "/seat/1/next").json()["error"].startswith("The next lab comes after")
    assert again.post(1, "/seat/1/diagnose", RIGHT).status_code == 200
    assert view.projector(again.session)["seats"][0]["points"] == 30
    again.wait(1, "green")
    assert again.stacks.ran[-1] == (1, LATE)
    told = view.seat(again.session, again.session.roster.seat(1))
    assert (told["debrief"]["points"], told["checks"], told["why"]) == (40, 1, "")


def test_a_repair_that_does_not_last(again: Served) -> None:
    """The lab is open again, and the time in between is not the learner's."""
    clock = again.session.roster.seat(1).turn.ran
    again.stacks.well.clear()
    until(lambda: again.session.roster.seat(1).turn.why == "It was repaired, but not for good.")
    again.wait(1, "red")
    turn = again.session.roster.seat(1).turn
    assert (turn.ran, turn.again) == (clock, None)
    assert turn.since is not None
    again.stacks.well.add(1)
    assert again.post(1, "/seat/1/check").status_code == 200
    again.wait(1, "green")


def test_a_repair_that_cannot_be_looked_at_again_counts(again: Served) -> None:
    again.stacks.outcome = Outcome(3, {}, "too busy")
    again.wait(1, "green")
    assert again.session.roster.seat(1).turn.why == "Not looked at again: too busy"
    assert [words for _, words in again.stacks.ran].count(LATE) == 3


@pytest.mark.parametrize("path", ["/trainer/seat/1/next", "/trainer/end"])
def test_a_trainer_does_not_wait_for_a_late_look(again: Served, path: str) -> None:
    """What they end or move on counts as it is."""
    again.post(TRAINER, path)
    until(lambda: again.session.roster.seat(1).turns[0].state == "green")
    assert LATE not in [words for _, words in again.stacks.ran]


def test_the_lesson_is_open_at_once_where_labs_are_named(tmp_path: Path) -> None:
    found = Roster(planned(blind=False, later=3), [["mtu"]] * 3)
    for event in ("starting", "ready"):
        found.apply({"t": 1, "event": event, "seat": 1})
    found.apply({"t": 2, "event": "checked", "seat": 1, "fixed": True, "later": 3, "findings": []})
    session = Session(found.plan, found, Journal(tmp_path / "events.jsonl"), Stacks(found.plan))
    told = view.seat(session, found.seat(1))
    assert (told["state"], told["debrief"]["lab"], told["debrief"]["points"]) == ("amber", "mtu", 0)
    assert found.seat(1).turn.is_due(182) and not found.seat(1).turn.is_due(181)
    found.apply({"t": 182, "event": "looked again", "seat": 1, "fixed": True})
    assert view.seat(session, found.seat(1))["debrief"]["points"] == 10


def test_the_trainer_sees_it_at_once(here: Served) -> None:
    with here.events(TRAINER, "/trainer/events") as views:
        assert [seat["state"] for seat in next(views)["seats"]] == ["red"] * 3
        began = time.monotonic()
        assert here.post(2, "/seat/2/give-up").status_code == 200
        for told in views:
            if told["seats"][1]["state"] == "over":
                break
        assert time.monotonic() - began < 2
    assert told["seats"][0]["name"] == "Ada" and told["seats"][0]["lab"] == "mtu"
    with here.events(TRAINER, "/projector/events") as views:
        wall = json.dumps(next(views))
    assert "Ada" not in wall and "mtu" not in wall
    assert here.post(TRAINER, "/trainer/pause").status_code == 200
    assert here.post(1, "/seat/1/check").status_code == 409
    assert here.post(TRAINER, "/trainer/resume").status_code == 200
    assert here.post(TRAINER, "/trainer/seat/1/next").status_code == 200
    here.wait(1, "red", at=1)
    assert here.post(TRAINER, "/trainer/seat/3/restore").status_code == 200
    for kind in export.KINDS:
        assert "Grace" in here.get(TRAINER, f"/export.{kind}").text
    assert here.get(TRAINER, "/export.pdf").status_code == 404
    assert here.post(TRAINER, "/trainer/end").status_code == 200
    assert here.session.roster.ended
    assert [words for _, words in here.stacks.ran[-3:]] == [("down", "mystery")] * 3


def test_a_terminal(here: Served) -> None:
    with here.terminal(1, "/seat/1/terminal/web") as page:
        page.send(json.dumps({"columns": 100, "rows": 30}))
        assert page.recv(5) == b"100x30"
        page.send(json.dumps({"input": "ls\r"}))
        assert page.recv(5) == b"ls\r"
    assert Mirror.opened == ["faultlab-class-1-mystery-web"]
    assert here.status(1, "/seat/1/terminal/host") == 403
    assert here.status(1, "/seat/1/terminal/..%2f..%2fweb") in (403, 404)
    with here.terminal(TRAINER, "/seat/1/terminal/client"):  # who may help
        until(lambda: len(Mirror.opened) == 2)
    assert here.status(1, "/seat/1/terminal/faultlab-class-2-mystery-web") == 403
    assert Mirror.opened[1:] == ["faultlab-class-1-mystery-client"]


def test_terminals_are_opened_one_a_second(tmp_path: Path) -> None:
    """Each costs the engine CPU time that no limit of a seat counts. The others wait in order.

    A page that goes while it waits costs nothing; another seat does not wait.
    """
    Mirror.opened.clear()
    with served(tmp_path) as it:
        began = time.monotonic()

        def opens() -> None:
            while time.monotonic() < began + 2.5:
                with it.terminal(1, "/seat/1/terminal/web"):
                    pass

        pages = [threading.Thread(target=opens) for _ in range(4)]
        for page in pages:
            page.start()
        path = "/seat/1/terminal/client"
        for _ in range(3):  # these go before their turn
            with it.connect(it.upgrade(1, path)):
                pass
        with it.terminal(2, "/seat/2/terminal/web"):
            assert time.monotonic() < began + 1
        for page in pages:
            page.join()
        of_seat = [name for name in Mirror.opened if "-1-" in name]
        assert len(of_seat) <= time.monotonic() - began + 1
        assert {name.rpartition("-")[2] for name in of_seat} == {"web"}
        until(lambda: it.site.terminals.open == [], shown=it.site.terminals.open)


def test_a_window_that_is_dragged_is_resized_now_and_then(here: Served) -> None:
    """Each size is a call of the engine; the last one counts."""
    with here.terminal(1, "/seat/1/terminal/web") as page:
        for columns in range(1, 201):
            page.send(json.dumps({"columns": columns, "rows": 30}))
        said = b""
        while not said.endswith(b"200x30"):
            said += page.recv(5)
    assert said.count(b"x30") < 10


def test_nothing_typed_counts_in_a_pause(here: Served) -> None:
    with here.terminal(1, "/seat/1/terminal/web") as page:
        here.post(TRAINER, "/trainer/pause")
        until(lambda: not here.site.terminals.typing.is_set())
        page.send(json.dumps({"input": "lost"}))
        page.send(json.dumps({"columns": 9, "rows": 9}))
        assert page.recv(5) == b"9x9"  # so what was sent before it has been heard
        here.post(TRAINER, "/trainer/resume")
        until(here.site.terminals.typing.is_set)
        page.send(json.dumps({"input": "kept"}))
        assert page.recv(5) == b"kept"


def test_a_shell_that_ended_with_its_container(
    here: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection can stay open; the page is told all the same, and offers a new shell."""
    monkeypatch.setattr(tty, "_LOOK", 0.05)
    with here.terminal(1, "/seat/1/terminal/web") as page:
        page.send(json.dumps({"input": "x"}))
        assert page.recv(5) == b"x"
        monkeypatch.setattr(Mirror.last, "is_gone", True)
        with pytest.raises(ConnectionClosed):
            page.recv(5)


def test_a_terminal_that_prints_without_end(here: Served) -> None:
    """A program that prints without end waits, as at a slow terminal; no other page does."""
    rate, stock = here.site.terminals._output.rate, here.site.terminals._output.stock
    with here.terminal(1, "/seat/1/terminal/web") as page:
        page.send(json.dumps({"input": "x"}))
        assert page.recv(5) == b"x"
        flood = threading.Thread(target=Mirror.last.flood, args=(2 * int(stock),), daemon=True)
        began, got = time.monotonic(), 0
        flood.start()
        while got < 1.25 * stock:
            got += len(page.recv(10))
            took = time.monotonic() - began
            assert got <= stock + rate * (took + 0.1) + tty._AT_ONCE
        with here.terminal(2, "/seat/2/terminal/web") as other:
            other.send(json.dumps({"input": "y"}))
            assert other.recv(1) == b"y"


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


def test_a_disk_that_is_full_takes_no_points() -> None:
    """A lab that is repaired stays so, with its debrief and its answer; its machines are gone.

    A repair that was to be looked at again cannot be, by the doing of its seat, and counts not.
    """
    one = {"seat": 1}
    begun: list[Happened] = [(0.0, "ready", one), (5.0, "answered", {**one, "answer": RIGHT})]
    fixed = {**one, "fixed": True, "findings": []}
    green = roster(*begun, (9.0, "checked", fixed), (20.0, "disk full", one))
    turn = green.seat(1).turn
    assert (turn.state, turn.up, turn.why) == ("green", False, DISK_FULL)
    assert (green.score(turn, 30.0).points, turn.told(blind=True)) == (40, True)
    green.apply({"t": 40.0, "event": "starting", "seat": 1})
    green.apply({"t": 41.0, "event": "ready", "seat": 1})
    assert (green.seat(1).turn.state, green.seat(1).turn.up) == ("red", True)
    for after, state, points in (("disk full", "failed", 30), ("failed", "green", 40)):
        amber = roster(*begun, (9.0, "checked", {**fixed, "later": 3}), (20.0, after, one))
        turn = amber.seat(1).turn
        assert (turn.state, turn.again) == (state, None)
        assert amber.score(turn, 30.0).points == points


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
def test_a_disk_that_was_full_costs_no_new_stack(
    act: str, when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
        monkeypatch.setattr(stacks, fake.__name__, fake)

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
    what: str, here: Served, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(site, "_POLL", 0.05)

    def broken(*_: Any) -> None:
        raise ZeroDivisionError("of ours")

    said = ""
    with monkeypatch.context() as patch:
        patch.setattr(here.session, what, broken)
        deadline = time.monotonic() + 5
        while "of ours" not in said and time.monotonic() < deadline:
            time.sleep(0.01)
            said += capfd.readouterr().err
    assert "faultlab: ZeroDivisionError: of ours" in said
    again = threading.Event()

    async def poll() -> None:
        again.set()

    monkeypatch.setattr(here.session, what, poll if what == "poll" else lambda _: again.set())
    assert again.wait(5)


@pytest.mark.parametrize("where", ["local", "kubernetes"])
def test_a_seat_over_its_disk_loses_its_stack(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One byte more than it may have, and only what is its own; on the engine of the class."""
    engine = FakeEngine()
    reached = type("Reached", (FakeEngine,), {"reach": staticmethod(lambda: engine)})
    monkeypatch.setattr(placement, "ENGINES", {where: reached})
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


def test_a_double_click_is_one(here: Served) -> None:
    here.post(1, "/seat/1/give-up")
    here.stacks.slow = 0.3
    codes = sorted(here.post(1, "/seat/1/next", {"turn": 1}).status_code for _ in range(3))
    assert codes == [200, 409, 409]
    here.wait(1, "red")
    assert here.session.roster.seat(1).at == 1
    assert here.post(1, "/seat/1/hint", {"turn": 1}).status_code == 409  # a page that is late
    assert here.session.roster.seat(1).turn.hints == []


def test_an_end_does_not_wait_for_a_check(here: Served) -> None:
    here.stacks.slow = 0.5
    codes: list[int] = []
    checking = threading.Thread(
        target=lambda: codes.append(here.post(1, "/seat/1/check").status_code)
    )
    here.stacks.well.add(1)
    checking.start()
    until(lambda: here.stacks.ran[-1][1][0] == "check")
    here.stacks.slow = 0.01  # of what comes now
    assert here.post(TRAINER, "/trainer/end").status_code == 200
    checking.join()
    assert here.session.roster.ended
    assert here.session.roster.seat(1).turn.state == "red"  # what came after the end does not count
    assert here.post(2, "/seat/2/next").status_code == 409
    assert here.post(TRAINER, "/trainer/seat/2/restore").status_code == 409
    assert here.post(TRAINER, "/trainer/end").status_code == 200


def test_a_trouble_does_not_stop_the_clock(
    here: Served, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A disk that is full for a moment."""

    def full(_: float) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(here.session, "tick", full)
        said = ""
        while "No space left" not in said:
            time.sleep(0.01)
            said += capfd.readouterr().err
    ticked = threading.Event()
    monkeypatch.setattr(here.session, "tick", lambda _: ticked.set())
    assert ticked.wait(5)


# --- attacks ---------------------------------------------------------------------------------

OWN = ("/", "/join", "/static", "/static/report.css")


def every_route(site: Starlette) -> list[tuple[str, bool]]:
    """Each path that belongs to somebody, for seat 2, and whether it is a WebSocket."""
    found = []
    for route in site.routes:
        path = getattr(route, "path", "")
        if path in OWN:
            continue
        assert isinstance(route, Route | WebSocketRoute), route
        path = path.replace("{seat:int}", "2").replace("{machine:str}", "web")
        path = path.replace("{act:str}", "check" if "/seat/2" in path[:7] else "next")
        found.append((path.replace("{kind:str}", "json"), isinstance(route, WebSocketRoute)))
    return found


def test_every_route_asks_whose_it_is(here: Served, tmp_path: Path) -> None:
    """Without a token, with a wrong one, and with that of another seat; and it is noted."""
    guard = Guard(here.session, here.keys, [], False)
    app = Site(here.session, here.keys, guard, tmp_path / "x").app()
    assert isinstance(app, Starlette)
    routes = every_route(app)
    assert len(routes) == 12
    here.keys.make([9], -1)  # a token that has expired
    for path, is_terminal in routes:
        for who, wanted in (
            (None, {401, 429}),
            ("x" * 43, {401, 429}),
            (1, {403}),
            (9, {401, 429}),
        ):
            before = here.session.roster.seat(1).refused
            if is_terminal:
                code = here.status(who, path)
            else:
                get, post = here.get(who, path).status_code, here.post(who, path).status_code
                code = get if post == 405 else post
                assert {get, post} <= {405, *wanted}, (path, who, get, post)
            assert code in wanted, (path, who, code)
            if who == 1:
                assert here.session.roster.seat(1).refused > before, path
    assert all(turn.state == "red" for turn in (here.session.roster.seat(2).turn,))
    assert Mirror.opened == []
    asked = [event["asked"] for event in here.session.journal.events if event["event"] == "refused"]
    assert {"/seat/2/terminal/web", "/seat/2/check", "/trainer"} <= set(asked)


def test_a_link_takes_no_one_out_of_their_seat(here: Served) -> None:
    """A page of another server, or a message, can lead a browser to a link of another seat.

    It asks first, and only our own page can answer.
    """
    with httpx.Client(base_url=here.url) as page:
        mine, other = (f"/join?token={here.keys.token(number)}" for number in (1, 2))
        own = {"origin": here.url}
        assert page.get(mine).status_code == 303
        assert page.get(mine).status_code == 303  # the same link again
        asked = page.get(other)
        assert (asked.status_code, "set-cookie" in asked.headers) == (200, False)
        assert (
            "Ada" in asked.text and "Grace" in asked.text and here.keys.token(2) not in asked.text
        )
        assert page.get("/seat/1").status_code == 200
        for origin in ({}, {"origin": "http://evil.example"}, {"origin": "null"}):
            assert page.post(other, headers=origin).status_code == 403
        assert page.post("/join?token=x", headers=own).status_code == 401
        assert page.get("/seat/1").status_code == 200
        answer = page.post(other, headers=own)
        assert (answer.status_code, answer.json()) == (200, {"home": "/seat/2"})
        assert (page.get("/seat/1").status_code, page.get("/seat/2").status_code) == (403, 200)
        here.keys.replace(2, 1)
        assert page.get(mine).status_code == 303  # an old cookie is of no seat
        assert page.get(f"/join?token={here.keys.token(TRAINER)}").status_code == 200


def test_guessing_tokens_ends_soon(here: Served) -> None:
    codes = [here.get(f"{'x' * 42}{i % 10}", "/seat/1").status_code for i in range(40)]
    assert codes[0] == 401 and codes[-1] == 429
    assert here.get(1, "/seat/1").status_code == 200  # a client that has one is let in


def test_a_link_that_was_replaced_holds_no_more(here: Served) -> None:
    old = here.keys.token(1)
    with (
        here.events(1, "/seat/1/events") as views,
        here.terminal(1, "/seat/1/terminal/web") as page,
        here.terminal(1, "/seat/1/terminal/client") as other,
        here.terminal(1, "/seat/1/terminal/nginx") as closing,
    ):
        next(views)
        closing.close()
        link = here.post(TRAINER, "/trainer/seat/1/new-link").json()["link"]
        assert [told for told in views if told == {}] == [{}]  # it is told to go
        for one in (page, other):
            with pytest.raises(ConnectionClosed):
                one.recv(5)
    assert here.get(old, "/seat/1").status_code == 401
    assert here.get(None, f"/join?token={old}").status_code == 401
    assert here.get(None, link.removeprefix(here.url)).status_code == 303


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "", "https://127.0.0.1"])
def test_a_forged_origin(origin: str, here: Served) -> None:
    assert here.post(1, "/seat/1/give-up", origin=origin).status_code == 403
    assert here.status(1, "/seat/1/terminal/web", origin=origin) == 403
    assert here.session.roster.seat(1).turn.state == "red"
    assert here.session.roster.seat(1).refused == 2


def test_no_origin_at_all_and_another_name_for_us(here: Served) -> None:
    cookie = here.headers(1)["cookie"]
    answer = httpx.post(f"{here.url}/seat/1/give-up", headers={"cookie": cookie})
    assert answer.status_code == 403
    rebound = {"host": "evil.example", "origin": "http://evil.example"}
    assert here.post(1, "/seat/1/give-up", **rebound).status_code == 403
    assert here.get(1, "/seat/1", **rebound).status_code == 403
    assert here.session.roster.seat(1).turn.state == "red"


@pytest.mark.parametrize(
    "path",
    [
        *("/static/../server.py", "/static/%2e%2e/server.py", "/static/..%2fserver.py"),
        *("/static//etc/passwd", "/static/%00", "/seat/1/../../keys.json", "/seat/..%2f2"),
        *("/seat/0", "/seat/99", "/seat/-1", "/seat/1e3", "/export.json/../x", "/keys.json"),
    ],
)
def test_paths_that_lead_elsewhere(path: str, here: Served) -> None:
    with socket.create_connection(("127.0.0.1", here.port), 10) as line:  # sent as it is
        cookie = here.headers(TRAINER)["cookie"]
        line.sendall(
            f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: {cookie}\r\n"
            "Connection: close\r\n\r\n".encode()
        )
        said = b""
        while part := line.recv(65536):
            said += part
    assert said.split()[1] in (b"400", b"403", b"404"), said[:200]
    assert b"root:" not in said and b"import" not in said


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("x" * (tty.MOST_BYTES + 1), 1009),
        ("{", 1007),
        ("[]", 1007),
        ('{"input": 7}', 1007),
        ('{"input": "x", "more": 1}', 1007),
        ('{"columns": 0, "rows": 5}', 1007),
        ('{"columns": 5, "rows": 1000000}', 1007),
        ('{"columns": true, "rows": "5"}', 1007),
        (b"\x00\xff", 1007),
    ],
)
def test_messages_that_no_page_sends(message: str | bytes, code: int, here: Served) -> None:
    with here.terminal(1, "/seat/1/terminal/web") as page:
        page.send(message)
        with pytest.raises(ConnectionClosed) as caught:
            page.recv(5)
        assert caught.value.rcvd is not None and caught.value.rcvd.code == code
    assert here.get(1, "/seat/1").status_code == 200


def test_too_much_at_once(here: Served) -> None:
    """Of terminals, of what is typed, of buttons, of a body."""
    with (
        here.terminal(1, "/seat/1/terminal/web") as page,
        pytest.raises(ConnectionClosed) as caught,
    ):
        for _ in range(100):
            page.send(json.dumps({"input": "x" * 60_000}))
        page.recv(5)
        for _ in range(200):
            page.recv(5)
    assert caught.value.rcvd is not None and caught.value.rcvd.code == 1008
    with ExitStack() as pages:
        for _ in range(12):
            pages.enter_context(here.terminal(2, "/seat/2/terminal/web"))
        assert here.status(2, "/seat/2/terminal/web") == 403
    assert here.post(3, "/seat/3/diagnose", b"{" + b" " * 5000).status_code == 413
    assert here.post(3, "/seat/3/diagnose", b"\xff").status_code == 400
    assert here.post(3, "/seat/3/diagnose", [1]).status_code == 400
    assert here.post(3, "/seat/3/diagnose", {"component": 1}).status_code == 400
    codes = {here.post(3, "/seat/3/hint").status_code for _ in range(20)}
    assert 429 in codes


def test_a_thousand_connections(here: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """From one address: the most is a bound, and somebody at another address notices nothing."""
    monkeypatch.setattr(connections, "_PATIENCE", 3.0)
    lines = []
    for _ in range(1000):
        line = socket.create_connection(("127.0.0.1", here.port), 10, ("127.0.0.2", 0))
        line.settimeout(10)
        lines.append(line)
    began = time.monotonic()
    assert here.get(1, "/seat/1").status_code == 200
    assert len(here.front.places.of["127.0.0.2"]) <= here.front.places.most
    assert time.monotonic() - began < 5

    def dropped(line: socket.socket) -> bool:
        try:
            return line.recv(1) == b""
        except ConnectionResetError:
            return True

    assert all(dropped(line) for line in lines)  # most at once, the rest after their patience
    for line in lines:
        line.close()


def test_terminals_end_with_their_stack_and_with_their_token(here: Served) -> None:
    with here.terminal(1, "/seat/1/terminal/web") as page:
        here.post(TRAINER, "/trainer/seat/1/restore")
        with pytest.raises(ConnectionClosed):
            page.recv(5)
    with here.terminal(2, "/seat/2/terminal/web") as page:
        here.keys._tokens[2] = (here.keys.token(2), time.time() - 1)
        with pytest.raises(ConnectionClosed):
            page.recv(5)


def test_a_shell_that_takes_nothing_keeps_nobody(
    here: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its page can go, and the next one can come."""
    monkeypatch.setattr(Mirror, "_echo", lambda self: None)
    for _ in range(15):
        with here.terminal(1, "/seat/1/terminal/web") as page:
            for _ in range(4):
                page.send(json.dumps({"input": "x" * 60_000}))
    until(lambda: here.site.terminals.open == [], shown=here.site.terminals.open)


def test_who_looks_too_often(here: Served) -> None:
    """Open pages of one view are bounded; so is what the journal keeps of refusals."""
    with ExitStack() as pages:
        for _ in range(4):
            next(pages.enter_context(here.events(1, "/seat/1/events")))
        assert here.get(1, "/seat/1/events").status_code == 429
        assert here.get(1, "/seat/01/events").status_code == 429
        next(pages.enter_context(here.events(TRAINER, "/seat/1/events")))
    for _ in range(60):
        here.get(1, "/trainer", host="evil.example")
    assert here.session.roster.seat(1).refused <= 25
    assert here.get(1, "/seat/" + "9" * 5000).status_code == 403
    assert here.post(1, "/seat/1/hint", b"[" * 4000).status_code == 400


def test_over_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cookie is for TLS only, terminals too; who says nothing is sent away."""
    cert, key = access.certificate(tmp_path, ["127.0.0.1"])
    trust = ssl.create_default_context(cafile=str(cert))
    with served(tmp_path, tls=(str(cert), str(key))) as it:
        url = f"https://127.0.0.1:{it.port}"
        answer = httpx.get(f"{url}/join?token={it.keys.token(1)}", verify=trust)
        assert answer.status_code == 303 and "Secure" in answer.headers["set-cookie"]
        assert answer.headers["set-cookie"].startswith("__Host-faultlab-class=")
        assert "Path=/;" in answer.headers["set-cookie"]
        assert "Domain" not in answer.headers["set-cookie"]
        cookie = f"__Host-faultlab-{it.session.plan.id}={it.keys.token(1)}"
        for origin, wanted in ((it.url, 403), (url, 200)):
            answer = httpx.post(
                f"{url}/seat/1/hint", headers={"origin": origin, "cookie": cookie}, verify=trust
            )
            assert answer.status_code == wanted
        with client.connect(
            f"wss://127.0.0.1:{it.port}/seat/1/terminal/web",
            origin=Origin(url),
            additional_headers={"cookie": cookie},
            ssl=trust,
        ) as page:
            page.send(json.dumps({"input": "ls"}))
            assert page.recv(5) == b"ls"
        assert asyncio.constants.SSL_HANDSHAKE_TIMEOUT == connections._PATIENCE == 10
        # Only now: on a busy machine the handshakes above may take longer than this.
        monkeypatch.setattr(asyncio.constants, "SSL_HANDSHAKE_TIMEOUT", 1.0)
        with socket.create_connection(("127.0.0.1", it.port), 10) as silent:
            assert silent.recv(1) == b""  # no handshake, no place
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"http://127.0.0.1:{it.port}/")


def test_pings_whose_answers_nobody_takes(here: Served) -> None:
    ping = bytes([0x89, 0x80 + 125]) + bytes(4) + b"x" * 125
    with socket.create_connection(("127.0.0.1", here.port), 10) as deaf:
        deaf.sendall(here.upgrade(1, "/seat/1/terminal/web"))
        assert deaf.recv(12) == b"HTTP/1.1 101"
        with pytest.raises(ConnectionError):  # the kernel's own buffers take some megabytes
            for _ in range(64):
                deaf.sendall(ping * 8000)


def test_where_it_listens(tmp_path: Path) -> None:
    """Loopback alone is without TLS; names are those that a browser sends."""
    assert all(map(address.loopback, ("127.0.0.1", "127.0.0.2", "::1", "localhost")))
    assert not any(map(address.loopback, ("0.0.0.0", "::", "192.0.2.1", "lab.example")))
    assert address.hosts("127.0.0.1", ["Lab.Example"])[0] == "lab.example"
    assert socket.gethostname().lower() in address.hosts("0.0.0.0", [])
    with pytest.raises(BadInput):
        address.listening("", 0)
    with pytest.raises(CannotRun, match=r"Cannot listen on .*, port 99999"):
        address.listening("127.0.0.1", 99999)
    with address.listening("127.0.0.1", 0) as line:
        assert line.getsockname()[0] == "127.0.0.1"
        with pytest.raises(CannotRun, match="Address already in use"):
            address.listening("127.0.0.1", line.getsockname()[1])


def test_every_answer_says_what_a_page_may_do(here: Served) -> None:
    for answer in (
        here.get(1, "/seat/1"),
        here.get(1, "/trainer"),
        here.get(None, "/static/seat.js"),
        here.get(None, "/", host="evil.example"),
    ):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "script-src 'self';" in policy
        assert "connect-src 'self'" in policy and "form-action 'self'" in policy
        assert "base-uri 'none'" in policy and "frame-ancestors 'none'" in policy
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["cross-origin-opener-policy"] == "same-origin"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
    assert "server" not in here.get(1, "/seat/1").headers


def test_pages_load_nothing_from_elsewhere() -> None:
    folder = Path(view.__file__).parent
    for file in (*folder.glob("pages/*"), *folder.glob("assets/*.css")):
        assert not re.search(
            r"(?:src|href)=\"(?:https?:)?//|url\(\s*['\"]?https?:", file.read_text()
        )


# --- a server that was killed ----------------------------------------------------------------


def test_another_server_goes_on(tmp_path: Path) -> None:
    """From the journal and the keys alone: answers, hints, states, links."""
    with served(tmp_path) as it:
        it.post(1, "/seat/1/hint")
        it.post(1, "/seat/1/diagnose", RIGHT)
        it.post(2, "/seat/2/give-up")
        tokens = [it.keys.token(number) for number in (TRAINER, 1, 2, 3)]
    session = Fake(tmp_path)
    assert [seat.turn.state for seat in session.roster.seats] == ["red", "over", "red"]
    assert session.roster.seat(1).turn.answers == [RIGHT]
    assert session.roster.seat(1).turn.hints == [2]  # the first one is about half a repair
    assert [Keys(tmp_path / "keys.json").token(number) for number in (TRAINER, 1, 2, 3)] == tokens


@pytest.mark.parametrize("days", [3, -3])
def test_a_clock_that_is_set_ends_no_lab(
    days: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No lab and no link: three days are a second of the class, also for its next server."""
    monkeypatch.setattr(site, "_TICK", 0.1)
    real, folder = time.time, Folder("x")
    folder.path, folder.alive = tmp_path, tmp_path / "alive"
    with served(tmp_path, minutes=60) as it:
        it.wait(1, "red")
        it.session.note(Event.OPENED, alive=it.session.journal.now())
        link = it.keys.token(1)
        monkeypatch.setattr(time, "time", lambda: real() + days * 24 * 3600)
        time.sleep(0.5)
        turn = it.session.roster.seat(1).turn
        assert (turn.state, turn.why) == ("red", "")
        assert turn.seconds(it.session.journal.now()) < 60
        assert it.get(1, "/seat/1").status_code == 200
        monkeypatch.setattr(Folder, "held", lambda _: True)
        assert abs(folder.now() - real()) < 60  # what `class status` shows
        old = it.keys.token(2)
        assert it.post(TRAINER, "/trainer/seat/2/new-link").status_code == 200
        assert it.keys.token(2) != old and it.get(2, "/seat/2").status_code == 200
    with served(tmp_path, minutes=60) as it:
        assert it.keys.token(1) == link and it.get(1, "/seat/1").status_code == 200
        assert abs(it.session.journal.now() - real()) < 60
    monkeypatch.undo()
    assert Journal(tmp_path / "events.jsonl").now() - real() < 60


def test_another_boot_has_the_time_of_the_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path / "events.jsonl")
    journal.add(Event.OPENED)
    monkeypatch.setattr("faultlab.workshop.journal._boot", lambda: ("another", 5.0))
    assert abs(Journal(journal.file).now() - time.time()) < 5
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 3600)
    assert abs(Journal(journal.file).now() - time.time()) < 5
    monkeypatch.setattr(time, "time", lambda: real() - 3600)
    assert Journal(journal.file).now() >= journal.events[0]["t"]  # it never goes back


def test_what_was_starting_is_started_again(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "events.jsonl")
    journal.add(Event.STARTING, 1)
    with served(tmp_path) as it:
        assert (1, ("start", "mtu", "--blind", "--engine", "local")) in it.stacks.ran


def test_time_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "_TICK", 0.1)
    with served(tmp_path, minutes=0.01) as it:
        it.wait(1, "over")
        assert it.session.roster.seat(1).turn.why == "time over"


def test_a_check_that_was_asked_for_in_time_counts(tmp_path: Path) -> None:
    Journal(tmp_path / "events.jsonl").add(Event.READY, 1)
    session = Fake(tmp_path, minutes=1)
    seat = session.roster.seat(1)
    late = time.time() + 61
    session.doing[1] = "measuring"
    session.tick(late)
    assert seat.turn.state == "red"
    session.doing.clear()
    session.tick(late)
    assert (seat.turn.state, seat.turn.why) == ("over", "time over")


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
    stub = tmp_path / "faultlab"
    stub.write_text(f"#!/bin/sh\n{script}")
    stub.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(stub))
    heard: list[events.Step] = []
    got = asyncio.run(Processes().run(("check", "mtu"), {}, 1, heard.append))
    begun = [step.name for step in heard if step.event == events.Kind.BEGIN]
    assert (got, begun) == (outcome, steps)
