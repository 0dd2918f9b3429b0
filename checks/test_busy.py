"""busy: nothing is wrong, the stack is well used; nobody waits and nobody is turned away."""

from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.check import Check, Measure
from faultlab.lab.limits import at_least, at_least_times, at_most, at_most_times
from faultlab.probes import vmstat, wrk


@dataclass(frozen=True)
class Look:
    """The users of an evening, and what the processors of the host did meanwhile."""

    load: wrk.Load
    before: vmstat.Processors
    after: vmstat.Processors

    @property
    def busy_percent(self) -> float:
        """How much of their time the processors worked."""
        return vmstat.busy_percent(self.before, self.after)


@dataclass(frozen=True)
class Watch:
    """A control has no traces to look for."""


def look(at: Stack) -> Look:
    """Six users a processor, who click without a pause, keep them all busy."""
    users = 6 * int(at["web"].must("nproc"))
    before = vmstat.processors(at["web"])
    load = wrk.load(at["client"], "http://web/index.php", connections=users, seconds=1)
    return Look(load, before, vmstat.processors(at["web"]))


def watch(at: Stack) -> Watch:
    """Nothing to read."""
    return Watch()


CHECK = Check(
    look=look,
    watch=watch,
    symptom=(
        Measure("processors busy", lambda r: r.busy_percent, at_least(60), unit="%"),
        Measure("requests that fail", lambda r: 100 * r.load.failed_share, at_most(0), unit="%"),
        Measure("median latency", lambda r: r.load.p50, at_most_times(3), unit="s"),
        Measure("good requests", lambda r: r.load.good_per_second, at_least_times(0.5), unit="/s"),
    ),
    evidence=(),
)
