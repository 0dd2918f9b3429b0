"""Probe: how often a container's CPU quota was used up. Source: the kernel's scheduler/sched-bwc.

With a quota the kernel gives a container so much CPU time in each period of 100 ms; when that is
used up, all of its processes stand still until the next period.
"""

from __future__ import annotations

from dataclasses import dataclass

from faultlab.engine import Shell

# Version 1 of the cgroups, or 2.
COMMAND = "cat /sys/fs/cgroup/cpu/cpu.stat 2>/dev/null || cat /sys/fs/cgroup/cpu.stat"


@dataclass(frozen=True)
class Quota:
    """Counters since the container started: periods in which it had work, and was throttled.

    `seconds`: how long it was throttled, added up over processors. All 0 without a quota.
    """

    periods: int
    throttled: int
    seconds: float

    def throttled_percent_since(self, before: Quota) -> float:
        """Percent of the periods since then in which the quota was used up."""
        periods = self.periods - before.periods
        return 100 * (self.throttled - before.throttled) / periods if periods else 0.0


def read(daemon: Shell) -> Quota:
    """Read the counters of the container that this is run in: a daemon's, not its machine's."""
    return parse(daemon.must(COMMAND))


def parse(out: str) -> Quota:
    """Read the lines `name value`; the time is in nanoseconds (version 1) or microseconds (2)."""
    facts = {name: int(value) for name, value in (line.split() for line in out.splitlines())}
    seconds = facts.get("throttled_time", 0) / 1e9 + facts.get("throttled_usec", 0) / 1e6
    return Quota(facts.get("nr_periods", 0), facts.get("nr_throttled", 0), seconds)
