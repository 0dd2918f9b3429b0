"""Hints: one at a time, for the state that a lab is in. They have to be quick."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial

from faultlab.core import lock, naming
from faultlab.core.defaults import MYSTERY
from faultlab.core.errors import CannotRun
from faultlab.core.terminal import Terminal
from faultlab.engine.docker import docker_list
from faultlab.engine.shell import Shell
from faultlab.lab import loader as labs
from faultlab.lab.collection import bare
from faultlab.lab.model import Lab, Sign
from faultlab.run.phase import CHECK
from faultlab.run.record import GONE, Record

_SECONDS = 5  # after which a sign counts as missing


@dataclass(frozen=True)
class Hinted:
    """The hints that were given so far, and what they cost. `number`: of the new one, if any."""

    lab: str
    number: int | None
    given: int
    of: int
    cost: int
    hints: list[str]


def hint(term: Terminal, lab_id: str) -> Hinted:
    """Give the next hint that applies, after those that were given before. Raises CannotRun."""
    with _record(lab_id) as (lab, record):
        numbers = possible(lab, record.hints, _gone(record))
        number = following(lab, numbers, partial(_stack, lab))
        if number is not None:
            record.event("hint", number=number)
    given = [lab.hint[number - 1] for number in record.hints]
    hints = [as_typed(lab, rung.text) for rung in given]
    for i, (rung, text) in enumerate(zip(given, hints, strict=True), 1):
        points = f"{rung.cost} point" + ("" if rung.cost == 1 else "s")
        term.say(f"Hint {i} ({points}): {text}")
    if number is None:
        after = f"make fix-{lab_id}, or make debrief-{lab_id}"
        if lab.blind:
            after = f"faultlab debrief {lab_id} --give-up"
        term.say(f"No other hint applies to the state that {lab_id} is in. Next: {after}")
    cost = sum(rung.cost for rung in given)
    return Hinted(lab_id, number, len(given), len(lab.hint), cost, hints)


def possible(lab: Lab, given: Collection[int], gone: Collection[int]) -> Iterator[int]:
    """Yield the numbers, from 1, of the hints that can be next; the last one applies for sure.

    `given`: the numbers of those that were given; `gone`: of the faults that are repaired.
    """
    repaired = {fault.id for number, fault in enumerate(lab.fault, 1) if number in gone}
    for number, rung in enumerate(lab.hint, 1):
        if number not in given and rung.fault not in repaired:
            yield number
            if rung.when is None:
                return


def following(
    lab: Lab, numbers: Iterable[int], stack: Callable[[], Mapping[str, Shell]]
) -> int | None:
    """Return the first of these hints that applies; None when none does.

    `stack`: finds the machines and daemons of the lab, which takes time. It is called once, and
    only if a hint has a condition.
    """
    machines: Mapping[str, Shell] | None = None
    for number in numbers:
        sign = lab.hint[number - 1].when
        if sign is None:
            return number
        machines = stack() if machines is None else machines
        if sign.at in machines and holds(machines[sign.at], sign):
            return number
    return None


def holds(machine: Shell, sign: Sign) -> bool:
    """Tell whether the command of a sign succeeds; it fails where the machine does not answer."""
    with suppress(CannotRun):
        return machine.run(sign.run, timeout=_SECONDS).code == 0
    return False


def given_before(lab: Lab) -> list[int]:
    """Return the hints that the learner has had in the last run of a lab, if it did not pass."""
    names = {lab.id, lab.code}  # it can have been started by each of them
    stacks = {naming.stack_name(name) for name in names}
    for run_id in sorted({each for name in names for each in Record.ids(name)}, reverse=True):
        record = Record.ready(run_id)
        if record and record.lab == lab.id and record.stack in stacks:
            passed = any(e["event"] == CHECK and e["fixed"] for e in record.events)
            return [] if passed else record.hints
    return []


def as_typed(lab: Lab, text: str) -> str:
    """Return a text of the lab with the name of its stack in the commands."""
    names = "|".join(map(re.escape, [lab.id, *map(bare, [lab.id, *lab.of])]))
    return re.sub(rf"(make [a-z]+-)({names})(?![\w-])", rf"\g<1>{lab.alias}", text)


def _gone(record: Record) -> set[int]:
    """Return the faults that the last look found gone, and those that were fixed since."""
    gone = {*record.facts.get(GONE, ())}
    for event in reversed(record.events):
        if event["event"] == CHECK:
            break
        if event["event"] == "fix":
            gone |= {*event.get("faults", ())}
    return gone


def _stack(lab: Lab) -> Mapping[str, Shell]:
    from faultlab.run import placement  # Docker's SDK takes a while to import

    return placement.up(lab.alias)


@contextmanager
def _record(lab_id: str) -> Iterator[tuple[Lab, Record]]:
    """Yield a lab that is up and the record of its run, and hold its stack meanwhile."""
    lab = labs.asked(lab_id) if lab_id != MYSTERY else None
    if lab is None or _seen(lab) is None:
        from faultlab.run import placement

        lab = placement.standing(lab_id)
    with lock.hold(naming.stack_name(lab.alias), f"hint {lab.alias}"):
        yield lab, _seen(lab) or _searched(lab)


def _seen(lab: Lab) -> Record | None:
    """Return the record of a lab that is up here as a whole; None if a quick look cannot tell."""
    found = docker_list.labels(naming.stack_name(lab.alias))
    if not found or any(name not in found for name in lab.services.needed(lab.daemons)):
        return None
    return Record.ready(next(iter(found.values())).get(naming.RUN_LABEL, ""))


def _searched(lab: Lab) -> Record:
    """Return the record of a lab that is up on any engine. Raises CannotRun."""
    from faultlab.run import placement
    from faultlab.run.run import Run

    return Run.attach(placement.up(lab.alias), lab).record
