"""Agent metrics: what they repaired, what they named, and what that took, from their trials."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import comb
from statistics import fmean
from typing import Literal

from faultlab.core.statistics import Share, median
from faultlab.lab import loader as labs
from faultlab.lab.model import Lab
from faultlab.score import baselines, metrics, results
from faultlab.score.diagnosis import Diagnosis
from faultlab.score.metrics import Cell
from faultlab.score.results import TICKET, AgentTrial, Results, Trial

LEGEND = "R repaired every time   r repaired now and then"

Counted = Literal["commands", "seconds", "tokens", "cost"]


@dataclass(frozen=True)
class Again:
    """`tries` at each lab's fault: the percent of labs that one of them repairs, and that all do.

    Both are means over labs, estimated from all trials (pass@k of Chen et al., 2021, and pass^k).
    """

    tries: int
    one: float
    all: float


@dataclass(frozen=True)
class AgentRow:
    """One agent. Shares are of its looks at a fault, `false` of the other ones.

    `repaired`: the lab's check said yes. `cause`, `component`: it named them. `commands`,
    `seconds`, `tokens`, `cost`: medians of a look; None if its harness does not know them.
    `errors`: looks that ended with an error of ours. `aborted`: of the looks with a result, those
    in which it ended a machine, and repaired nothing so. `lost`: of all, those with our errors.
    `unserved`: of the visits of the users while it worked at a fault, those that were not served;
    `harmed`: the same where nothing was wrong. `again`: what more tries at a lab give. `models`:
    those that have answered it, as it says. `ticket_cause`, `ticket_component`: named by the same
    agent when it had the ticket alone, of labs with a fault.
    """

    tool: str
    repaired: Share
    cause: Share
    component: Share
    false: Share
    commands: float | None
    seconds: float | None
    tokens: float | None
    cost: float | None
    errors: int
    aborted: Share
    lost: Share
    unserved: Share
    harmed: Share
    again: list[Again]
    models: list[str]
    ticket_cause: Share
    ticket_component: Share


def rows(kept: Results) -> list[AgentRow]:
    """Return a row for each agent, and then for the guesses in the same looks."""
    agents = kept.only(lambda trial: trial.agent is not None and kept.current(trial))
    found = []
    # A cheater makes a look for each cheat, and these are no looks of the others.
    looks = _looks(agents).only(lambda trial: trial.tool != results.CHEATER)
    for some in (agents, baselines.guesses(looks)):
        by_tool = metrics.grouped(some.trials.values(), lambda trial: trial.tool)
        found += [_row(tool, trials) for tool, trials in sorted(by_tool.items())]
    return found


def grid(kept: Results) -> tuple[list[str], dict[str, list[str]]]:
    """Return the agents, and for each lab the letters of each agent: `R` if it repaired it."""
    looks = _looks(kept)
    names = sorted({trial.tool for trial in looks.trials.values()})
    repaired = Counter(
        (trial.tool, trial.lab, trial.agent["repaired"])
        for trial in looks.trials.values()
        if trial.agent and metrics.has_fault(trial)
    )

    def letters(cell: Cell) -> str:
        yes, no = (repaired[cell.tool, cell.lab, each] for each in (True, False))
        mark = "" if not yes else "r" if no else "R"
        return (mark + cell.letters).strip()

    return names, {
        lab: [letters(its[name]) if name in its else "" for name in names]
        for lab, its in metrics.cells(looks).items()
    }


def _looks(kept: Results) -> Results:
    """Return the trials of agents as they are today, each on a stack."""
    return kept.only(lambda t: t.agent is not None and kept.current(t) and t.phase != TICKET)


def _row(tool: str, every: Sequence[Trial]) -> AgentRow:
    trials = [t for t in every if t.phase != TICKET]
    alone = [(labs.loaded(t.lab), t.diagnosis) for t in every if t.phase == TICKET and t.diagnosis]
    told = [t for t in trials if t.kind == "diagnosis"]
    ill = [(labs.loaded(t.lab), t.diagnosis) for t in told if t.diagnosis and metrics.has_fault(t)]
    well = [t.alarm for t in told if not metrics.has_fault(t)]
    facts = [t.agent for t in told if t.agent]
    visits = [(t.agent, metrics.has_fault(t)) for t in told if t.agent]
    tried = [t.agent["repaired"] for t in told if t.agent and metrics.has_fault(t)]
    known = [bool(each) for each in tried if each is not None]
    return AgentRow(
        tool,
        repaired=Share(len(known), sum(known)),
        cause=Share(len(ill), sum(metrics.names_cause(lab, said) for lab, said in ill)),
        component=Share(len(ill), sum(metrics.names_component(lab, said) for lab, said in ill)),
        false=Share(len(well), sum(well)),
        commands=_median(facts, "commands"),
        seconds=_median(facts, "seconds"),
        tokens=_median(facts, "tokens"),
        cost=_median(facts, "cost"),
        errors=(errors := sum(t.kind == "unknown" for t in trials)),
        aborted=Share(len(facts), sum(bool(each.get("aborted")) for each in facts)),
        lost=Share(len(trials) if facts or errors else 0, errors),
        unserved=_lost(its for its, fault in visits if fault),
        harmed=_lost(its for its, fault in visits if not fault),
        again=[] if tool == results.CHEATER else _again(told),
        models=sorted({its["model"] for its in facts if "model" in its}),
        ticket_cause=Share(len(alone), sum(_named(metrics.names_cause, alone))),
        ticket_component=Share(len(alone), sum(_named(metrics.names_component, alone))),
    )


def _named(
    right: Callable[[Lab, Diagnosis], bool], said: Sequence[tuple[Lab, Diagnosis]]
) -> list[bool]:
    """Return for each diagnosis whether it is right; one that names nothing is not."""
    return [each.alarm and right(lab, each) for lab, each in said]


def _lost(facts: Iterable[AgentTrial]) -> Share:
    counted = [(its.get("visits", 0), its.get("visits_lost", 0)) for its in facts]
    return Share(sum(of for of, _ in counted), sum(lost for _, lost in counted))


def _again(told: Sequence[Trial]) -> list[Again]:
    """Return what 1, 2, … tries give, up to as many as each lab had."""
    tries = {
        lab: [bool(t.agent["repaired"]) for t in its if t.agent and t.agent["repaired"] is not None]
        for lab, its in metrics.grouped(filter(metrics.has_fault, told), lambda t: t.lab).items()
    }
    known = [(len(each), sum(each)) for each in tries.values() if each]
    found = []
    for k in range(1, min((n for n, _ in known), default=0) + 1):
        one = [1 - comb(n - right, k) / comb(n, k) for n, right in known]
        every = [comb(right, k) / comb(n, k) for n, right in known]
        found.append(Again(k, round(100 * fmean(one), 1), round(100 * fmean(every), 1)))
    return found


def _median(facts: Sequence[AgentTrial], key: Counted) -> float | None:
    return median([value for each in facts if (value := each.get(key)) is not None])
