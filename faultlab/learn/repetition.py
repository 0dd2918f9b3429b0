"""Repetition: labs that did not go well come back after days, as the cards of a Leitner box do.

A failure puts a lab into the first box, and each success after its days into the next one. After
the last box it comes back no more. All of it follows from the recorded runs and the date.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

from faultlab.lab.model import Lab
from faultlab.run import phase
from faultlab.run.record import GAVE_UP, Record

AFTER = (1, 3, 7, 21)  # days: after a failure, and after each success since
_HINTS = 0.5  # of a lab's hints; a learner who needed more has not known it


@dataclass(frozen=True)
class Try:
    """One run of a learner: its day, and why it did not go well; empty if it did."""

    day: date
    why: str


@dataclass(frozen=True)
class Due:
    """A lab that comes back: since when, and in a sentence why."""

    lab: str
    since: date
    why: str


def tried(lab: Lab, record: Record) -> Try | None:
    """Return how a run went; None if the learner has reached nothing in it, and asked nothing."""
    why, refused, hints, last, solved = "", 0, 0, 0.0, False
    for event in record.events:
        kind = event["event"]
        if kind == phase.LATER or (kind == phase.CHECK and not solved):
            refused += not event["fixed"]
            solved = event["fixed"] and not event.get(phase.LATER)
        elif solved or kind not in ("hint", "fix", GAVE_UP):
            continue
        hints += kind == "hint"
        why = {"fix": "took the documented fix", GAVE_UP: "gave up on it"}.get(kind, why)
        last = event["t"]
    if not why and hints > _HINTS * len(lab.hint):
        why = f"needed {hints} of its {len(lab.hint)} hints"
    if not (why or solved or refused):
        return None
    day = datetime.fromtimestamp(record.began + last, UTC).date()
    return Try(day, why or ("" if solved else "did not repair it"))


def due(lab_id: str, tries: Iterable[Try], today: date) -> Due | None:
    """Return why a lab comes back now; None if it does not, or not yet.

    `tries`: in the order of time. A success before its day changes nothing.
    """
    box: int | None = None
    failed, since = Try(today, ""), today
    for one in tries:
        if one.why:
            box, failed, since = 0, one, one.day
        elif box is not None and (one.day - since).days >= AFTER[box]:
            box, since = box + 1, one.day
            box = box if box < len(AFTER) else None
    if box is None or (today - since).days < AFTER[box]:
        return None
    then = f", and solved it {_ago(today, since)}" if box else ""
    return Due(lab_id, since, f"You {failed.why} {_ago(today, failed.day)}{then}.")


def _ago(today: date, day: date) -> str:
    days = (today - day).days
    return "yesterday" if days == 1 else f"{days} days ago"


def now_due(every: Sequence[Lab], records: Iterable[tuple[str, Record]], today: date) -> list[Due]:
    """Return the labs that come back now: first the one that has waited longest.

    `records`: those of the learner's runs, each with the id of its lab.
    """
    of: Mapping[str, Lab] = {lab.id: lab for lab in every}
    tries: dict[str, list[Try]] = {}
    for lab_id, record in sorted(records, key=lambda one: one[1].id):
        if found := tried(of[lab_id], record):
            tries.setdefault(lab_id, []).append(found)
    found_due = [due(lab.id, tries.get(lab.id, []), today) for lab in every]
    return sorted(filter(None, found_due), key=lambda one: one.since)
