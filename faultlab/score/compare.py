"""Compare: which tool is better than which, by the labs that both of them looked at.

A tool is better than another if it is right more often on more labs, in faulty looks or in the
others, and on the other side not worse. "More" means: McNemar's exact test says so (5%), and the
intervals of the two shares do not overlap. Each lab counts once, because a tool says nearly always
the same about it again: a repeat is no independent look.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from faultlab.core.statistics import Share, mcnemar
from faultlab.score import metrics
from faultlab.score.results import Results, Trial

_ERROR = 0.05
_MOST = 0.5  # a tool is right on a lab if it is right in more than half of its looks

On = Literal["faults", "healthy"]
Where = tuple[str, str, int]


@dataclass(frozen=True)
class Better:
    """A tool that is better than another. `won`: the labs on which the better was right more often.

    `lost`: those on which the other was. `of`: the labs that both looked at.
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
    by_tool = metrics.grouped(results.trials.values(), lambda trial: trial.tool)
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


def _right(trials: Iterable[Trial]) -> dict[On, dict[Where, bool]]:
    """Return in which looks a tool was right, on faults and without."""
    found: dict[On, dict[Where, bool]] = {"faults": {}, "healthy": {}}
    for trial in trials:
        if trial.kind == "diagnosis":
            ill = metrics.has_fault(trial)
            side = found["faults" if ill else "healthy"]
            side[trial.lab, trial.phase, trial.number] = trial.alarm == ill
    return found


def _pair(
    one: str, other: str, right: Mapping[str, Mapping[On, Mapping[Where, bool]]]
) -> Iterator[Better]:
    """Yield on which sides the one is better than the other; nothing if it is worse on a side."""
    found = []
    for side in right[one]:
        mine, its = right[one][side], right[other][side]
        both = mine.keys() & its.keys()
        by_lab = metrics.grouped(both, lambda look: look[0]).values()
        pairs = [(_share(mine, looks), _share(its, looks)) for looks in by_lab]
        won, lost = sum(a > b for a, b in pairs), sum(b > a for a, b in pairs)
        p = mcnemar(won, lost)
        if p >= _ERROR:
            continue
        if lost > won:
            return
        of = len(pairs)
        low, _ = Share(of, sum(a > _MOST for a, _ in pairs)).interval
        _, high = Share(of, sum(b > _MOST for _, b in pairs)).interval
        if low > high:
            found.append(Better(one, other, side, of, won, lost, p))
    yield from found


def _share(right: Mapping[Where, bool], looks: Sequence[Where]) -> float:
    return sum(right[look] for look in looks) / len(looks)
