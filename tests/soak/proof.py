"""Proof: whether the journal of a class has all that its server has said, and all its points."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from faultlab.workshop import export
from faultlab.workshop.journal import Entry, Event
from faultlab.workshop.plan import ClassPlan
from faultlab.workshop.roster import Roster
from tests.pieces import Row
from tests.trend import Slope, slope

# The buttons whose press is in the journal before the server says yes.
NOTED = {
    "check": Event.CHECKED,
    "hint": Event.HINTED,
    "diagnose": Event.ANSWERED,
    "give-up": Event.GAVE_UP,
}
ANSWER = ("component", "resource", "cause")
WARM = 180.0  # seconds in which a server reads what it will need


def points(events: Sequence[Entry]) -> list[dict[str, Any]]:
    """Return the results of a class from its journal alone, without the minutes."""
    plan = ClassPlan.model_validate(events[0]["plan"])
    roster = Roster(plan, events[0]["labs"])
    for event in events:
        roster.apply(event)
    return without_minutes(export.rows(roster, float(events[-1]["t"])))


def without_minutes(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return results without what a clock adds to them."""
    return [{key: value for key, value in row.items() if key != "minutes"} for row in rows]


def digest(events: Sequence[Entry]) -> str:
    """Return the SHA-256 of events, whatever the order of their keys."""
    return hashlib.sha256(json.dumps(events, sort_keys=True).encode()).hexdigest()


def kept(told: Mapping[str, Any]) -> Row:
    """Return what has to be the same later of results that a server has exported."""
    events = told["events"]
    return {
        "events": len(events),
        "digest": digest(events),
        "points": without_minutes(told["turns"]),
    }


def amiss(
    events: Sequence[Entry], exports: Iterable[Row], acknowledged: Iterable[Row]
) -> list[str]:
    """Return what is missing in a journal, or differs from what its server has said.

    `exports`: what `kept` has returned, before a plug was pulled. `acknowledged`: what learners
    were told, in its order.
    """
    found = []
    for one in exports:
        count = one["events"]
        if len(events) < count or digest(events[:count]) != one["digest"]:
            found.append(f"the first {count} events are not those that were exported")
        elif points(events[:count]) != one["points"]:
            found.append(f"the points of the first {count} events are not those that were told")
    of_seat: dict[int, list[Row]] = defaultdict(list)
    for row in acknowledged:
        if row["act"] in NOTED:
            of_seat[row["seat"]].append(row)
    for seat, its in sorted(of_seat.items()):
        mine = iter([event for event in events if event.get("seat") == seat])
        for row in its:
            if not any(_is(event, row) for event in mine):
                found.append(f"seat {seat}: {row['act']} was acknowledged and is missing")
                break
    return found


def _is(event: Entry, row: Row) -> bool:
    """Return whether an event is the one of this press."""
    if event["event"] != NOTED[row["act"]]:
        return False
    if event["event"] != Event.ANSWERED:
        return True
    return all(event["answer"].get(part) == row.get(part) for part in ANSWER)


def trends(samples: Iterable[Row]) -> dict[str, Slope | None]:
    """Return how the memory, the threads and the files of the server grow by the hour.

    What a server does at first is left out.
    """
    lives: dict[Any, list[Row]] = defaultdict(list)
    for row in samples:
        lives[row["piece"], row["life"]].append(row)
    found = {}
    for name in ("memory", "threads", "files"):
        warm = [
            [
                (row["second"] / 3600, row[name])
                for row in life
                if row["second"] - life[0]["second"] >= WARM
            ]
            for life in lives.values()
        ]
        found[name] = slope(warm)
    return found
