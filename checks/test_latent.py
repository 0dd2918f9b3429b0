"""latent: the sysctl is far too small, and no socket has it: the queues are as long as before."""

from dataclasses import dataclass

from faultlab.check import Check, Measure, at_least_times, at_most, at_most_times
from faultlab.contract import Contract
from faultlab.probes import wrk
from faultlab.stack import Stack


@dataclass(frozen=True)
class Look:
    """Four hundred users, each request over a connection of its own."""

    load: wrk.Load


@dataclass(frozen=True)
class Watch:
    """A control has no traces to look for."""


def look(at: Stack) -> Look:
    """The load that shows a short accept queue at once."""
    load = wrk.load(
        at["client"],
        "http://web/",
        connections=400,
        seconds=3,
        timeout=1,
        new_connections=True,
    )
    return Look(load)


def watch(at: Stack) -> Watch:
    """Nothing to read."""
    return Watch()


CHECK = Check(
    look=look,
    watch=watch,
    symptom=(
        Measure("p99 latency", lambda r: r.load.p99, at_most_times(2.5), unit="s"),
        Measure("requests over a second", lambda r: r.load.timeouts, at_most(0)),
        Measure("good requests", lambda r: r.load.good_per_second, at_least_times(0.5), unit="/s"),
    ),
    evidence=(),
)


class TestLatent(Contract):
    """The contract of every lab; a control must stay well."""

    check = CHECK
