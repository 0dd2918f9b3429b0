"""Comparison: a measured value beside that of a source, or beside the limits of a check."""

import math
from dataclasses import dataclass, field

_HALF = 0.5  # of the source's ratio, at least, because machines and versions differ
_TWICE = 2.0  # times the gap between the limits: the least distance between the phases


@dataclass(frozen=True)
class _Figure:
    """A figure that was measured in a run of a lab."""

    lab: str
    run: str
    what: str
    unit: str

    @property
    def name(self) -> str:
        """Return the figure and its unit, such as `bookings [/s]`."""
        return f"{self.what} [{self.unit}]" if self.unit else self.what


@dataclass(frozen=True)
class Compared(_Figure):
    """A figure of a source, and the same thing measured: faulty, then fixed."""

    origin: tuple[float | None, float | None]
    ours: tuple[float, float]
    holds: bool = field(init=False)  # same direction, and at least half of the source's ratio

    def __post_init__(self) -> None:
        ours = self.our_ratio if self.rises else _ratio(*reversed(self.ours))
        least = 1.0
        if self.origin_ratio is not None:
            least = _HALF * (self.origin_ratio if self.rises else 1 / self.origin_ratio)
        object.__setattr__(self, "holds", ours > 1 and ours >= least)

    @property
    def rises(self) -> bool:
        """Return whether the fix increases the figure in the source."""
        faulty, fixed = self.origin
        return (fixed or 0) > (faulty or 0)

    @property
    def origin_ratio(self) -> float | None:
        """Return fixed to faulty in the source; None if it gives one of them only, or 0."""
        faulty, fixed = self.origin
        return fixed / faulty if faulty and fixed else None

    @property
    def our_ratio(self) -> float:
        """Return fixed to faulty, as measured."""
        return _ratio(*self.ours)


@dataclass(frozen=True)
class Limited(_Figure):
    """A measure of a check: its values in three phases beside its two limits.

    `distance`: between the phases, in gaps; infinite if the limits leave none. `holds`: the phases
    are so far apart that chance does not decide.
    """

    healthy: float
    faulty: float
    fixed: float
    good: str
    bad: str
    gap: float
    distance: float = field(init=False)
    holds: bool = field(init=False)

    def __post_init__(self) -> None:
        apart = min(abs(self.faulty - self.healthy), abs(self.faulty - self.fixed))
        object.__setattr__(self, "distance", apart / self.gap if self.gap else math.inf)
        object.__setattr__(self, "holds", self.distance >= _TWICE)


def _ratio(faulty: float, fixed: float) -> float:
    if fixed == faulty:
        return 1.0
    return fixed / faulty if faulty else math.inf
