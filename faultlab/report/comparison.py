"""Comparison: a measured value beside that of a document, or beside the limits of a check."""

import math
from dataclasses import dataclass, field

_HALF = 0.5  # of the ratio of origin, at least: machines and versions differ
_TWICE = 2.0  # the distance between the phases, in gaps between the limits, at least


@dataclass(frozen=True)
class _Figure:
    """Something measured in a run of a lab."""

    lab: str
    run: str
    what: str
    unit: str

    @property
    def name(self) -> str:
        """The figure and its unit: `bookings [/s]`."""
        return f"{self.what} [{self.unit}]" if self.unit else self.what


@dataclass(frozen=True)
class Compared(_Figure):
    """A figure of a document of origin, and the same thing measured: faulty, then fixed."""

    origin: tuple[float | None, float | None]
    ours: tuple[float, float]
    holds: bool = field(init=False)  # the direction is the same, the ratio at least half of theirs

    def __post_init__(self) -> None:
        ours = self.our_ratio if self.rises else _ratio(*reversed(self.ours))
        least = 1.0
        if self.origin_ratio is not None:
            least = _HALF * (self.origin_ratio if self.rises else 1 / self.origin_ratio)
        object.__setattr__(self, "holds", ours > 1 and ours >= least)

    @property
    def rises(self) -> bool:
        """True when the fix makes it more in the document."""
        faulty, fixed = self.origin
        return (fixed or 0) > (faulty or 0)

    @property
    def origin_ratio(self) -> float | None:
        """Fixed to faulty in the document; None where it gives one of them only, or 0."""
        faulty, fixed = self.origin
        return fixed / faulty if faulty and fixed else None

    @property
    def our_ratio(self) -> float:
        """Fixed to faulty, as measured."""
        return _ratio(*self.ours)


@dataclass(frozen=True)
class Limited(_Figure):
    """A measure of a check: its values in three phases beside its two limits.

    `distance`: between the phases, in gaps; infinite where the limits leave none. `holds`: they are
    far enough apart for chance not to decide.
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
