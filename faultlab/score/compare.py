"""Compare: which tool is better than which, by the looks that both of them had.

A tool is better than another if it is right more often, in faulty looks or in the others, and on
the other side not worse. "More often" means: McNemar's exact test says so (5%), and the intervals
of the two shares do not overlap.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from faultlab.core.statistics import Share, mcnemar
from faultlab.score import figures
from faultlab.score.results import Results, Trial

_ERROR = 0.05

On = Literal["faults", "healthy"]
Look = tuple[str, str, int]


@dataclass(frozen=True)
class Better:
    """A tool that is better than another. `won`: the looks in which only the better was right.

    `lost`: those in which only the other was. `of`: the looks that both had.
    """

    better: str
    worse: str
    on: On
    of: int
    won: int
    lost: int
    p: float


def better(results: Results, order: Sequence[str]) -> list[Better]:
    """Return who is better than whom. `order`: the tools, the best informed first."""
    by_tool = figures.grouped(results.trials.values(), lambda trial: trial.tool)
    right = {tool: _right(trials) for tool, trials in by_tool.items()}
    pairs = combinations([tool for tool in order if tool in right], 2)
    return [each for one, other in pairs for each in _pair(one, other, right)]


def groups(order: Iterable[str], found: Sequence[Better]) -> dict[str, int]:
    """Return the group of each tool: 1, or one more than the last group with a better tool."""
    ranks: dict[str, int] = {}
    for tool in order:
        above = [ranks[each.better] for each in found if each.worse == tool]
        ranks[tool] = 1 + max(above, default=0)
    return ranks


def _right(trials: Iterable[Trial]) -> dict[On, dict[Look, bool]]:
    """Return in which looks a tool was right, on faults and without."""
    found: dict[On, dict[Look, bool]] = {"faults": {}, "healthy": {}}
    for trial in trials:
        if trial.kind == "diagnosis":
            ill = figures.ill(trial)
            side = found["faults" if ill else "healthy"]
            side[trial.lab, trial.phase, trial.number] = trial.alarm == ill
    return found


def _pair(
    one: str, other: str, right: Mapping[str, Mapping[On, Mapping[Look, bool]]]
) -> Iterator[Better]:
    """Yield on which sides the one is better than the other; nothing if it is worse on a side."""
    found = []
    for side in right[one]:
        mine, its = right[one][side], right[other][side]
        both = mine.keys() & its.keys()
        won = sum(mine[look] and not its[look] for look in both)
        lost = sum(its[look] and not mine[look] for look in both)
        p = mcnemar(won, lost)
        if p >= _ERROR:
            continue
        if lost > won:
            return
        of = len(both)
        low, _ = Share(of, sum(mine[look] for look in both)).interval
        _, high = Share(of, sum(its[look] for look in both)).interval
        if low > high:
            found.append(Better(one, other, side, of, won, lost, p))
    yield from found
