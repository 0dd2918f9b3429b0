"""Exam: two causes with one symptom, drawn in random order. Which of the two is it?

Each draw is a blind stack that has what both labs need, so that only the fault differs. Before the
end nothing is said of a draw: neither its ticket, which is that of one lab, nor what was measured.
"""

from __future__ import annotations

import random
import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from faultlab.core import lock
from faultlab.core.command import uninterrupted
from faultlab.core.defaults import AUTO, EXAM, EXAM_DRAWS
from faultlab.core.errors import BadInput, CannotRun, Problem
from faultlab.core.naming import stack_name
from faultlab.core.statistics import Sensitivity, median
from faultlab.core.terminal import Terminal
from faultlab.engine.contract import Engine
from faultlab.lab import loader as labs
from faultlab.lab import twins
from faultlab.lab.collection import bare
from faultlab.lab.model import Lab
from faultlab.learn import certainty
from faultlab.learn.certainty import Certainty
from faultlab.learn.exam_record import Exam, Said
from faultlab.run import placement
from faultlab.run.record import READY
from faultlab.run.run import Run

_FEWEST, _MOST = 4, 40  # draws
_HELP = f"faultlab {EXAM} --help"
_ANSWER = re.compile(r"(?P<said>[^\s,]+)[\s,]+(?P<sure>\d{1,3})\s*%?")
_GUESS = 50  # per cent; a learner who is less sure of one of two is surer of the other


@dataclass(frozen=True)
class Telling:
    """The reading that tells a lab from its twin, as the lesson of the lab has it."""

    lab: str
    twin: str
    text: str


@dataclass(frozen=True)
class Examined:
    """An exam so far. `d_prime`: None before both labs have come.

    `right`: the answers that are; `seconds`: the median of the time for an answer.
    """

    labs: list[str]
    seed: int
    draws: int
    answers: list[Said]
    right: int
    seconds: float | None
    d_prime: Sensitivity | None
    certainty: Certainty | None
    telling: list[Telling]


def exam(
    term: Terminal,
    names: Sequence[str],
    *,
    draws: int | None,
    seed: int | None,
    anew: bool,
    wanted: str,
) -> Examined:
    """Examine how well a learner tells a lab from its twin, and print what came of it.

    `names`: the two, or one, whose first twin that runs here is taken. `draws`: 8 by default. An
    exam of these two that lacks answers goes on, unless `anew` is said. Raises BadInput for labs
    that cannot be examined so, and CannotRun, also after Ctrl-C and at the end of the input; then
    with what there is.
    """
    if draws is not None and not _FEWEST <= draws <= _MOST:
        raise BadInput(f"--draws takes a number from {_FEWEST} to {_MOST}.", _HELP)
    pair = _pair(term, names, wanted)
    its = [lab.id for lab in pair]
    again = f"faultlab {EXAM} {' '.join(its)}"
    with lock.hold(stack_name(EXAM), EXAM):
        engine = _engine(term, pair, wanted)
        found = None if anew else Exam.going_on(its, seed, draws)
        _welcome(term, pair, found)
        if found is None:
            seed = random.SystemRandom().randrange(10_000) if seed is None else seed
            found = Exam.begin(its, seed, draws or EXAM_DRAWS)
        try:
            for lab_id in found.left:
                drawn = pair[its.index(lab_id)]
                with _drawn(term, engine, drawn, found, again) as (run, took):
                    said = _asked(term, found, again, (drawn.id, run, took))
                    with uninterrupted():
                        found.add(said)
        except (KeyboardInterrupt, EOFError):
            kept = f"{len(found.answers)} of {found.draws} draws are answered, and kept"
            told = _told(term, pair, found) if found.answers else None
            raise CannotRun(f"The exam was stopped: {kept}.", again, told) from None
    return _told(term, pair, found)


def _pair(term: Terminal, names: Sequence[str], wanted: str) -> list[Lab]:
    """Return two labs that take each other's place on one stack, which has what both need.

    Raises BadInput, and CannotRun if one of them cannot run here.
    """
    if not 1 <= len(names) <= 2:
        raise BadInput("An exam takes a lab, and perhaps its twin.", _HELP)
    one = labs.load(names[0])
    fit = [twin for twin in twins.known(one) if not twins.apart(one, twin)]
    able = f"faultlab {EXAM} {one.id} {fit[0].id}" if fit else f"faultlab {EXAM} mtu"
    if len(names) == 2:
        fit = [labs.load(names[1])]
        if why := twins.apart(one, fit[0]):
            raise BadInput(f"{why}.", able)
    elif not fit:
        raise BadInput(f"{one.id} has no twin on the same machines.", able)
    with term.alive("twins", "checking which of them run here"):
        for twin in fit:
            pair = twins.on_one_stack(one, twin)
            if not (why := _not_here(pair, wanted)):
                return pair
    raise CannotRun(why, f"faultlab {EXAM} {one.id} {fit[-1].id} --engine vm")


def _not_here(pair: Sequence[Lab], wanted: str) -> str:
    """Return why one of two labs cannot run on the engine of this machine, in a sentence.

    Empty if both can, or if another engine is wanted. The VM is taken only if it is asked for.
    """
    engine = placement.local()
    if wanted not in (AUTO, engine.name):
        return ""
    reasons = ((lab.id, placement.cannot_run(engine, lab)) for lab in pair)
    return next((f"{lab_id} cannot run here: {why}." for lab_id, why in reasons if why), "")


def _engine(term: Terminal, pair: Sequence[Lab], wanted: str) -> Engine:
    """Return the engine of an exam, without the stack of one that was killed. Raises CannotRun."""
    engine = placement.choose(term, pair[0], wanted)
    if why := placement.cannot_run(engine, pair[1]):
        raise CannotRun(f"{pair[1].id} cannot run on {engine.name}: {why}.", "faultlab doctor")
    if left := placement.up(EXAM):
        with term.step("down", "removing what was left of an exam"):
            left.engine.down(left.name)
    return engine


