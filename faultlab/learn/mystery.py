"""Mystery: a lab whose name the learner does not know, their diagnosis, and its score.

The stack, its labels and its run are called `mystery`, so nothing that the learner can reach names
the lab. Only the run's record on the host does. Controls are drawn too: "nothing is wrong" can be
the correct answer.
"""

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import permutations
from typing import Any

from faultlab.core import lock
from faultlab.core.defaults import AUTO, MYSTERY
from faultlab.core.errors import BadInput, CannotRun
from faultlab.core.naming import stack_name
from faultlab.core.terminal import Terminal
from faultlab.lab import curriculum, vocabulary
from faultlab.lab import loader as labs
from faultlab.lab.collection import MARK
from faultlab.lab.decoys import clash
from faultlab.lab.model import Lab, Truth
from faultlab.learn import certainty, learner
from faultlab.learn.certainty import Certainty
from faultlab.run import harmless, inject, late, placement, together
from faultlab.run.attached import attached
from faultlab.run.phase import CHECK, LATER
from faultlab.run.record import DOWN, GAVE_UP, READY, TOLD, Record

MOST_FAULTS = 3  # at once, as labs are proven together
_CONTROLS = 0.2  # of the draws; without controls, "there is a fault" would always be right
_TWINS = 3  # a lab with twins is drawn this many times as often
_PART, _REPAIR, _AGAIN = 10, 10, 5  # points: for a correct part, for the repair, off for each retry
_ANSWER = "answer"
_ALSO = "also"
_SURE = "sure"
_HELP = "faultlab mystery --help"
_PER_FAULT = len(Truth.model_fields)  # parts of an answer


