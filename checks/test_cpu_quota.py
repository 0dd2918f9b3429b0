"""cpu-quota: Tomcat may use a tenth of a CPU, so it starts slowly."""

from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.asks import basket, page
from faultlab.lab.check import Check
from faultlab.lab.limits import at_least, exactly
from faultlab.lab.measures import delay, ends, steady
from faultlab.probes import cgroup, startup


@dataclass(frozen=True)
class Look:
    """A deployment, as a user meets it."""

    start: startup.Start


@dataclass(frozen=True)
class Inspection:
    """The CPU time that the container used and was refused, since its start."""

    tomcat: cgroup.Cgroup


def look(stack: Stack) -> Look:
    """Restart Tomcat, and send requests until the shop is back."""
    longest = stack.pace.seconds(120)
    return Look(startup.measure(stack["tomcat"], stack.user(), "http://app:8080/", longest))


def inspect(stack: Stack) -> Inspection:
    """Read the cgroup. A restarted container has a new one, so it counts from its start."""
    return Inspection(cgroup.read(stack.sidecar("tomcat")))


CHECK = Check(
    look=look,
    inspect=inspect,
    idle=lambda at: cgroup.read(at.sidecar("tomcat")).cpus < 0.5,  # the quota alone sets the pace
    symptom=(
        delay("start of the shop", "start.seconds", good=4, bad=7).says(
            "After a restart the shop is back soon.", "After a restart the shop is down for long."
        ),
        steady("the shop comes back", lambda now: int(now.start.served), exactly(1)).says(
            "After a restart the shop does come back.", "After a restart the shop stays down."
        ),
    ),
    evidence=(
        ends(
            "periods of its start in which the quota was used up",
            lambda now: now.tomcat.throttled or 0,
            at_least(150),
        ).seen("tomcat", "cat /sys/fs/cgroup/cpu/cpu.stat"),
    ),
    asks=(page("http://app:8080/", times=5, seconds=10), *basket()),
)
