"""Rotation: which slow parts of the proof a quick run takes, so that ten commits take them all.

A quick walk of a lab takes its first cheat and then its fix, on one stack. Alternatives, other
cheats, further orders of a fix, the late look at a healthy stack and the slow tests of the system
take turns: the number of the commit says which are next.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

from faultlab.core import paths
from faultlab.core.command import run
from faultlab.core.errors import CannotRun
from faultlab.lab import load as labs
from faultlab.lab.model import Lab

EVERY = 10  # commits
QUICK = "FAULTLAB_QUICK"  # set in the environment of a quick run

T = TypeVar("T")


@dataclass(frozen=True)
class Remedies:
    """The alternatives and cheats of a walk, counted from 1, each on a fresh stack.

    `orders`: in which the faults of a lab that has several are fixed, on a fresh stack each.
    `before_fix`: one more cheat, which is tried before the fix on the same stack, as learners do.
    `late`: the walk ends with a look at a healthy stack.
    """

    alternatives: list[int]
    cheats: list[int]
    orders: list[list[int]]
    before_fix: int | None = None
    late: bool = False

    @property
    def all_cheats(self) -> list[int]:
        """Return the numbers of all cheats that the walk takes."""
        return [*([self.before_fix] if self.before_fix else []), *self.cheats]


@cache
def commit() -> int:
    """Return how many commits there are up to this one; 0 outside a git checkout."""
    try:
        done = run(["git", "-C", str(paths.root()), "rev-list", "--count", "HEAD"], timeout=10)
    except CannotRun:
        return 0
    return int(done.stdout) if done.returncode == 0 else 0


def quick() -> bool:
    """Tell whether this run takes only what is next."""
    return bool(os.environ.get(QUICK))


def next_of(things: Sequence[T], number: int, every: int = EVERY) -> list[T]:
    """Return those of the things that are next at a commit: each one once in `every` commits."""
    return [thing for i, thing in enumerate(things) if (i + number) % every == 0]


def shared_out(minutes: Sequence[float], every: int = EVERY) -> list[int]:
    """Return for each thing, by the minutes it takes, the run of `every` that takes it, from 0.

    The longest are dealt first, each to the run that has least to do, so that all take about as
    long.
    """
    load = [0.0] * every
    found = [0] * len(minutes)
    for i in sorted(range(len(minutes)), key=lambda i: -minutes[i]):
        found[i] = load.index(min(load))
        load[found[i]] += minutes[i]
    return found


def remedies(lab: Lab) -> Remedies:
    """Return what a walk takes beside the fix: all, or if quick one cheat and what is next."""
    alternatives = list(range(1, len(lab.alternative) + 1))
    cheats = list(range(1, len(lab.cheat) + 1))
    if not quick():
        return Remedies(alternatives, cheats, lab.orders, late=True)
    # Three apart: the remedies of one lab, and those of its neighbours, have other commits.
    number = commit() + 3 * labs.ids().index(lab.id)
    both = [*alternatives, *(-cheat for cheat in cheats)]
    chosen, one = next_of(both, number), cheats[0]  # the fix need not undo the others
    # The cheat of a control breaks something, and there is no fix that could follow it.
    fresh = lab.control or _half_of_the_fix(lab, one)
    return Remedies(
        alternatives=[a for a in alternatives if a in chosen],
        cheats=[c for c in cheats if (fresh if c == one else -c in chosen)],
        orders=[lab.orders[number % len(lab.orders)]] if lab.orders else [],
        before_fix=None if fresh else one,
        late=number % EVERY == 1,
    )


def _half_of_the_fix(lab: Lab, number: int) -> bool:
    """Tell whether a cheat types what the fix types too, and cannot be typed twice."""
    typed = {step.run for step in lab.cheat[number - 1].steps if step.run}
    return bool(typed & {step.run for step in lab.fix})
