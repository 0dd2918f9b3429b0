"""Probe: processors, memory and disks of the whole kernel below a machine. Source: proc(5), PSI.

The same in every container of one kernel, whoever causes it. It is what `vmstat` and `free` show,
with the major faults that neither counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from faultlab.engine.contention import parse_stat, waited
from faultlab.engine.shell import Shell

CPU = "cat /proc/stat && cat /proc/pressure/cpu 2>/dev/null; true"
MEMORY = "cat /proc/meminfo /proc/vmstat"
DISKS = "cat /proc/diskstats"
SPACE = "df -kP /"

# What is a disk's part, or not a disk.
_NO_DISK = re.compile(
    r"(loop|ram|zram|sr|fd|dm-|md)\d|(sd|vd|xvd|hd)[a-z]+\d|(nvme\d+n\d+|mmcblk\d+)p\d"
)


@dataclass(frozen=True)
class Processors:
    """Ticks of all processors since boot, of which waiting for a disk is idle.

    `count`: how many there are; `running`: tasks that run or want to; `wait`: seconds in which
    somebody waited, where the kernel tells.
    """

    busy: int
    idle: int
    count: int = 0
    running: int = 0
    wait: float | None = None

    def busy_percent_since(self, before: Processors) -> float:
        """Return the share of the time since then in which the processors worked, in percent."""
        busy, idle = self.busy - before.busy, self.idle - before.idle
        return 100 * busy / (busy + idle) if busy + idle else 0.0


def processors(machine: Shell) -> Processors:
    """Read the time of the processors now."""
    return parse_processors(machine.must(CPU))


def parse_processors(out: str) -> Processors:
    """Read /proc/stat, then the pressure if the kernel keeps it."""
    busy, idle, _ = parse_stat(out)
    running = out.split("\nprocs_running ")[1].split(maxsplit=1)[0]
    return Processors(busy, idle, len(re.findall(r"^cpu\d", out, re.M)), int(running), waited(out))


@dataclass(frozen=True)
class Memory:
    """Sizes in kB; counters since boot: pages swapped in and out, and faults that read a disk.

    `killed`: programs that the OOM killer has ended since boot.
    """

    total: int
    free: int
    available: int
    swap_used: int
    swapped_in: int
    swapped_out: int
    major_faults: int
    swap_total: int = 0
    killed: int = 0

    @property
    def available_percent(self) -> float:
        """The memory that programs could still get without swapping, in percent of all."""
        return 100 * self.available / self.total


def memory(machine: Shell) -> Memory:
    """Read the memory and the paging now."""
    return parse_memory(machine.must(MEMORY))


def parse_memory(out: str) -> Memory:
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
        swap_total=facts["SwapTotal"],
        killed=facts["oom_kill"],
    )


@dataclass(frozen=True)
class Disk:
    """Milliseconds since boot: with any request under way, and summed over all requests."""

    busy: int
    waited: int


def parse_disks(out: str) -> dict[str, Disk]:
    """Read /proc/diskstats: whole disks that were ever used, by name."""
    found = {}
    for line in out.splitlines():
        words = line.split()
        name, fields = words[2], [int(word) for word in words[3:]]
        if fields[0] + fields[4] and not _NO_DISK.match(name):
            found[name] = Disk(busy=fields[9], waited=fields[10])
    return found


@dataclass(frozen=True)
class Space:
    """Kilobytes of the file system that containers write to."""

    used: int
    free: int


def parse_space(out: str) -> Space:
    """Read the last line of `df -kP`."""
    words = out.split("\n")[1].split()
    return Space(int(words[2]), int(words[3]))
