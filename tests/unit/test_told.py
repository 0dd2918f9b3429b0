"""Pages that tell: the incident is that of a recorded shift, and managers read the same figures."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from faultlab.lab import checks, collection
from faultlab.lab import loader as labs
from faultlab.lab.asks import limits
from faultlab.oncall import report
from faultlab.oncall.journal import Event, Journal
from tests.unit.conftest import REPO
from tests.unit.test_figures import near, shown

DOCS = REPO / "docs"
INCIDENT, MANAGERS = ((DOCS / f"{name}.md").read_text() for name in ("incident", "managers"))
SHIFT = next((REPO / "tests/recorded/shifts").iterdir())
EVENTS = Journal(SHIFT).events()
TOLD = report.made(SHIFT.name, EVENTS, collection.ours())
REGEX = labs.load("regex")
FIRST, LEFT, _, AGAIN = TOLD.incidents
LIMIT = 500  # words that a manager reads
CODE = re.compile(r"^```\w*\n(.*?)^```", re.DOTALL | re.MULTILINE)
CLOCK = re.compile(r"\b\d\d:\d\d:\d\d\b")
DURATION = re.compile(r"(?<![\d:])\d{1,2}:\d\d(?![\d:])")


def said(seconds: float) -> str:
    """Return seconds as the report of a shift says them."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def clock(event: dict[str, object]) -> str:
    """Return when an event was."""
    return datetime.fromtimestamp(float(str(event["t"])), UTC).strftime("%H:%M:%S")


def of(number: int, event: Event) -> dict[str, object]:
    """Return an event of one fault of the shift."""
    return next(e for e in EVENTS if e["event"] == event and e.get("number") == number)


def during(number: int, end: Event) -> list[dict[str, object]]:
    """Return what happened from the coming of a fault to its end."""
    since, until = (float(str(of(number, event)["t"])) for event in (Event.CAME, end))
    return [event for event in EVENTS if since <= event["t"] <= until]


def lasted(number: int, end: Event) -> float:
    """Return how many seconds a fault was there."""
    its = during(number, end)
    return float(str(its[-1]["t"])) - float(str(its[0]["t"]))


def visits(number: int, end: Event, key: str) -> int:
    """Return the visits, or the lost ones, while a fault was there."""
    return sum(int(str(e[key])) for e in during(number, end) if e["event"] == Event.VISITED)


def test_each_row_of_the_timeline_is_an_event() -> None:
    rows = re.findall(r"^\| (\d\d:\d\d:\d\d) \| (.*) \|$", INCIDENT, re.MULTILINE)
    kept = {*map(clock, EVENTS)}
    assert {*CLOCK.findall(INCIDENT)} <= kept and len(rows) >= 10
    told = [*during(1, Event.CLEAR), *during(4, Event.CLEAR)]
    told = [event for event in told if event["event"] != Event.VISITED]
    assert {*map(clock, told)} == {*CLOCK.findall(INCIDENT)}
    assert [time for time, _ in rows] == sorted(time for time, _ in rows)
    for time, what in rows:
        its = next(event for event in told if clock(event) == time)
        if its["event"] == Event.ANSWERED:
            parts = [f"`{its[part]}`" for part in ("component", "resource", "cause")]
            assert what.endswith(", ".join(parts))
        if its["event"] == Event.LOOKED:
            assert f"`{its['machine']}`" in what


def test_its_durations_are_those_of_the_record() -> None:
    answers = [e for e in during(1, Event.CLEAR) if e["event"] == Event.ANSWERED]
    wrong, right = (float(str(e["t"])) for e in answers)
    assert FIRST.repaired and AGAIN.repaired
    known = {said(seconds) for seconds in (FIRST.paged, FIRST.named, FIRST.repaired) if seconds}
    known |= {said(AGAIN.repaired), said(FIRST.repaired - AGAIN.repaired), said(right - wrong)}
    known |= {said(lasted(1, Event.CLEAR)), said(lasted(2, Event.WENT))}
    assert {*DURATION.findall(CLOCK.sub("", CODE.sub("", INCIDENT)))} == known
    assert FIRST.fault == AGAIN.fault == "regex"


def test_what_users_lost_is_what_the_shift_counted() -> None:
    plain = " ".join(INCIDENT.split())
    first = visits(1, Event.CLEAR, "visits"), visits(1, Event.CLEAR, "lost")
    left = visits(2, Event.WENT, "lost"), visits(2, Event.WENT, "visits")
    assert f"counted {first[0]} visits while the fault was there, and {first[1]} of them" in plain
    assert f"There {left[0]} of {left[1]} visits failed" in plain and LEFT.itself
    assert limits(checks.load(REGEX).asks) == {}, "a visit sends a note now"


def test_its_ticket_screens_and_alert_are_those_of_the_lab() -> None:
    quoted = " ".join(re.findall(r"^> (.*)$", INCIDENT, re.MULTILINE))
    assert quoted in " ".join(REGEX.ticket.split())
    lesson = {line.strip() for line in REGEX.lesson.splitlines()}
    for block in CODE.findall(INCIDENT):
        assert [line for line in block.splitlines() if line.strip() not in lesson] == []


def test_its_other_figures_are_those_of_the_lesson() -> None:
    text = re.sub(r"`[^`]*`|\]\([^)]*\)|^>.*$", "", CODE.sub("", INCIDENT), flags=re.MULTILINE)
    text = DURATION.sub("", CLOCK.sub("", text)).replace("30 November 2026", "")
    counts = {"60", "0", "130", "195"}
    figures = {*re.findall(r"\d[\d,.]*\d|\d", re.sub(r"^\d\. ", "", text, flags=re.MULTILINE))}
    known = shown(REGEX) | {300.0}  # million steps
    assert {one for one in figures - counts if not near(one, known)} == set()
    assert SHIFT.name.startswith("20261130-")


# --- managers ---


def test_managers_read_a_page_in_some_minutes() -> None:
    assert len(MANAGERS.split()) <= LIMIT


def test_its_figures_are_those_of_the_labs() -> None:
    minutes = [labs.load(lab_id).minutes for lab_id in labs.ids()]
    assert f"[{min(minutes)} to {max(minutes)} minutes]" in MANAGERS
    assert f"all {len(minutes)} together {sum(minutes):,} minutes" in MANAGERS
    assert f"some {sum(minutes) / 60:.0f} hours" in MANAGERS


@pytest.mark.parametrize(
    ("words", "page", "there"),
    [
        ("[20 minutes](start.md)", "docs/start.md", "It takes about 20 minutes"),
        ("2 CPUs and 24 GB", "docs/workshop.md", "2 CPUs, 24 GB"),
        ("ready after 152 s", "docs/workshop.md", "ready after 152 s"),
        ("877 MB", "docs/workshop.md", "all twelve 877 MB"),
        ("1.7 GB of disk", "README.md", "| disk | 1.7 GB"),
        ("11 to 512 MB", "README.md", "11 to 512 MB for a lab"),
        ("three minutes later", "docs/blind.md", "takes three minutes longer"),
        ("ten each", "docs/blind.md", "earn ten points each, and the repair ten more"),
    ],
)
def test_its_other_figures_are_on_the_page_that_it_names(words: str, page: str, there: str) -> None:
    assert words in " ".join(MANAGERS.split())
    assert there in " ".join((REPO / page).read_text().split())


def test_no_rate_of_the_judge_is_copied() -> None:
    assert "[how often a check is wrong](judge.md)" in MANAGERS and "%" not in MANAGERS
