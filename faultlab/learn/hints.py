"""Hints: the ladder of a lab that is up, one rung at a time. It has to be quick."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from faultlab.core import lock, naming
from faultlab.core.defaults import MYSTERY
from faultlab.core.terminal import Terminal
from faultlab.engine import peek
from faultlab.lab import load as labs
from faultlab.lab.model import Lab
from faultlab.run.record import READY, Record


@dataclass(frozen=True)
class Hinted:
    """The hints that were given so far, and what they cost."""

    lab: str
    given: int
    of: int
    cost: int
    hints: list[str]


def hint(term: Terminal, lab_id: str) -> Hinted:
    """Give the next rung of the ladder; at its end, all of them again. Raises CannotRun."""
    with _record(lab_id) as (lab, record):
        ladder = lab.hint
        given = int(record.facts["hints"])
        if given < len(ladder):
            given += 1
            record.facts["hints"] = given
            record.event("hint", number=given)
    hints = [told(lab, rung.text) for rung in ladder[:given]]
    for i, (rung, text) in enumerate(zip(ladder, hints, strict=False), 1):
        points = f"{rung.cost} point" + ("" if rung.cost == 1 else "s")
        term.say(f"Hint {i} of {len(ladder)} ({points}): {text}")
    if given == len(ladder):
        term.say(f"That was the last one. Next: make fix-{lab_id}, or make debrief-{lab_id}")
    return Hinted(lab_id, given, len(ladder), sum(rung.cost for rung in ladder[:given]), hints)


def told(lab: Lab, text: str) -> str:
    """A text of the lab with the name that its stack has, where it tells what to type."""
    return re.sub(rf"(make [a-z]+-){lab.id}\b", rf"\g<1>{lab.alias}", text)


@contextmanager
def _record(lab_id: str) -> Iterator[tuple[Lab, Record]]:
    """A lab that is up and the record of its run, while nobody else can change it."""
    if lab_id == MYSTERY:
        from faultlab.run import placement

        lab = placement.named(lab_id)
    else:
        lab = labs.load(lab_id)
    with lock.hold(naming.prefix() + lab.alias, f"hint {lab.alias}"):
        yield lab, _seen(lab) or _searched(lab)


def _seen(lab: Lab) -> Record | None:
    """The record of a lab that is up here as a whole; None where that does not show at a glance."""
    found = peek.labels(naming.prefix() + lab.alias)
    if not found or any(name not in found for name in lab.services.needed(lab.daemons)):
        return None
    record = Record.open(next(iter(found.values())).get("faultlab.run", ""))
    return record if record and record.happened(READY) else None


def _searched(lab: Lab) -> Record:
    """The record of a lab that is up anywhere, or why there is none. Raises CannotRun."""
    from faultlab.run import placement
    from faultlab.run.run import Run

    return Run.attach(placement.having(lab.alias), lab).record