def _welcome(term: Terminal, pair: Sequence[Lab], begun: Exam | None) -> None:
    term.heading(f"{EXAM}: {pair[0].id} or {pair[1].id}?")
    for lab in pair:
        term.say(f"{lab.id}: {lab.title}")
    term.say("Each draw is one of the two. When it is up, look around in another terminal:")
    term.command(f"faultlab shell {EXAM} {pair[0].truth.component}")
    term.say("Then type here which one it is, and from 50 to 100% how sure you are:")
    term.command(f"{pair[0].id} 80")
    term.say("Nothing has to be repaired. Ctrl-C stops; the same command continues.")
    if begun is not None:
        number, day = len(begun.answers) + 1, time.strftime("%d %B", time.localtime(begun.began))
        term.say(f"It goes on with draw {number} of {begun.draws}; begun on {day}. Anew: --new")


@contextmanager
def _drawn(
    term: Terminal, engine: Engine, lab: Lab, found: Exam, again: str
) -> Iterator[tuple[str, float]]:
    """Yield the run of a draw that is up and proven, and the seconds that this took.

    Raises CannotRun if it cannot be proven, without a word that names the lab. A lab that is proven
    more quickly than the other waits for as long as that one takes: time would tell.
    """
    number, began = len(found.answers) + 1, time.monotonic()
    run: Run | None = None
    try:
        with term.step(f"draw {number}", "starting its machines") as step:
            run = Run.begin(engine, lab.called(EXAM), stack_name(EXAM), collects=False)
            step.note("making it faulty, and measuring that users feel it")
            try:
                run.healthy()
                run.inject()
                run.gate()
            except Problem as problem:
                what = f"Draw {number} could not be proven; the answers before it are kept"
                why = f"{again}; why (it names the lab): faultlab show {run.record.id}"
                raise CannotRun(f"{what}.", why) from problem
            run.record.event(READY)
            run.stack.release()
            took = time.monotonic() - began
            engine.pause(max(0.0, found.pace - took))
            step.done("is up, and users feel it")
        yield run.record.id, took
    finally:
        if run is not None:
            with uninterrupted(), term.alive("down", "removing its machines"):
                run.down()


def _asked(term: Terminal, found: Exam, again: str, drawn: tuple[str, str, float]) -> Said:
    """Return the answer that is typed. Raises EOFError at the end of the input.

    `drawn`: the lab, its run, and the seconds until it was up. Raises BadInput for another line, if
    no person types.
    """
    one, other = found.labs
    number, began = len(found.answers) + 1, time.monotonic()
    term.say(f"{number} of {found.draws}: {one} or {other}, and how sure, in % (50 to 100)?")
    while line := sys.stdin.readline() if sys.stdin else "":
        if answer := _read(line, found.labs):
            said, sure = answer
            lab_id, run, took = drawn
            seconds = round(time.monotonic() - began, 1)
            return Said(lab_id, said, sure, said == lab_id, seconds, round(took, 1), run)
        wanted = f"Expected {one} or {other}, and from 50 to 100, such as: {one} 80"
        if not sys.stdin.isatty():
            raise BadInput(wanted, again)
        term.say(wanted)
    raise EOFError


def _read(line: str, its: Sequence[str]) -> tuple[str, int] | None:
    """Return the lab that a line names, and how sure; None if it is no answer."""
    typed = _ANSWER.fullmatch(line.strip())
    names = {name: lab_id for lab_id in its for name in (bare(lab_id), lab_id)}
    if not typed or typed["said"] not in names or not _GUESS <= int(typed["sure"]) <= 100:
        return None
    return names[typed["said"]], int(typed["sure"])


def _told(term: Terminal, pair: Sequence[Lab], found: Exam) -> Examined:
    """Print what an exam has come to, and what tells the two apart."""
    both = (pair, [*reversed(pair)])
    told = Examined(
        found.labs,
        found.seed,
        found.draws,
        found.answers,
        sum(one.right for one in found.answers),
        median([one.seconds for one in found.answers]),
        found.sensitivity,
        certainty.of([(one.sure, one.right) for one in found.answers]),
        [Telling(a.id, b.id, text) for a, b in both if (text := twins.telling(a, b))],
    )
    rows = [
        (
            str(i),
            one.lab,
            one.said,
            f"{one.sure}%",
            "yes" if one.right else "no",
            f"{one.seconds:.0f} s",
        )
        for i, one in enumerate(found.answers, 1)
    ]
    term.say()
    term.table(("draw", "it was", "you said", "sure", "right", "after"), rows)
    term.say()
    many = len(found.answers)
    term.say(
        f"Right in {told.right} of {many}. Half of the answers took {told.seconds:.0f} s or less."
    )
    for line in _said_of(told.d_prime, many) + (told.certainty.sentences if told.certainty else []):
        term.say(line)
    term.say()
    term.say("What tells them apart, as the lessons say:")
    term.points(f"{each.lab}: {each.text}" for each in told.telling)
    return told


def _said_of(found: Sensitivity | None, many: int) -> list[str]:
    """Return in sentences what d' says, and what so few draws cannot."""
    if found is None:
        return ["There is no d' yet: only one of the two has been drawn."]
    d, low, high = (round(each, 1) + 0.0 for each in (found.d, found.low, found.high))
    return [
        f"d' is {d}. 0 is guessing; d' 1 is right in 69%, 2 in 84%, 3 in 93%.",
        f"{many} draws cannot tell d' {low} from {high} (95% interval).",
    ]
