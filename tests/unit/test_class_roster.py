"""The roster of a class: states, points and views that follow from the events."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from faultlab.lab import checks
from faultlab.lab import loader as labs
from faultlab.learn.mystery import Score
from faultlab.workshop import (
    export,
    view,
)
from faultlab.workshop.journal import Journal
from faultlab.workshop.roster import DISK_FULL, Roster, Turn
from faultlab.workshop.session import Session
from faultlab.workshop.stacks import STEPS, Stacks
from tests.unit.served import (
    FOUND,
    RIGHT,
    Happened,
    planned,
    roster,
)


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
    assert turn.told
    score = roster(*events).score(turn, 999.0)
    cost = sum(rung.cost for rung in labs.load("mtu").hint[:2])
    assert (score.points, score.of) == (40 - cost - 5, 40)
    assert roster(*events, hint_cost=7).score(turn, 999.0).points == 40 - 14 - 5
    open_ = roster(*events, blind=False)
    seen = open_.score(open_.seat(1).turn, 999.0)
    assert (seen.points, seen.of) == (10 - cost - 5, 10)


def test_an_answer_to_several_faults_at_once() -> None:
    """Each fault has its parts; one that is not named earns none, and one too many costs."""
    other = labs.load("regex").truth.model_dump()
    wrong = {"component": "db", "resource": "cpu", "cause": "missing-index"}

    def points(*answers: list[dict[str, str]], draws: str = "mtu+regex") -> Score:
        events: list[Happened] = [(0.0, "starting", {"seat": 1}), (10.0, "ready", {"seat": 1})]
        for first, *also in answers:
            facts = {"seat": 1, "answer": first, **({"also": also} if also else {})}
            events.append((20.0, "answered", facts))
        events.append((30.0, "checked", {"seat": 1, "fixed": True, "findings": []}))
        it = roster(*events)
        turn = replace(it.seat(1).turn, lab=draws)
        return it.score(turn, 99.0)

    both = points([RIGHT, other])
    assert (both.points, both.of, both.named, both.said) == (70, 70, 2, 2)
    assert points([other, RIGHT]).points == 70, "in any order"
    one = points([RIGHT])
    assert (one.points, one.named, one.said) == (40, 1, 1)
    assert points([RIGHT, other, wrong]).points == 65
    assert points([wrong], [RIGHT, other]).points == 65
    assert points([RIGHT, other], draws="mtu").said == 0, "one fault is named by one answer"


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
    assert not roster(*green).seat(1).turn.told
    assert roster(*green, blind=False).seat(1).turn.told
    gave_up = roster(*green, (10.0, "gave up", one))
    assert gave_up.seat(1).turn.state == "green"
    assert gave_up.seat(1).turn.told
    assert gave_up.score(gave_up.seat(1).turn, 10.0).points == 0


def test_a_fresh_stack_keeps_what_was_said_and_stops_the_clock() -> None:
    one = {"seat": 1}
    events: list[Happened] = [(0.0, "ready", one), (30.0, "answered", {**one, "answer": RIGHT})]
    found = roster(*events, (60.0, "starting", one), (100.0, "ready", one))
    turn = found.seat(1).turn
    assert (turn.state, turn.answers, turn.seconds(110.0)) == ("red", [[RIGHT]], 70)


def test_who_was_told_and_begins_anew_has_been_told() -> None:
    one = {"seat": 1}
    events: list[Happened] = [(0.0, "ready", one), (9.0, "gave up", one), (10.0, "starting", one)]
    found = roster(*events, (20.0, "ready", one))
    assert found.seat(1).turn.told
    found.apply({"t": 30.0, "event": "checked", "seat": 1, "fixed": True, "findings": []})
    found.apply({"t": 31.0, "event": "answered", "seat": 1, "answer": RIGHT})
    assert found.score(found.seat(1).turn, 40.0).points == 30  # none for the repair


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
        same = [{**each, "change": "same", "was": 0} for each in findings]
        assert view.seat(session, seat)["findings"] == same
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
    assert (green.score(turn, 30.0).points, turn.told) == (40, True)
    green.apply({"t": 40.0, "event": "starting", "seat": 1})
    green.apply({"t": 41.0, "event": "ready", "seat": 1})
    assert (green.seat(1).turn.state, green.seat(1).turn.up) == ("red", True)
    for after, state, points in (("disk full", "failed", 30), ("failed", "green", 40)):
        amber = roster(*begun, (9.0, "checked", {**fixed, "later": 3}), (20.0, after, one))
        turn = amber.seat(1).turn
        assert (turn.state, turn.again) == (state, None)
        assert amber.score(turn, 30.0).points == points
