"""Probe: the processor time that a daemon used, from its cgroup, version 1 or 2.

Sources: the kernel's cgroup-v1/cpuacct and cgroup-v2 documents. In a container /proc/stat is the
whole host's, and so is what mpstat and vmstat show there.
"""

from __future__ import annotations

from dataclasses import dataclass

from faultlab.engine.shell import Shell

_READ = (
    "cd /sys/fs/cgroup; nproc; "
    "sed 's/^/nanoseconds /' cpuacct/cpuacct.usage 2>/dev/null; grep usage_usec cpu.stat; true"
)


@dataclass(frozen=True)
class Cpu:
    """`used`: seconds since the container started; processors there."""

    used: float
    processors: int

    def busy_percent_since(self, before: Cpu, seconds: float) -> float:
        """Return what the daemon used since then, in percent of all processors for `seconds`."""
        return 100 * (self.used - before.used) / seconds / self.processors


def read(daemon: Shell) -> Cpu:
    """Read it in the daemon itself: its machine has a cgroup of its own."""
    return parse(daemon.must(_READ))


def parse(out: str) -> Cpu:
    """Read the processors, and `nanoseconds N` (version 1) or `usage_usec N` (2)."""
    processors, counter = out.splitlines()[:2]
    unit, value = counter.split()
    used = int(value) / (1e9 if unit == "nanoseconds" else 1e6)
    return Cpu(used, int(processors))
