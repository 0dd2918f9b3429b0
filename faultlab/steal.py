"""Steal: the processor time that a hypervisor gave to other guests while this one wanted it.

A look taken meanwhile tells of the neighbours. Linux charges what was stolen to who was running,
and so to a container's quota as well: 5% of stolen time took 30% of what scale-out gets done.
Read from this machine, which runs the containers or the VM with them. On real hardware it is 0.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

MUCH = 0.03  # of the time of all processors
_STAT = Path("/proc/stat")
_STEP = 1.0  # seconds


@dataclass(frozen=True)
class Ticks:
    """Time of all processors since the boot, in 1/100 s: man 5 proc_stat."""

    all: int
    stolen: int

    def since(self, before: Ticks) -> float:
        """The part that was stolen since then, 0 to 1."""
        return (self.stolen - before.stolen) / max(1, self.all - before.all)


def read() -> Ticks:
    """What the kernel has counted up to now."""
    return parse(_STAT.read_text())


def parse(stat: str) -> Ticks:
    """Read `cpu  user nice system idle iowait irq softirq steal …`; user holds the guests' time."""
    fields = [int(field) for field in stat.split("\n", 1)[0].split()[1:9]]
    return Ticks(sum(fields), fields[7])


def wait_for_calm(seconds: float) -> None:
    """Return when little was stolen for a second, or after so many seconds."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        before = read()
        time.sleep(min(_STEP, left))
        if read().since(before) <= MUCH:
            return
