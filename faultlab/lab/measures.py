"""Measures: the kinds of measures and evidence that many labs use.

`of` is where the value is in a look or an inspection: a path (`load.p50`) or a function. `good` is
the limit without the fault and `bad` the limit with it. A control has no `bad`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from faultlab.lab.check import Evidence, Measure
from faultlab.lab.limits import Bound, at_least, at_least_times, at_most, at_most_times

Source = str | Callable[[Any], float]


def rate(
    name: str, of: Source, *, good: float, bad: float | None = None, fault: str = ""
) -> Measure[Any]:
    """Return a measure of successes per second: at least `good` times the healthy rate.

    With the fault there are at most `bad` times the healthy rate.
    """
    limit = None if bad is None else at_most_times(bad)
    return Measure(name, of, at_least_times(good), limit, "/s", fault)


def delay(
    name: str,
    of: Source,
    *,
    good: float,
    bad: float | None = None,
    unit: str = "s",
    fault: str = "",
) -> Measure[Any]:
    """Return a measure of a time: at most `good` or at least `bad` times the healthy one."""
    limit = None if bad is None else at_least_times(bad)
    return Measure(name, of, at_most_times(good), limit, unit, fault)


def share(
    name: str, of: Source, *, good: float, bad: float | None = None, fault: str = ""
) -> Measure[Any]:
    """Return a measure of a share (0 to 1) in percent: at most `good`, or at least `bad`."""
    limit = None if bad is None else at_least(bad)
    return Measure(name, _percent(_reader(of)), at_most(good), limit, "%", fault)


def steady(name: str, of: Source, limit: Bound, unit: str = "") -> Measure[Any]:
    """Return a measure that is the same with the fault and without it."""
    return Measure(name, of, limit, limit, unit)


def failing(name: str, of: Source = "load.failed_share") -> Measure[Any]:
    """Return a steady measure: at most 1% of these fail. `of` is their share, 0 to 1."""
    return steady(f"{name} that fail", _percent(_reader(of)), at_most(1), "%")


def kept() -> Measure[Any]:
    """Return a steady measure: confirmed bookings are in the book, except a few at a load's end."""
    return steady("orders in the book for each one confirmed", "kept", at_least(0.98)).says(
        "Bookings are in the book.", "Some confirmed bookings are not in the book."
    )


def made() -> Measure[Any]:
    """Return a steady measure: PHP-FPM has worked on the pages that came. `made`: its share."""
    return steady("pages that PHP made", _percent(_reader("made")), at_least(90), "%").says(
        "The pages come from PHP.", "The pages do not come from the pool www of PHP."
    )


def grows(name: str, of: Source, fires: Bound, unit: str = "", *, fault: str = "") -> Evidence[Any]:
    """Return evidence: the growth of a counter while the symptom was measured."""
    read = _reader(of)
    return Evidence(
        name, lambda before, after: read(after) - read(before), fires, unit=unit, fault=fault
    )


def grows_per(name: str, of: Source, each: Source, fires: Bound) -> Evidence[Any]:
    """Return evidence: the growth of a counter in percent of the growth of another one."""
    one, other = _reader(of), _reader(each)

    def percent(before: Any, after: Any) -> float:
        return 100 * (one(after) - one(before)) / max(1, other(after) - other(before))

    return Evidence(name, percent, fires, unit="%")


def ends(name: str, of: Source, fires: Bound, unit: str = "", *, fault: str = "") -> Evidence[Any]:
    """Return evidence: a value at the end of the measurement of the symptom."""
    read = _reader(of)
    return Evidence(name, lambda _before, after: read(after), fires, unit=unit, fault=fault)


@dataclass(frozen=True)
class Nothing:
    """The inspection of a control, which has no evidence."""


def inspect_nothing(_stack: Any) -> Nothing:
    """Inspect nothing; this is the `inspect` of a control."""
    return Nothing()


def _reader(of: Source) -> Callable[[Any], float]:
    return attrgetter(of) if isinstance(of, str) else of


def _percent(read: Callable[[Any], float]) -> Callable[[Any], float]:
    return lambda thing: 100 * read(thing)
