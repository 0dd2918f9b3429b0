"""Probe: memory, swapping and processors of the kernel below a machine. Source: proc(5).

It reads what `vmstat` and `free` show, with the major faults that neither counts. All containers
of one kernel read the same values.
"""

from __future__ import annotations

from dataclasses import dataclass

from faultlab.engine.shell import Shell


@dataclass(frozen=True)
class Memory:
    """Sizes in kB; counters since boot: pages swapped in and out, and faults that read a disk."""

    total: int
    free: int
    available: int
    swap_used: int
    swapped_in: int
    swapped_out: int
    major_faults: int

    @property
    def available_percent(self) -> float:
        """The memory that programs could still get without swapping, in percent of all."""
        return 100 * self.available / self.total


def read(machine: Shell) -> Memory:
    """Read the memory and the paging now."""
    return parse(machine.must("cat /proc/meminfo /proc/vmstat"))


def parse(out: str) -> Memory:
    """Read the lines `MemFree:  1234 kB` and `pswpin 1234`."""
    words = (line.replace(":", " ").split() for line in out.splitlines())
    facts = {word[0]: int(word[1]) for word in words if len(word) > 1}
    return Memory(
        total=facts["MemTotal"],
        free=facts["MemFree"],
        available=facts["MemAvailable"],
        swap_used=facts["SwapTotal"] - facts["SwapFree"],
        swapped_in=facts["pswpin"],
        swapped_out=facts["pswpout"],
        major_faults=facts["pgmajfault"],
    )


@dataclass(frozen=True)
class Processors:
    """Time of all processors since boot, in hundredths of a second; waiting for a disk is idle."""

    busy: int
    idle: int


def processors(machine: Shell) -> Processors:
    """Read the time of the processors now."""
    return parse_processors(machine.must("head -1 /proc/stat"))


def parse_processors(out: str) -> Processors:
    """Read the line `cpu  user nice system idle iowait irq softirq steal …`; user holds guests."""
    user, nice, system, idle, iowait, irq, softirq, steal = map(int, out.split()[1:9])
    return Processors(user + nice + system + irq + softirq + steal, idle + iowait)


def busy_percent(before: Processors, after: Processors) -> float:
    """Share of the time between two readings in which the processors worked, in percent."""
    busy, idle = after.busy - before.busy, after.idle - before.idle
    return 100 * busy / (busy + idle) if busy + idle else 0.0
