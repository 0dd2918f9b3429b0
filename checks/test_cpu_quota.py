"""cpu-quota: Tomcat may use a tenth of a processor, and starts as slowly."""

from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.check import Check, Measure, Sign
from faultlab.lab.limits import at_least, at_least_times, at_most_times, exactly
from faultlab.probes import cgroup, startup

LONGEST = 120


@dataclass(frozen=True)
class Look:
    """A deployment, as a visitor meets it."""

    start: startup.Start


@dataclass(frozen=True)
class Watch:
    """The processor time that the container used and was refused, since its start."""

    tomcat: cgroup.Cgroup


def look(at: Stack) -> Look:
    """Restart Tomcat, and knock until the shop is back."""
    return Look(startup.measure(at["tomcat"], at["client"], "http://app:8080/", LONGEST))


def watch(at: Stack) -> Watch:
    """Read the cgroup: a restarted container has a new one, so it counts from its start."""
    return Watch(cgroup.read(at["tomcat"]))


BACK = exactly(1)

CHECK = Check(
    look=look,
    watch=watch,
    idle=lambda at: cgroup.read(at["tomcat"]).cpus < 0.5,  # the quota sets the pace, nothing else
    symptom=(
        Measure(
            "start of the shop",
            lambda r: r.start.seconds,
            at_most_times(4),
            at_least_times(7),
            "s",
        ),
        Measure("the shop comes back", lambda r: int(r.start.served), BACK, BACK),
    ),
    evidence=(
        Sign(
            "periods of its start in which the quota was used up",
            lambda before, after: after.tomcat.throttled or 0,
            at_least(150),
            at="tomcat",
            command="cat /sys/fs/cgroup/cpu/cpu.stat",
        ),
    ),
)
