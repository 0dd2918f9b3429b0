"""Built-in agents that know the lab: they show that a score of 1 and of 0 can be reached."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from faultlab.agents.session import Session
from faultlab.lab.model import Lab
from faultlab.run.phase import FAULTY, PHASES
from faultlab.score import results


@dataclass(frozen=True)
class BuiltIn:
    """An agent that is given the lab.

    `phases`: those in which it is examined. `times`: how often one lab can be done in a phase.
    """

    id: str
    title: str
    work: Callable[[Session, str, int], None]
    phases: tuple[str, ...] = PHASES
    times: Callable[[Lab, int], int] = lambda _, repeat: repeat

    @property
    def digest(self) -> str:
        """Return the digest of its code."""
        return hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]


def _solve(session: Session, phase: str, _number: int) -> None:
    """Apply the documented fix, and name the truth."""
    truth = dict.fromkeys(session.terms, "none")
    if phase == FAULTY:
        session.apply("fix", session.lab.fix)
        truth = session.lab.truth.model_dump()
    session.diagnose(**truth)


def _cheat(session: Session, _phase: str, number: int) -> None:
    """Apply the n-th cheat of the lab, from 1, and name nothing."""
    session.apply("cheat", session.lab.cheat[number - 1].steps)


ORACLE = BuiltIn("oracle", "Baseline: the documented fix and the true cause", _solve)
CHEATER = BuiltIn(
    results.CHEATER,
    "Baseline: each cheat of the lab, one in each trial",
    _cheat,
    (FAULTY,),
    lambda lab, _: len(lab.cheat),
)
BUILT_IN: Mapping[str, BuiltIn] = {each.id: each for each in (ORACLE, CHEATER)}
