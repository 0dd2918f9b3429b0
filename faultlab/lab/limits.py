"""Limits: the bound of a value, as a number or as a multiple of the value in the healthy phase."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Literal

from faultlab.core.text import number


@dataclass(frozen=True)
class Bound:
    """A limit: a number, or with `times` a multiple of the value in the healthy phase."""

    op: Literal["at least", "at most", "exactly"]
    limit: float
    times: bool = False

    def threshold(self, healthy: float) -> float:
        """Return the limit as a number."""
        return self.limit * healthy if self.times else self.limit

    def holds(self, value: float, healthy: float) -> bool:
        """Return whether the value is within the limit. A ratio to 0 never holds."""
        if self.times and not 0 < healthy < math.inf:
            return False
        threshold = self.threshold(healthy)
        match self.op:
            case "at least":
                return value >= threshold
            case "at most":
                return value <= threshold
        return value == threshold

    def is_far(self, value: float, healthy: float) -> bool:
        """Return whether a value is so far beyond the limit that no second look would differ."""
        threshold = self.threshold(healthy)
        match self.op:
            case "at least":
                return value < threshold / 2
            case "at most":
                return value > threshold * 2
        return value != threshold

    def words(self, healthy: float, unit: str) -> str:
        """Return a text such as `at least 0.19 s (5 x healthy)`."""
        ratio = f" ({self.limit:g} x healthy)" if self.times else ""
        return f"{self.op} {number(self.threshold(healthy), unit)}{ratio}"


at_least = partial(Bound, "at least")  # this value or more
at_most = partial(Bound, "at most")  # this value or less
exactly = partial(Bound, "exactly")  # this value only, such as an exit code
at_least_times = partial(Bound, "at least", times=True)  # at least N times the healthy value
at_most_times = partial(Bound, "at most", times=True)  # at most N times the healthy value
