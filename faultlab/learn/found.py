"""Found: a finding of a check as a learner sees it."""

from collections.abc import Iterable
from dataclasses import dataclass

from faultlab.lab.finding import Finding


@dataclass(frozen=True)
class Found:
    """A finding, with what a learner can see of it."""

    name: str
    value: float
    unit: str
    wanted: str
    holds: bool
    says: str


def rows(found: Iterable[Finding]) -> list[Found]:
    """Return these findings as a learner sees them."""
    return [Found(f.name, f.value, f.unit, f.wanted, f.holds, f.says) for f in found]
