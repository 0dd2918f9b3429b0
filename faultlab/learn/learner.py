"""Learner: the verbs of one person who works on a lab, from start to debrief."""

import random
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from faultlab.core import lock
from faultlab.core.command import meanwhile, uninterrupted
from faultlab.core.defaults import AUTO, EXAM, MYSTERY
from faultlab.core.errors import BadInput, CannotRun, SaidNo
from faultlab.core.naming import stack_name
from faultlab.core.terminal import Terminal
from faultlab.engine.stack import Stack
from faultlab.lab import checks, numbers
from faultlab.lab import loader as labs
from faultlab.lab.finding import Finding
from faultlab.lab.model import Lab, Truth
from faultlab.learn import hints
from faultlab.learn.commands import commands
from faultlab.run import harmless, inject, joining, placement
from faultlab.run.attached import attached
from faultlab.run.readings import as_seen
from faultlab.run.record import DOWN, GAVE_UP, READY, Record
from faultlab.run.run import Run


@dataclass(frozen=True)
class Found:
    """A finding, with what a learner can see of it."""

    name: str
    value: float
    unit: str
    wanted: str
    holds: bool
    says: str


@dataclass(frozen=True)
class Started:
    """A lab that is up: its run, the machines to log in to, its ticket, and the proven symptom."""

    lab: str
    verdict: str
    run: str
    machines: list[str]
    ticket: str
    findings: list[Found]


@dataclass(frozen=True)
class Fixed:
    """The steps of the fix, as an engineer types them."""

    lab: str
    steps: list[str]


@dataclass(frozen=True)
class Lesson:
    """The lesson of a lab, and the correct diagnosis."""

    lab: str
    lesson: str
    truth: Truth


@dataclass(frozen=True)
class Removed:
    """The parts of a lab that existed and were removed. `stays`: what is up without it."""

    lab: str
    removed: list[str]
    stays: str = ""


def start(
    term: Terminal,
    lab_id: str,
    wanted: str,
    blind: bool = False,
    decoys: int = 0,
    *,
    room: str = "",
) -> Started:
    """Start a lab, prove its symptom and print the ticket. A lab that is already up is kept.

    `blind`: start it as a mystery, with so many `decoys`. `room`: for the fault of that lab, which
    can join it later. Raises SaidNo if the fault has no effect,
    after a roll-back; raises CannotRun if the lab cannot run. Hints of an earlier try that did not
    end stay paid.
    """
    lab = labs.load(lab_id) if blind else placement.named(lab_id)
    lab = harmless.with_decoys(lab, decoys, random.Random())
    lab = lab.called(MYSTERY) if blind else lab
    if lab.silent:
        raise BadInput(
            f"Users do not notice {lab_id}, so there is nothing to repair.",
            f"faultlab verify {lab_id}",
        )
    with lock.hold(stack_name(lab.alias), f"start {lab.alias}"):
        with term.alive("start", "checking if it is already up"):
            stack = placement.find(lab, wanted)
        given = [] if lab.blind else hints.given_before(lab)
        return _up_already(term, lab, wanted, stack) or begin(term, lab, wanted, given, room)


def _up_already(term: Terminal, lab: Lab, wanted: str, stack: Stack) -> Started | None:
    """Return a lab that is completely up, else None. Raises CannotRun."""
    stack.refuse_others()
    if not _ready(lab, stack):
        return None
    record = Record.read(stack.run_id)
    if record.lab != lab.id:
        raise CannotRun(f"Another {lab.alias} is up already.", f"make down-{lab.alias}")
    record.refuse_other_release()
    if wanted not in (AUTO, stack.engine.name):
        raise CannotRun(
            f"{lab.alias} is up already, on the engine {stack.engine.name}.",
            f"make down-{lab.alias}",
        )
    term.say(f"{lab.alias} is up already; `make reset-{lab.alias}` starts it over.")
    return _hand_over(term, lab, stack, record.id, [])


def _ready(lab: Lab, stack: Stack) -> bool:
    whole = all(n in stack for n in lab.services.needed(lab.daemons))
    if not (stack and whole and Record.ready(stack.run_id)):
        return False
    ended = {name.split()[0] for name in stack.stopped()}
    return not ended or ended <= {*checks.load(lab).may_stop}  # a fault can end a daemon


def reset(term: Terminal, lab_id: str, wanted: str) -> Started:
    """Replace the stack by a fresh one with the fault injected. Discards all changes to it."""
    lab = placement.standing(lab_id)
    with lock.hold(stack_name(lab.alias), f"reset {lab.alias}"):
        old = placement.up(lab.alias)
        if wanted == AUTO and old:
            wanted = old.engine.name
        old.engine.down(old.name)
        return begin(term, lab, wanted, hints.given_before(lab))


