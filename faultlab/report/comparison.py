"""Comparison: a measured value beside that of a document, or beside the limits of a check."""

from __future__ import annotations

import math
from dataclasses import dataclass

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

    @property
    def holds(self) -> bool:
        """True when the direction is the same and the ratio at least half of the document's."""
        ours = self.our_ratio if self.rises else _ratio(*reversed(self.ours))
        if self.origin_ratio is None:
            return ours > 1
        wanted = self.origin_ratio if self.rises else 1 / self.origin_ratio
        return ours > 1 and ours >= _HALF * wanted


@dataclass(frozen=True)
class Limited(_Figure):
    """A measure of a check: its values in three phases beside its two limits."""

    healthy: float
    faulty: float
    fixed: float
    good: str
    bad: str
    gap: float

    @property
    def distance(self) -> float:
        """The distance between the phases, in gaps; infinite where the limits leave none."""
        apart = min(abs(self.faulty - self.healthy), abs(self.faulty - self.fixed))
        return apart / self.gap if self.gap else math.inf

    @property
    def holds(self) -> bool:
        """True when the phases are far enough apart for chance not to decide."""
        return self.distance >= _TWICE


def _ratio(faulty: float, fixed: float) -> float:
    if fixed == faulty:
        return 1.0
    return fixed / faulty if faulty else math.inf
