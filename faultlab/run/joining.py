"""Joining: a second fault, or a false lead, comes to a stack that is up, with the code of a start.

A stack with room for a fault has the services of two labs from its begin, and was healthy by the
measures of both. So what joins is proven as at a start, and rolled back if it does not show. Only
two faults that were proven together are ever on one stack.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache

from faultlab.core.errors import BadInput, CannotRun, SaidNo
from faultlab.lab import decoys
from faultlab.lab import loader as labs
from faultlab.lab.collection import MARK, bare
from faultlab.lab.finding import Finding
from faultlab.lab.model import Lab, Step
from faultlab.run import harmless, leftovers, together
from faultlab.run.looks import PROCESSES
from faultlab.run.phase import FAULTY, only
from faultlab.run.record import JOINED, ROOM
from faultlab.run.run import Run

_JOINING = "joining"  # an event: from now on a fault or a decoy can be there
_SECOND = 2  # the number of a fault that joins


@cache
def pairs() -> frozenset[frozenset[str]]:
    """Return the labs whose faults were proven at once, two by two. Raises BadInput."""
    every = (frozenset(bare(name) for name in lab.of) for lab in together.proven())
    return frozenset(pair for pair in every if len(pair) == _SECOND)


def refusal(lab: Lab, fault: str) -> str:
    """Return why the fault of another lab cannot join this one; empty if it was proven with it."""
    if lab.control or lab.several:
        how = "no fault" if lab.control else "several faults already"
        return f"this lab has {how}, and only pairs of faults were proven together"
    if frozenset((bare(lab.id), bare(fault))) not in pairs():
        return f"{bare(lab.id)} and {bare(fault)} were not proven together (docs/together.json)"
    return ""


def named(lab_id: str, *, fault: str = "", decoy: str = "") -> str:
    """Return the id of a lab with what has joined it."""
    lab, *leads = lab_id.split(MARK)
    whole = labs.AND.join(filter(None, (lab, fault)))
    return MARK.join([whole, *leads, *filter(None, [decoy])])


def with_room(lab: Lab, fault: str) -> Lab:
    """Return a lab whose stack has room for the fault of another one, under the same name.

    Raises BadInput if the two were not proven together.
    """
    if why := refusal(lab, fault):
        raise BadInput(f"There is no room for {fault}: {why}.", "faultlab list --together")
    whole = named(bare(lab.id, dosed=True), fault=fault)
    return labs.load_in(lab.collection, whole).called(lab.alias)


def begin(run: Run, lab: Lab) -> None:
    """Inject the fault of the first lab alone into a stack that has room for another one."""
    with run.record.changing:
        run.record.facts |= {ROOM: run.record.lab, "lab": lab.id}
    run.plant()
    run.apply("inject", lab.inject, faults=[1])
    run.note_processes()


def gate(run: Run, lab: Lab) -> list[Finding]:
    """Accept the first fault only if its whole symptom shows. Raises SaidNo."""
    phase = only(bare(lab.id))
    found = run.gate(phase)
    with run.record.changing:  # what a check compares with
        run.record.readings[FAULTY] = run.record.readings[phase]
        run.record.judged[FAULTY] = run.record.judged[phase]
    return found


def fault(run: Run, name: str) -> list[Finding]:
    """Let the fault join for which a stack has room, unless it has.

    Beside another fault not all of its measures must show: users have to meet it, and it has to
    leave its evidence. Raises BadInput for another fault, SaidNo after a roll-back.
    """
    facts = run.record.facts
    part = labs.load_in(run.lab.collection, name)
    if ROOM not in facts or bare(part.id) not in map(bare, run.lab.of[1:]):
        raise BadInput(f"This stack has no room for {name}.", "faultlab start --help")
    if facts.get(JOINED) == name:
        return _met(run, part)
    if run.record.happened(_JOINING):  # and the program was killed then
        with suppress(CannotRun):
            run.apply("roll back", part.fix, faults=[_SECOND])
    was = run.record.readings[FAULTY], run.record.judged[FAULTY]
    _inject(run, part.inject, faults=[_SECOND])
    run.measure(FAULTY)
    found = _met(run, part)
    felt = any(not each.holds for each in run.good(FAULTY) if each.fault == bare(part.id))
    if not (felt and bare(part.id) in run.traces(FAULTY)):
        run.apply("roll back", part.fix, faults=[_SECOND])
        with run.record.changing:
            run.record.readings[FAULTY], run.record.judged[FAULTY] = was
            run.record.save()
        raise SaidNo(f"{name} does not show beside what is there. Rolled back.")
    with run.record.changing:
        facts |= {JOINED: name, "lab": facts[ROOM]}
    run.record.event("joined", fault=name)
    return found


def decoy(run: Run, name: str) -> None:
    """Let a false lead join, unless it has. It goes without a gate: it was proven to harm no user.

    Raises BadInput for one that was not, or that this lab cannot have.
    """
    its = run.lab.collection
    found = next((each for each in harmless.proven(its) if each.id == name), None)
    if found is None:
        labs.decoy(its, name)
        raise BadInput(f"{name} was not proven to be harmless.", "faultlab decoys")
    if MARK + name in run.record.lab:
        return
    if any(step.restart for step in found.steps):  # which could repair what is there
        raise BadInput(f"{name} restarts a daemon, so it cannot join.", "faultlab decoys")
    decoys.among(run.lab, [found])
    _inject(run, found.steps, decoy=name)
    with run.record.changing:
        for key in {"lab", ROOM} & {*run.record.facts}:
            run.record.facts[key] = named(run.record.facts[key], decoy=name)
    run.record.event("joined", decoy=name)


def _met(run: Run, part: Lab) -> list[Finding]:
    return [each for each in run.bad(FAULTY) if each.fault == bare(part.id)]


def _inject(run: Run, steps: list[Step], **what: object) -> None:
    """Apply steps to a stack that is up; what they start belongs to it, and is not left over."""
    run.record.event(_JOINING, **what)
    before = leftovers.noted(run.stack)
    if steps:
        run.apply("inject", steps, **what)
    known = run.record.facts.get(PROCESSES, {})
    for at, its in leftovers.noted(run.stack).items():
        known.setdefault(at, []).extend(one for one in its if one not in before.get(at, []))
    with run.record.changing:
        run.record.facts[PROCESSES] = known
        run.record.save()
