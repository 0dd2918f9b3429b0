"""somaxconn: the accept queue of nginx holds ten connections, and the rest has to knock again."""

from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.check import Check, Measure, Sign
from faultlab.lab.limits import at_least, at_least_times, at_most, at_most_times
from faultlab.probes import ab, nstat, ss

OVERFLOWS = "TcpExtListenOverflows"


@dataclass(frozen=True)
class Look:
    """Four hundred visitors at a time, each with a connection of its own."""

    visits: ab.Visits


@dataclass(frozen=True)
class Watch:
    """The accept queues of web."""

    listeners: list[ss.Listener]
    counters: dict[str, int]


def look(at: Stack) -> Look:
    """Two seconds of visitors."""
    return Look(ab.visits(at["client"], "http://web/", visitors=400, seconds=at.pace.seconds(2)))


def watch(at: Stack) -> Watch:
    """Read the limits of the queues, and how often one overflowed."""
    return Watch(ss.listeners(at["web"]), nstat.read(at["web"], [OVERFLOWS]))


STEADY = at_least_times(0.25)  # the throughput hides the fault

CHECK = Check(
    look=look,
    watch=watch,
    symptom=(
        Measure(
            "slowest 1% of visits, mean",
            lambda r: r.visits.slowest_percent,
            at_most_times(2.5),
            at_least_times(5),
            "s",
        ),
        Measure(
            "visits over half a second",
            lambda r: 100 * r.visits.slow_share,
            at_most(0.05),
            at_least(0.2),
            "%",
        ),
        Measure("good visits", lambda r: r.visits.good_per_second, STEADY, STEADY, "/s"),
    ),
    evidence=(
        Sign(
            "accept queues overflow",
            lambda before, after: after.counters[OVERFLOWS] - before.counters[OVERFLOWS],
            at_least(100),
            at="web",
            command="nstat -az TcpExtListenOverflows",
        ),
        Sign(
            "backlog of port 80",
            lambda before, after: ss.backlog(after.listeners, 80),
            at_most(10),
            at="web",
            command="ss -ltn",
        ),
    ),
)