@dataclass(frozen=True)
class Score:
    """The score of a diagnosis. `answer`: the last one, or None.

    Each correct part and the repair earn 10 points. Hints and further answers cost points. Where
    several labs were put together, each fault has its parts, such as `2. cause`, and an answer
    beside those that fit a fault costs as a further one. `named` and `said`: how many faults the
    answer names by their cause, and how many it has; 0 where there is one fault. `decoys`: those
    that an answer has taken for the fault, each of which costs as a further answer. `sure`: of the
    last answer, in per cent; it costs nothing.
    """

    answer: dict[str, str] | None
    right: dict[str, bool]
    repaired: bool
    gave_up: bool
    hints: int
    answers: int
    minutes: float
    named: int = 0
    said: int = 0
    decoys: list[str] = field(default_factory=list)
    sure: int | None = None

    @property
    def knew(self) -> bool:
        """Return whether the answer names the cause of each fault."""
        causes = [right for part, right in self.right.items() if part.endswith("cause")]
        return bool(causes) and all(causes)

    @property
    def of(self) -> int:
        """Return the most points possible: 40, or 10 if no diagnosis is asked for."""
        return _PART * len(self.right) + _REPAIR

    @property
    def points(self) -> int:
        """Return the points earned, at least 0. A learner who gives up gets none for the repair."""
        earned = _PART * sum(self.right.values()) + _REPAIR * (self.repaired and not self.gave_up)
        more = max(0, self.answers - 1) + max(0, self.said - len(self.right) // _PER_FAULT)
        return max(0, earned - self.hints - _AGAIN * (more + len(self.decoys)))


@dataclass(frozen=True)
class Answered:
    """An answer, and the number of answers so far. `sure`: in per cent, if that counts."""

    answers: int
    answer: dict[str, str]
    sure: int | None = None


@dataclass(frozen=True)
class FalseLead:
    """A decoy that was there: what an engineer finds, why it harms no user, and if it was taken."""

    decoy: str
    title: str
    why: str
    taken: bool


@dataclass(frozen=True)
class Debriefed:
    """The name of the lab, the score of the diagnosis, the lesson, and the decoys.

    `certainty`: that of all mysteries so far which were answered with one.
    """

    lab: str
    truth: dict[str, str]
    points: int
    answer: dict[str, str] | None
    right: dict[str, bool]
    repaired: bool
    gave_up: bool
    hints: int
    answers: int
    minutes: float
    named: int
    said: int
    decoys: list[str]
    sure: int | None
    certainty: Certainty | None
    lesson: str
    false_leads: list[FalseLead]


def candidates(tier: str | None, level: int | None) -> list[Lab]:
    """Return the labs to draw from. Raises BadInput if none match.

    Controls match all filters, if a fault on a stack like theirs does.
    """
    every = [labs.load(lab_id) for lab_id in labs.ids()]
    kept = curriculum.narrowed(every, tier, level)
    stacks = [lab.collection.root for lab in kept if not lab.control]
    return [lab for lab in every if lab in kept or (lab.control and lab.collection.root in stacks)]


def drawable(tier: str | None, level: int | None, *, faults: int, decoys: int) -> list[Lab]:
    """Return the labs to draw from with so many faults at once, and so many false leads.

    Raises BadInput if none match.
    """
    found = candidates(tier, level)
    if faults > 1:
        found = together.proven_of(found, faults)
    return with_leads(found, decoys)


def with_leads(found: Sequence[Lab], decoys: int) -> list[Lab]:
    """Return the labs that can have so many false leads. Raises BadInput if none can."""
    if not decoys:
        return [*found]
    leads = {its: harmless.proven(its) for its in {lab.collection for lab in found}}
    can = [
        lab
        for lab in found
        if len({each.suggests for each in leads[lab.collection] if not clash(each, lab)}) >= decoys
    ]
    if not can:
        raise BadInput(f"No lab here can have {decoys} false leads.", "faultlab decoys")
    return can


def made(lab: Lab, seed: int, *, hard: bool, decoys: int) -> Lab:
    """Return a drawn lab as it is started: as weak as users still feel it, and with false leads."""
    lab = labs.hardest(lab) if hard else lab
    return harmless.with_decoys(lab, decoys, random.Random(seed))


def order(found: Sequence[Lab], seed: int) -> Iterator[Lab]:
    """Yield the labs in the order of their draw, which depends only on the seed and the labs."""
    chance = random.Random(seed)
    left = list(found)
    while left:
        control = chance.random() < _CONTROLS
        some = [lab for lab in left if lab.control == control] or left
        weights = [_TWINS if lab.twins and not lab.control else 1 for lab in some]
        drawn = chance.choices(some, weights)[0]
        left.remove(drawn)
        yield drawn


def start(
    term: Terminal,
    seed: int | None,
    tier: str | None,
    level: int | None,
    *,
    wanted: str,
    hard: bool = False,
    faults: int = 1,
    decoys: int = 0,
) -> learner.Started:
    """Draw a lab and start it as a mystery. Raises what `learner.start` raises.

    `hard`: with its fault as weak as users still feel it. `faults`: so many at once, of labs that
    were proven together. `decoys`: so many false leads besides, of those that are proven.
    """
    _refuse(hard, faults, decoys)
    found = drawable(tier, level, faults=faults, decoys=decoys)
    if seed is None:
        seed = random.SystemRandom().randrange(10_000)
    with lock.hold(stack_name(MYSTERY), MYSTERY):
        if placement.up(MYSTERY):
            raise CannotRun("A mystery is up already.", f"make down-{MYSTERY}")
        with term.step("draw", "checking which labs run here") as step:
            drawn = _first_that_runs(found, seed, wanted)
            step.done(f"one of {len(found)}, seed {seed}")
        drawn = made(drawn, seed, hard=hard, decoys=decoys)
        return learner.begin(term, drawn.called(MYSTERY), wanted)


def drawn(*, hard: bool, faults: int, decoys: int) -> Lab:
    """Return a lab drawn at random, of those that run here without the VM, as it is started.

    Raises BadInput, CannotRun.
    """
    _refuse(hard, faults, decoys)
    seed = random.SystemRandom().randrange(10_000)
    lab = _first_that_runs(drawable(None, None, faults=faults, decoys=decoys), seed, AUTO)
    return made(lab, seed, hard=hard, decoys=decoys)


def _refuse(hard: bool, faults: int, decoys: int) -> None:
    if decoys < 0:
        raise BadInput("--decoys takes a number from 0 up.", _HELP)
    if not 1 <= faults <= MOST_FAULTS or (hard and faults > 1):
        most = f"from 1 to {MOST_FAULTS}"
        raise BadInput(f"--faults takes a number {most}, and does not go with --hard.", _HELP)


def _first_that_runs(found: Sequence[Lab], seed: int, wanted: str) -> Lab:
    """Return the first lab drawn that runs here. Raises CannotRun if none does.

    Without `--engine vm`, labs that need the VM are skipped: the VM would give them away.
    """
    engine = placement.local()
    for lab in order(found, seed):
        if wanted not in (AUTO, engine.name) or not placement.cannot_run(engine, lab):
            return lab
    raise CannotRun("None of these labs runs here.", f"faultlab {MYSTERY} --engine vm")


def diagnose(
    term: Terminal,
    component: str,
    resource: str,
    cause: str,
    *,
    also: bool = False,
    sure: int | None = None,
) -> Answered:
    """Record an answer, which the debrief scores. Raises BadInput for a word not in `terms`.

    `also`: it names one more fault, and the answer before it stays. `sure`: in per cent, which
    counts if no check has passed yet.
    """
    answer = answered(component, resource, cause)
    with attached(MYSTERY, "diagnose") as run:
        more: dict[str, Any] = {_ALSO: True} if also else {}
        more |= {} if sure is None else {_SURE: sure}
        run.record.event(_ANSWER, **answer, **more)
        sets, counts = answers(run.record.events), _certainty(run.record.events)
    given = len(sets)
    if len(sets[-1]) > 1:
        term.say(f"Answer {given} names {len(sets[-1])} faults; the debrief scores it.")
    else:
        term.say(f"Answer {given} is recorded; the debrief scores it.")
    if given > 1:
        term.say(f"Only the last answer counts. Each answer after the first costs {_AGAIN} points.")
    if sure is not None and counts is None:
        term.say("How sure you are does not count: a check has passed already.")
    elif counts is None:
        term.say("Next time say how sure you are, in per cent: --sure 80")
    return Answered(given, answer, counts)


def debrief(term: Terminal, give_up: bool) -> Debriefed:
    """Print the solution and the score of the answer, then the lesson.

    Raises CannotRun before it is answered and repaired, unless the learner gives up.
    """
    with attached(MYSTERY, "debrief") as run:
        found = scored(run.lab, run.record)
        if give_up and not found.gave_up:
            run.record.event(GAVE_UP)
            found = scored(run.lab, run.record)
        if not found.gave_up:
            _must_be_done(found)
        if not run.record.told:
            run.record.event(TOLD)
        truth, real = truths(run.lab), run.lab.id
        lesson = inject.typable(run.lab.lesson, run.stack.name)
    its = labs.load(real)
    term.heading(f"It was {real.partition(MARK)[0]}: {its.title}")
    answer = found.answer or {}
    rows = [
        (part, word, answer.get(part, "-"), "yes" if found.right[part] else "no")
        for part, word in truth.items()
    ]
    term.table(("", "it was", "your answer", ""), rows)
    how = "given up" if found.gave_up else "repaired" if found.repaired else "not repaired"
    term.say(
        f"{found.points} of {found.of} points: {how}, hints for {found.hints}, "
        f"{found.answers} answer{'' if found.answers == 1 else 's'}, {found.minutes:.0f} min"
    )
    if found.said:
        faults = len(truth) // _PER_FAULT
        term.say(f"You named {found.named} of {faults} faults, with {found.said} answers.")
    leads = false_leads(its, found)
    for lead in leads:
        cost = f" You answered it: {_AGAIN} points." if lead.taken else ""
        term.say(f"A false lead: {lead.title}. {lead.why}{cost}")
    how_sure = certainties()
    if found.sure is not None and how_sure:
        came = "right" if found.knew else "wrong"
        term.say(f"You were {found.sure}% sure of this, and {came}. Of all mysteries so far:")
        term.points(how_sure.sentences)
    term.say()
    term.markdown(lesson, paged=True)
    return Debriefed(
        real,
        truth,
        found.points,
        **vars(found),
        certainty=how_sure,
        lesson=lesson,
        false_leads=leads,
    )


def certainties() -> Certainty | None:
    """Return how sure the learner was of all mysteries that are over; None without a certainty.

    They are those of this checkout, as their records have them.
    """
    said = []
    for run_id in Record.ids(MYSTERY):
        with suppress(BadInput):
            record = Record.read(run_id)
            if record.stack == stack_name(MYSTERY) and record.happened(READY) and record.told:
                sure = _certainty(record.events)
                found = score(
                    labs.load(record.lab),
                    answers(record.events),
                    repaired=late.repaired(record.events),
                    gave_up=record.happened(GAVE_UP),
                    hints=0,
                    minutes=0.0,
                )
                said += [] if sure is None else [(sure, found.knew)]
    return certainty.of(said)


def _must_be_done(found: Score) -> None:
    if found.answer is None:
        raise CannotRun(
            "The debrief opens after you answer what it is.",
            "faultlab diagnose --help, or faultlab debrief mystery --give-up",
        )
    if not found.repaired:
        raise CannotRun(
            "The debrief opens after a check has passed, and has still passed minutes later.",
            f"make check-{MYSTERY}, or faultlab debrief {MYSTERY} --give-up",
        )


def answers(events: Iterable[dict[str, Any]]) -> list[list[dict[str, str]]]:
    """Return the answers in a run so far. Each names one fault, and others with `also`."""
    found: list[list[dict[str, str]]] = []
    for event in events:
        if event["event"] == _ANSWER:
            named = {part: event[part] for part in Truth.model_fields}
            if event.get(_ALSO) and found:
                found[-1].append(named)
            else:
                found.append([named])
    return found


def _certainty(events: Iterable[dict[str, Any]]) -> int | None:
    """Return how sure the last answer is, in per cent.

    None if that was not said before a check passed: then all are sure.
    """
    found: int | None = None
    passed = False
    for event in events:
        if event["event"] in (CHECK, LATER):
            passed = event["fixed"]
        elif event["event"] == _ANSWER:
            found = found if event.get(_ALSO) else None
            found = found if passed else event.get(_SURE, found)
    return found


def _to_name(lab: Lab) -> list[Truth]:
    """Return what an answer has to name: each fault of labs that were put together, else one."""
    return [fault.truth for fault in lab.fault] if lab.folders else [lab.truth]


def truths(lab: Lab) -> dict[str, str]:
    """Return what an answer is compared with, by the parts that a score has."""
    return _keyed([each.model_dump() for each in _to_name(lab)])


def _keyed(each: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the parts of an answer about one fault; `1. cause` and so on about several."""
    if len(each) == 1:
        return dict(each[0])
    return {f"{i}. {part}": word for i, one in enumerate(each, 1) for part, word in one.items()}


def false_leads(lab: Lab, score: Score) -> list[FalseLead]:
    """Return the decoys of a lab, and which of them this score has as taken for its fault."""
    return [FalseLead(d.id, d.title, d.why, d.id in score.decoys) for d in lab.decoys]


def right(lab: Lab, answer: Mapping[str, str] | None) -> dict[str, bool]:
    """Tell which parts of an answer are correct; of several faults the best match counts."""
    compared = [_parts(answer or {}, truth) for truth in labs.truths(lab)]
    return max(compared, key=lambda parts: sum(parts.values()))


def answered(component: str, resource: str, cause: str) -> dict[str, str]:
    """Return an answer in the words of `faultlab terms`. Raises BadInput for any other word."""
    answer = Truth(component=component, resource=resource, cause=cause).model_dump()
    for part, known in vocabulary.answers().items():
        if answer[part] not in known:
            raise BadInput(f"{answer[part]!r} is no {part} that can be named.", "faultlab terms")
    return answer


def _fitted(lab: Lab, said: Sequence[dict[str, str]]) -> list[tuple[dict[str, str], Truth]]:
    """Return each fault with the answer to it, so that most parts are right; empty for none."""
    faults = _to_name(lab)
    orders = permutations([*said, *({} for _ in faults)], len(faults))
    pairs = [list(zip(order, faults, strict=True)) for order in orders]
    return max(pairs, key=lambda its: sum(sum(_parts(*pair).values()) for pair in its))


def _parts(answer: Mapping[str, str], truth: Truth) -> dict[str, bool]:
    return {part: answer.get(part) == word for part, word in truth.model_dump().items()}


def scored(lab: Lab, record: Record) -> Score:
    """Return the learner's score in this run so far."""
    events = [event for event in record.events if event["event"] not in (TOLD, DOWN)]
    return score(
        lab,
        answers(events),
        sure=_certainty(events),
        repaired=late.repaired(events),
        gave_up=any(event["event"] == GAVE_UP for event in events),
        hints=sum(lab.hint[number - 1].cost for number in record.hints),
        minutes=(events[-1]["t"] - next((e["t"] for e in events if e["event"] == "ready"), 0)) / 60,
    )


def score(
    lab: Lab, answers: Sequence[Sequence[dict[str, str]]], *, asked: bool = True, **reached: Any
) -> Score:
    """Return the score of these answers, each of which names one fault or several.

    `asked`: whether a diagnosis is asked for. `reached`: the other fields of a score.
    """
    said = answers[-1] if answers else []
    causes = {one["cause"] for each in answers for one in each}
    found = Score(
        answer=said[-1] if said else None,
        right=right(lab, said[-1] if said else None) if asked else {},
        answers=len(answers) if lab.folders else sum(map(len, answers)),
        decoys=labs.taken(lab, causes),
        **reached,
    )
    if not lab.folders or not asked:
        return found
    fitted = _fitted(lab, said)
    answer = [{part: its.get(part, "-") for part in Truth.model_fields} for its, _ in fitted]
    parts = [_parts(*pair) for pair in fitted]
    return replace(
        found,
        answer=_keyed(answer) if said else None,
        right=_keyed(parts),
        named=sum(one["cause"] for one in parts),
        said=len(said),
    )
