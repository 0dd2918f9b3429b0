"""Margin: the distance of a measure's values from a limit, in their own standard deviations.

A limit that is a multiple of the healthy value is judged as a ratio, so the distance is taken
between logarithms. A value of 0 has no logarithm; then the distance is between the ratios.
"""

import math
import statistics
from collections.abc import Sequence

from faultlab.lab.limits import Bound

Pair = tuple[float, float]  # a value, and the healthy value of the same run

FEW = 2  # values; fewer have no standard deviation


def sigmas(bound: Bound, pairs: Sequence[Pair], *, holds: bool = True) -> float | None:
    """Return the distance of the mean from the limit, positive on the side where it must be.

    `holds`: whether the limit must hold; for a cheat it must not. Returns None for too few values,
    and infinity if the values are exact, without any spread, or if the limit is beyond all numbers;
    below 0 if one of them is on the wrong side.
    """
    if len(pairs) < FEW:
        return None
    right = [bound.holds(value, healthy) is holds for value, healthy in pairs]
    exact = math.inf if all(right) else -math.inf
    values, limit = _scaled(bound, pairs)
    finite = [value for value in values if math.isfinite(value)]
    beyond = len(finite) < len(values)
    if bound.op == "exactly" or len(finite) < FEW or (beyond and not all(right)):
        return exact
    spread = statistics.stdev(finite)
    if spread <= abs(limit) * 1e-12:
        return exact
    apart = statistics.mean(finite) - limit
    upwards = (bound.op == "at least") is holds
    return (apart if upwards else -apart) / spread


def _scaled(bound: Bound, pairs: Sequence[Pair]) -> tuple[list[float], float]:
    """Return the values and the limit on the scale on which they are judged."""
    if not bound.times:
        return [value for value, _ in pairs], bound.limit
    ratios = [value / healthy if 0 < healthy < math.inf else math.nan for value, healthy in pairs]
    if bound.limit <= 0 or any(ratio <= 0 for ratio in ratios):
        return ratios, bound.limit
    return [math.log(ratio) for ratio in ratios], math.log(bound.limit)
