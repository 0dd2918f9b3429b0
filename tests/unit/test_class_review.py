"""The review of a class: the draft of a post-mortem, whose times are those of the journal."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from faultlab.core import paths
from faultlab.workshop import review
from faultlab.workshop.journal import Event, Journal
from faultlab.workshop.roster import Roster
from tests.unit.conftest import Run
from tests.unit.served import planned

T = 1_796_000_000.0
GOOD, BAD = (
    {"name": "pages", "value": n, "unit": "", "wanted": "1", "holds": n == 1} for n in (1, 0)
)
FAULT = {"fault": "session-lock"}
EVENTS: list[dict[str, Any]] = [
    {"t": 0, "event": Event.OPENED, "alive": T},
    {"t": 5, "event": Event.STARTING, "seat": 1, "room": "session-lock"},
    {"t": 60, "event": Event.READY, "seat": 1},
    {"t": 90, "event": Event.CHECKED, "seat": 1, "fixed": False, "findings": [BAD]},
    {"t": 100, "event": Event.CHECKED, "seat": 1, "fixed": True, "findings": [GOOD], "later": 3},
    {"t": 120, "event": Event.FIRED, "id": "hand 1", "surprise": FAULT, "seats": [1], "turns": [1]},
    {"t": 140, "event": Event.JOINED, "seat": 1, "id": "hand 1", "turn": 1, **FAULT},
    {"t": 150, "event": Event.HAND, "seat": 1, "up": True},
    {"t": 160, "event": Event.HINTED, "seat": 1, "number": 2, "free": True},
    {"t": 170, "event": Event.NOT_JOINED, "seat": 2, "id": "hand 1", "why": "no | room", "turn": 1},
    {"t": 300, "event": Event.CHECKED, "seat": 1, "fixed": True, "findings": [GOOD]},
    {"t": 400, "event": Event.ENDED},
]


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    file = tmp_path / "events.jsonl"
    plan = planned(seats=["Ada", "Eve|<b>[x](y)", "Linus"], labs=["mtu"])
    first = {"t": -1, "event": Event.PLANNED, "plan": plan.model_dump(), "labs": [["mtu"]] * 3}
    lines = [json.dumps({**event, "t": T + event["t"]}) for event in (first, *EVENTS)]
    file.write_text("\n".join(lines) + "\n")
    return Journal(file)


@pytest.fixture
def roster(journal: Journal) -> Roster:
    found = Roster(planned(seats=journal.events[0]["plan"]["seats"]), [["mtu"]] * 3)
    for event in journal.events:
        found.apply(event)
    return found


def test_each_line_has_a_time_of_the_journal(roster: Roster, journal: Journal) -> None:
    times = {float(event["t"]) for event in journal.events}
    lines = review.lines(roster, journal)
    assert {line.t for line in lines} <= times
    assert [line.t for line in lines] == sorted(line.t for line in lines)
    assert len(lines) == len(EVENTS)  # each of these tells something
    whole = review.markdown(roster, journal)
    shown = re.findall(r"\b\d\d:\d\d:\d\d\b", whole)
    assert {*shown} <= {review.clock(t) for t in times}


def test_it_says_what_fired_who_checked_and_who_repaired_when(
    roster: Roster, journal: Journal
) -> None:
    whole = review.markdown(roster, journal)
    for seconds, words in (
        (90, "0:01:30 | Ada | checks: not as it should be: pages"),
        (100, "0:01:40 | Ada | checks: **repaired**, to be looked at again"),
        (120, "0:02:00 | the class | the trainer lets come: second fault: session-lock"),
        (140, "0:02:20 | Ada | second fault is there: `session-lock`"),
        (150, "0:02:30 | Ada | raises a hand"),
        (160, "0:02:40 | Ada | gets hint 2 from the trainer"),
        (300, "0:05:00 | Ada | checks: **repaired**"),
    ):
        assert f"| {review.clock(T + seconds)} | {words}" in whole
    clocks = [review.clock(T + seconds) for seconds in (60, 90, 300)]
    assert f"| Ada | `mtu+session-lock` | {' | '.join(clocks)} | 3 | 1 | repaired |" in whole
    assert "1 of 3 labs repaired" in whole
    assert "there at 1 of 1 seats" in whole


def test_a_name_and_a_reason_break_no_table(roster: Roster, journal: Journal) -> None:
    whole = review.markdown(roster, journal)
    rows = [line for line in whole.splitlines() if "Eve" in line]
    assert len(rows) == 2 and "\\|" in rows[0] and "no \\| room" in rows[1]
    page = review.page("T", whole)
    assert "Eve|&lt;b&gt;[x](y)" in page and "<b>" not in page and "<table>" in page


def test_the_command_writes_both(
    journal: Journal, faultlab: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "classes", lambda: tmp_path / "classes")
    folder = tmp_path / "classes" / "class"
    folder.mkdir(parents=True)
    journal.file.rename(folder / "events.jsonl")
    done = faultlab("class", "review", "class.toml", "--json")
    assert done.code == 0
    told = json.loads(done.out)
    assert told["lines"] == len(EVENTS)
    assert [Path(file).name for file in told["files"]] == ["review.md", "review.html"]
    assert (folder / "review.html").read_text().startswith("<!doctype html>")
    done = faultlab("class", "review", "class.toml", "--to", str(tmp_path / "review.txt"))
    assert done.code == 2 and "ends with .md or .html" in done.err
    assert faultlab("class", "review", "never.toml").code == 2
