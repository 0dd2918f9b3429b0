"""Probe: processors, memory and disks of the whole kernel below a machine. Source: proc(5), PSI.

The same in every container of one kernel, whoever causes it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from faultlab.probes import vmstat
from faultlab.probes.cgroup import waited

CPU = "cat /proc/stat && cat /proc/pressure/cpu 2>/dev/null; true"
MEMORY = "cat /proc/meminfo /proc/vmstat"
DISKS = "cat /proc/diskstats"
SPACE = "df -kP /"

# What is a disk's part, or not a disk.
_NO_DISK = re.compile(
    r"(loop|ram|zram|sr|fd|dm-|md)\d|(sd|vd|xvd|hd)[a-z]+\d|(nvme\d+n\d+|mmcblk\d+)p\d"
)


@dataclass(frozen=True)
class Cpu:
    """Ticks since boot, busy and in all; tasks that run or want to; seconds somebody waited."""

    processors: int
    busy: int
    ticks: int
    running: int
    wait: float | None


def cpu(out: str) -> Cpu:
    """Read /proc/stat, then the pressure if the kernel keeps it."""
    lines = out.splitlines()
    ticks = vmstat.parse_processors(lines[0])
    running = next(line for line in lines if line.startswith("procs_running"))
    some = next((line for line in lines if line.startswith("some ")), None)
    processors = sum(re.match(r"cpu\d", line) is not None for line in lines)
    all_ticks = ticks.busy + ticks.idle
    return Cpu(processors, ticks.busy, all_ticks, int(running.split()[1]), waited(some))


@dataclass(frozen=True)
class Memory:
    """The kernel's memory, and how many programs its OOM killer has ended since boot."""

    sizes: vmstat.Memory
    swap_total: int  # kB
    killed: int


def memory(out: str) -> Memory:
    """Read /proc/meminfo and /proc/vmstat."""
    swap = next(line for line in out.splitlines() if line.startswith("SwapTotal"))
    killed = next(line for line in out.splitlines() if line.startswith("oom_kill "))
    return Memory(vmstat.parse(out), int(swap.split()[1]), int(killed.split()[1]))


@dataclass(frozen=True)
class Disk:
    """Milliseconds since boot: with any request under way, and summed over all requests."""

    busy: int
    waited: int


def disks(out: str) -> dict[str, Disk]:
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


def space(out: str) -> Space:
    """Read the last line of `df -kP`."""
    words = out.split("\n")[1].split()
    return Space(int(words[2]), int(words[3]))
