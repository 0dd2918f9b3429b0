"""Trend: how fast a figure grows, by least squares, with the interval of the true growth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist

_SURE = 0.95
Point = tuple[float, float]  # hours, and the figure then


@dataclass(frozen=True)
class Slope:
    """The growth for each hour, and its interval of 95%."""

    per_hour: float
    low: float
    high: float
    samples: int
    lives: int

    @property
    def text(self) -> str:
        """Return a text such as `+0.12 (-0.05 to +0.29)`."""
        return f"{self.per_hour:+.2f} ({self.low:+.2f} to {self.high:+.2f})"


def slope(lives: Sequence[Sequence[Point]]) -> Slope | None:
    """Return the common slope of the lives of a process; None if there are too few samples.

    Each life has a level of its own, because a process that begins anew has other memory. What is
    left over in two samples that follow each other is alike, so that many samples say as much as
    fewer independent ones. The interval has their number: n (1 - r) / (1 + r), where r is the
    correlation of neighbours (Santer and others, 2000, doi:10.1029/1999JD901105).
    """
    kept = [life for life in lives if len(life) > 1]
    n = sum(map(len, kept))
    if n - len(kept) < 3:
        return None
    middles = [
        (sum(t for t, _ in life) / len(life), sum(y for _, y in life) / len(life)) for life in kept
    ]
    pairs = list(zip(kept, middles, strict=True))
    spread = sum((t - mt) ** 2 for life, (mt, _) in pairs for t, _ in life)
    if spread == 0:
        return None
    rise = sum((t - mt) * (y - my) for life, (mt, my) in pairs for t, y in life) / spread
    rests = [[y - my - rise * (t - mt) for t, y in life] for life, (mt, my) in pairs]
    squares = sum(rest**2 for life in rests for rest in life)
    alike = _alike(rests)
    fewer = max(3.0 + len(kept), n * (1 - alike) / (1 + alike))
    free = fewer - len(kept) - 1
    half = student(free) * math.sqrt(squares / free / spread)
    return Slope(rise, rise - half, rise + half, n, len(kept))


def _alike(rests: Sequence[Sequence[float]]) -> float:
    """Return the correlation of neighbours, at least 0: below it the interval would shrink."""
    whole = sum(rest**2 for life in rests for rest in life)
    both = sum(a * b for life in rests for a, b in pairwise(life))
    return min(0.99, max(0.0, both / whole)) if whole else 0.0


def student(free: float) -> float:
    """Return the two-sided quantile of Student's t at 95% for so many degrees of freedom.

    By the expansion of Cornish and Fisher around the normal quantile (Abramowitz and Stegun,
    26.7.5); from 3 degrees on it is right to 1%.
    """
    z = NormalDist().inv_cdf((1 + _SURE) / 2)
    return (
        z
        + (z**3 + z) / (4 * free)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * free**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * free**3)
        + (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / (92160 * free**4)
    )
