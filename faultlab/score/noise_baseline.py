"""Noise baseline: what a tool alarms about: the machine, the stack, its load, or the lab.

An alarm is known by its signals: its lines without numbers. It is about the *machine* if all of
them also came on the empty host, about the *stack* if they came on the idle one, and about the
*load* otherwise. It is about the *lab* if a signal is new against the healthy look of its number.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from faultlab.core.statistics import Share, median
from faultlab.run.phase import HEALTHY
from faultlab.score import metrics
from faultlab.score.results import ALONE, Results, Trial
from faultlab.score.setups import EMPTY, IDLE

About = Literal["machine", "stack", "load", "lab"]
ABOUT: tuple[About, ...] = get_args(About)

Pairs = Mapping[tuple[str, int], Trial]  # the healthy trials of a tool, by lab and number


@dataclass(frozen=True)
class Floor:
    """The alarms of one tool where nothing is wrong, and what its alarms in labs are about.

    `empty`, `idle`, `load`: alarms on the empty host, on the idle stack, and in healthy looks.
    `false`, `caught`: alarms without and with the fault, by what they are about, as far as there
    is a healthy look to compare with. `new`: faulty looks with an alarm about the lab; `new_false`:
    the same of looks at a fixed lab or a control.
    """

    tool: str
    empty: Share
    idle: Share
    load: Share
    false: dict[About, int]
    caught: dict[About, int]
    new: Share
    new_false: Share


@dataclass(frozen=True)
class Cost:
    """The cost of one look of a tool. None if it is unknown.

    `cpu`: CPU seconds, and `seconds`: those of the whole trial (medians). `memory`: the largest
    peak of a container in bytes. `slowdown`: how many times as slow the lab was while the tool
    looked, without its fault (median of `looks`).
    """

    tool: str
    cpu: float | None
    memory: int | None
    seconds: float | None
    slowdown: float | None
    looks: int


def floors(results: Results) -> list[Floor]:
    """Return the floors of each tool that looked alone."""
    alone = results.only(lambda t: t.way == ALONE and t.agent is None and t.kind == "diagnosis")
    by_tool = metrics.grouped(alone.trials.values(), lambda trial: trial.tool)
    return [_floor(tool, trials) for tool, trials in by_tool.items()]


def _floor(tool: str, trials: Sequence[Trial]) -> Floor:
    empty = [t for t in trials if t.phase == EMPTY]
    idle = [t for t in trials if t.phase == IDLE]
    rest = [t for t in trials if t.phase not in (EMPTY, IDLE)]
    pairs = {(t.lab, t.number): t for t in rest if t.phase == HEALTHY}
    paired = [t for t in rest if t.phase != HEALTHY and (t.lab, t.number) in pairs]
    known = [t for t in [*pairs.values(), *paired] if t.alarm]
    kinds = {t.key: about(t, pairs, _signals(empty), _signals(idle)) for t in known}
    new = {key for key, kind in kinds.items() if kind == "lab"}

    def count(ill: bool) -> dict[About, int]:
        its = [kinds.get(t.key) for t in rest if metrics.has_fault(t) == ill]
        return {kind: its.count(kind) for kind in ABOUT}

    def fresh(ill: bool) -> Share:
        its = [t.key in new for t in paired if metrics.has_fault(t) == ill]
        return Share(len(its), sum(its))

    return Floor(
        *(tool, metrics.alarms(empty), metrics.alarms(idle), metrics.alarms([*pairs.values()])),
        *(count(False), count(True), fresh(True), fresh(False)),
    )


def about(trial: Trial, pairs: Pairs, empty: set[str], idle: set[str]) -> About:
    """Return what the alarm of a trial is about."""
    signals = _signals([trial])
    healthy = pairs[trial.lab, trial.number]
    if trial.phase != HEALTHY and not (healthy.alarm and signals <= _signals([healthy])):
        return "lab"
    if signals <= empty:
        return "machine"
    return "stack" if signals <= empty | idle else "load"


def _signals(trials: Sequence[Trial]) -> set[str]:
    return {signal for t in trials if t.diagnosis for signal in t.diagnosis.signals}


def costs(results: Results) -> list[Cost]:
    """Return what a look of each tool costs that looked alone."""
    alone = metrics.of_way(results, ALONE).only(lambda t: t.kind != "absent")
    by_tool = metrics.grouped(alone.trials.values(), lambda trial: trial.tool)
    return [_cost(tool, trials) for tool, trials in by_tool.items()]


def _cost(tool: str, trials: Sequence[Trial]) -> Cost:
    well = [t.effect.slowdown for t in trials if t.effect and not metrics.has_fault(t)]
    slow = [each for each in well if each is not None]
    return Cost(
        tool,
        median([t.cpu for t in trials if t.cpu is not None]),
        max((t.memory for t in trials if t.memory is not None), default=None),
        median([t.took for t in trials if t.took is not None]),
        median(slow),
        len(slow),
    )
