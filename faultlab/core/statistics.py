"""Statistics: medians; how often something happened, and the interval of the true rate.

And of people: how well they tell two things apart, and how well they know how sure they can be.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

_SURE = 0.95


def median(values: Sequence[float]) -> float | None:
    """Return the median of these values; None without a value."""
    return statistics.median(values) if values else None


def wilson(happened: int, of: int) -> tuple[float, float]:
    """Return the interval of a rate at 95% (Wilson, 1927); 0 to 1 if `of` is 0."""
    if of == 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf((1 + _SURE) / 2)
    share, weight = happened / of, 1 + z * z / of
    middle = (share + z * z / (2 * of)) / weight
    half = z * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of)) / weight
    return max(0.0, middle - half), min(1.0, middle + half)


def mcnemar(won: int, lost: int) -> float:
    """Return the p-value of McNemar's exact test, two-sided, for pairs that differ.

    `won`, `lost`: how often only the one was right, and only the other.
    """
    pairs, fewer = won + lost, min(won, lost)
    tail = sum(math.comb(pairs, k) for k in range(fewer + 1))
    return min(1.0, float(2 * tail / 2**pairs))


@dataclass(frozen=True)
class Sensitivity:
    """How well two things are told apart: d', and its interval of 95%. 0 is guessing."""

    d: float
    low: float
    high: float


def sensitivity(hits: int, signals: int, false_alarms: int, noises: int) -> Sensitivity | None:
    """Return d' of so many hits and false alarms; None if one of the two never came.

    d' is z(hits) - z(false alarms). Each rate is taken as (count + 0.5) / (total + 1), so that
    eight right answers of eight stay finite (Hautus, 1995). The interval is that of Gourevitch and
    Galanter (1967). With eight draws it holds a true d' up to 3 in 94% of exams or more.
    """
    if not (signals and noises):
        return None
    normal, found, variance = NormalDist(), [], 0.0
    for count, total in ((hits, signals), (false_alarms, noises)):
        rate = (count + 0.5) / (total + 1)
        found.append(normal.inv_cdf(rate))
        variance += rate * (1 - rate) / (total * normal.pdf(found[-1]) ** 2)
    d = found[0] - found[1]
    half = normal.inv_cdf((1 + _SURE) / 2) * math.sqrt(variance)
    return Sensitivity(d, d - half, d + half)


def brier(said: Sequence[tuple[float, bool]]) -> float | None:
    """Return the mean squared error of certainties from 0 to 1; None without one (Brier, 1950).

    Each has whether its answer was right. 0 is best, and 0.25 is what 0.5 always gives.
    """
    return statistics.fmean((sure - right) ** 2 for sure, right in said) if said else None


@dataclass(frozen=True)
class Share:
    """A count out of a total, with its interval of 95% (Wilson)."""

    of: int
    happened: int

    @property
    def percent(self) -> float | None:
        """Return the share in percent; None if the total is 0."""
        return 100 * self.happened / self.of if self.of else None

    @property
    def interval(self) -> tuple[float, float]:
        """Return the interval in percent."""
        low, high = wilson(self.happened, self.of)
        return 100 * low, 100 * high

    @property
    def text(self) -> str:
        """Return a text such as `12 of 57, 21% (13 to 33)`."""
        if self.percent is None:
            return "-"
        low, high = self.interval
        return f"{self.happened} of {self.of}, {self.percent:.0f}% ({low:.0f} to {high:.0f})"