def begin(
    term: Terminal, lab: Lab, wanted: str, given: Iterable[int] = (), room: str = ""
) -> Started:
    """Start a lab afresh, prove its symptom and print the ticket. Raises what `start` raises.

    The caller holds the lock of its stack. `given`: the hints that the learner has already.
    """
    name = stack_name(lab.alias)
    whole = joining.with_room(lab, room) if room else lab
    term.goes_on = True  # `start mtu | head` wants the lab, too
    term.heading(f"{lab.alias}: {lab.title}")
    engine = placement.choose(term, whole, wanted)
    run: Run | None = None
    try:
        with term.step("stack", "starting its containers") as step:
            run = Run.begin(engine, whole, name)
            step.done(f"up: {', '.join(run.stack)}")
        with term.step("healthy", "measuring the stack before anything is wrong") as step:
            run.note = step.note
            run.healthy()
            step.done("measured, healthy")
        with term.step("inject", "setting it up") as step:
            if room:
                joining.begin(run, lab)
            else:
                run.inject()
            step.done("done")
        with term.step("symptom", "measuring what its users meet now") as step:
            run.note = step.note
            found = as_seen(whole, joining.gate(run, lab) if room else run.gate())
            step.done("none, as it should be" if lab.control else "proven")
    except BaseException as error:
        with uninterrupted():
            if run is not None:
                run.collect(on=False)
            engine.down(name)
        if isinstance(error, SaidNo):
            error.message += " Rolled back."
        raise
    run.record.event(READY)
    for number in given:
        run.record.event("hint", number=number)
    with meanwhile(partial(run.collect, on=False)):
        return _hand_over(term, lab, run.stack, run.record.id, found)


def _hand_over(term: Terminal, lab: Lab, stack: Stack, run: str, found: list[Finding]) -> Started:
    if found:
        term.say()
        found = as_seen(lab, found)
        term.findings([finding.cells for finding in found])
    term.say()
    term.markdown(lab.ticket)
    term.say()
    machines = [name for name in stack if name not in lab.daemons]
    for command, what in commands(lab, stack, machines):
        term.say(f"  {command:<36} {what}".rstrip())
    if lab.blind:
        term.command("faultlab diagnose --component … --resource … --cause … (or: none, for each)")
        if lab.folders:
            term.command("faultlab diagnose … --also     each further fault")
    return Started(lab.alias, "pass", run, machines, lab.ticket, as_found(found))


def shell(lab_id: str, machine: str) -> None:
    """Replace this process by a shell on a machine or daemon of a lab that is up."""
    lab = placement.standing(lab_id)
    stack = placement.up(lab.alias)
    if not stack:
        raise CannotRun(f"{lab.alias} is not up.", lab.to_start)
    machine = machine or lab.collection.client
    if machine not in stack:
        raise BadInput(
            f"{lab.alias} has no machine {machine!r}; it has {', '.join(stack)}.",
            f"make shell-{lab.alias} AT={next(iter(stack))}",
        )
    target = stack[machine]
    if not target.state.running:
        raise CannotRun(f"{machine} is not running.", target.typed("start"))
    target.log_in()


def fix(term: Terminal, lab_id: str, number: int | None) -> Fixed:
    """Apply the documented fix, or that of one fault, and print each step as it is typed."""
    with attached(lab_id, "fix") as run:
        if run.lab.blind and not run.record.happened(GAVE_UP):
            raise CannotRun("The fix would give it away.", f"faultlab debrief {lab_id} --give-up")
        faults = run.lab.faults
        numbers = [*range(1, len(faults) + 1)] if number is None else [number]
        if not {*numbers} <= {*range(1, len(faults) + 1)}:
            raise BadInput(
                f"{lab_id} has no fault {number}; it has {len(faults)}.", f"make fix-{lab_id}"
            )
        steps = [step for each in numbers for step in faults[each - 1].fix]
        try:
            run.apply("fix", steps, faults=numbers)
        except CannotRun as problem:
            raise CannotRun(
                f"{problem.message} Did you repair part of it by hand before?",
                f"make reset-{lab_id} fix-{lab_id}",
            ) from problem
    typed = [inject.typed(run.stack, step) for step in steps]
    for line in typed or ["(nothing to fix: nothing is wrong)"]:
        term.command(line)
    term.say(f"Applied. Next: make check-{lab_id}")
    return Fixed(lab_id, typed)


def debrief(term: Terminal, lab_id: str) -> Lesson:
    """Print the lesson, with the names of this lab's own containers.

    Raises CannotRun in an exam, which shows what tells its labs apart at its end.
    """
    lab = placement.named(lab_id)
    if lab.alias == EXAM:
        raise CannotRun("The lesson would give it away.", "answer the exam to its end")
    lesson = inject.typable(lab.lesson, stack_name(lab.alias))
    term.markdown(lesson, paged=True)
    return Lesson(lab.id, lesson, lab.truth)


def down(term: Terminal, lab_id: str) -> Removed:
    """Remove a lab, and verify that nothing is left."""
    labs.known(lab_id)  # do not load it: a mistake in its folder must not prevent its removal
    lab_id = placement.name_up(numbers.spelled(lab_id))
    name = stack_name(lab_id)
    with lock.hold(name, f"down {lab_id}"):
        stack = placement.up(lab_id)
        engine, record = stack.engine, Record.ready(stack.run_id) if stack else None
        was = engine.leftovers(name)
        with term.step("down", "removing its containers, network and volumes") as step:
            engine.down(name)
            step.done("removed, nothing is left" if was else "nothing was up")
        if record and lab_id == MYSTERY:  # from now on progress may tell what it was
            with suppress(CannotRun):
                record.event(DOWN)
    if engine.stays:
        term.say(engine.stays)
    return Removed(lab_id, was, engine.stays)


def as_found(findings: Iterable[Finding]) -> list[Found]:
    """Return these findings as a learner sees them."""
    return [Found(f.name, f.value, f.unit, f.wanted, f.holds, f.says) for f in findings]
