"""Probe: the CPU time of a container, and how often its quota was used up.

Sources: the kernel's sched-bwc (cgroup v1) and cgroup-v2 documents. With a quota the kernel gives a
container so much CPU time in each period of 100 ms; when that is used up, it stands still until the
next period. Pressure (PSI) of a container is there with cgroup v2 only.
"""

from __future__ import annotations

from dataclasses import dataclass

from faultlab.engine import Shell

_V1 = "/sys/fs/cgroup/cpu"
_V2 = "/sys/fs/cgroup"
_READ = (
    f"cat {_V1}/cpu.stat {_V2}/cpu.stat 2>/dev/null; "
    "sed 's/^/nanoseconds /' /sys/fs/cgroup/cpuacct/cpuacct.usage 2>/dev/null; "
    f"cat {_V2}/cpu.pressure 2>/dev/null || true"
)


@dataclass(frozen=True)
class Cpu:
    """Counters since the container started; seconds. Periods are those in which it had work.

    `waiting`: seconds in which some task waited for a CPU (PSI); 0 where the kernel does not tell.
    """

    used: float
    periods: int
    throttled: int
    throttled_seconds: float
    waiting: float

    def throttled_percent_since(self, before: Cpu) -> float:
        """Percent of the periods since then in which the quota was used up."""
        periods = self.periods - before.periods
        return 100 * (self.throttled - before.throttled) / periods if periods else 0.0


def cpu(daemon: Shell) -> Cpu:
    """Read the counters of the container that this is run in: a daemon's, not its machine's."""
    return parse(daemon.must(_READ))


def parse(out: str) -> Cpu:
    """Read lines `name value`, and of the pressure the line `some … total=microseconds`."""
    facts: dict[str, int] = {}
    waiting = 0.0
    for line in out.splitlines():
        words = line.split()
        if words[0] == "some":
            waiting = int(words[-1].removeprefix("total=")) / 1e6
        elif len(words) == 2:
            facts[words[0]] = int(words[1])
    if "usage_usec" in facts:  # v2
        used, stood = facts["usage_usec"] / 1e6, facts.get("throttled_usec", 0) / 1e6
    else:
        used, stood = facts["nanoseconds"] / 1e9, facts["throttled_time"] / 1e9
    return Cpu(used, facts.get("nr_periods", 0), facts.get("nr_throttled", 0), stood, waiting)
