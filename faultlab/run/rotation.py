"""Rotation: the slow parts of the proof that a quick run takes; ten commits take all of them.

A quick walk of a lab takes its first cheat and then its fix, on one stack. Alternatives, other
cheats, each of several faults, the late look at a healthy stack and the slow tests of the system
take turns. The number of the commit decides which are next. In `make test` the labs take turns too,
and a lab that has its turn more rarely takes more of its remedies then.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from faultlab.core import git
from faultlab.lab.model import Lab

EVERY = 10  # commits
# An environment variable, set in a quick run: the commits within which each lab has its turn, and
# the labs that have it more often, as in `5 conntrack=2`.
QUICK = "FAULTLAB_QUICK"

T = TypeVar("T")


@dataclass(frozen=True)
class Remedies:
    """The alternatives and cheats of a walk, counted from 1, each on a fresh stack.

    `left`: those of several faults that are proven alone, after the others were fixed.
    `before_fix`: one more cheat, tried before the fix on the same stack, as learners do. `late`:
    the last fresh stack is measured before its fault.
    """

    alternatives: list[int]
    cheats: list[int]
    left: list[str]
    before_fix: int | None = None
    late: bool = False

    @property
    def all_cheats(self) -> list[int]:
        """Return the numbers of all cheats that the walk takes."""
        return [*([self.before_fix] if self.before_fix else []), *self.cheats]


def quick() -> bool:
    """Return whether this run takes only the parts whose turn it is."""
    return bool(os.environ.get(QUICK))


def turns(lab_id: str = "") -> int:
    """Return the number of commits within which a quick run walks a lab once; it divides ten."""
    usual, *others = os.environ.get(QUICK, "").split() or ["1"]
    return int(dict(other.split("=") for other in others).get(lab_id, usual))


def next_of(things: Sequence[T], number: int, every: int = EVERY) -> list[T]:
    """Return the things whose turn it is at a commit: each one once in `every` commits."""
    return [thing for i, thing in enumerate(things) if (i + number) % every == 0]


def remedies(lab: Lab) -> Remedies:
    """Return what a walk takes in addition to the fix; if quick, one cheat and what is next.

    Nothing at a severity that is not the main one: the same remedies were tried there.
    """
    if not lab.main:
        return Remedies([], [], [])
    alternatives = list(range(1, len(lab.alternative) + 1))
    cheats = list(range(1, len(lab.cheat) + 1))
    faults = [fault.id for fault in lab.fault]
    if not quick():
        return Remedies(alternatives, cheats, faults, late=True)
    # Three apart, so that a lab's remedies and those of its neighbours come at different commits.
    often = turns(lab.id)
    number, every = (
        git.commits() // often
        + 3 * lab.collection.ids().index(lab.collection.id_of(lab.folder.name)),
        EVERY // often,
    )
    both = [*alternatives, *(-cheat for cheat in cheats)]
    chosen, one = next_of(both, number, every), cheats[0]  # the fix need not undo the other cheats
    # The cheat of a control breaks something, and no fix can follow it.
    fresh = lab.control or _half_of_the_fix(lab, one)
    return Remedies(
        alternatives=[a for a in alternatives if a in chosen],
        cheats=[c for c in cheats if (fresh if c == one else -c in chosen)],
        left=next_of(faults, number, every) or faults[:1],
        before_fix=None if fresh else one,
        late=both[-1] in chosen,
    )


def _half_of_the_fix(lab: Lab, number: int) -> bool:
    """Return whether a cheat shares a command with the fix that cannot be typed twice."""
    typed = {step.run for step in lab.cheat[number - 1].steps if step.run}
    return bool(typed & {step.run for step in lab.fix})
