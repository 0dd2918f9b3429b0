"""latent: the sysctl is far too small, and no socket has it: the queues are as long as before."""

from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.check import Check, Measure
from faultlab.lab.limits import at_least_times, at_most, at_most_times
from faultlab.probes import ab


@dataclass(frozen=True)
class Look:
    """Four hundred visitors at a time, each with a connection of its own."""

    visits: ab.Visits


@dataclass(frozen=True)
class Watch:
    """A control has no traces to look for."""


def look(at: Stack) -> Look:
    """The visitors who meet a short accept queue at once."""
    return Look(ab.visits(at["client"], "http://web/", visitors=400, seconds=at.pace.seconds(2)))


def watch(at: Stack) -> Watch:
    """Nothing to read."""
    return Watch()


CHECK = Check(
    look=look,
    watch=watch,
    symptom=(
        Measure(
            "slowest 1% of visits, mean",
            lambda r: r.visits.slowest_percent,
            at_most_times(2.5),
            unit="s",
        ),
        Measure(
            "visits over half a second",
            lambda r: 100 * r.visits.slow_share,
            at_most(0.05),
            unit="%",
        ),
        Measure("good visits", lambda r: r.visits.good_per_second, at_least_times(0.5), unit="/s"),
    ),
    evidence=(),
)
