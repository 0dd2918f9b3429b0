"""Probe: CPUs, memory and disks of the whole kernel below a machine. Source: proc(5), PSI.

The values are the same in every container of one kernel that can use all CPUs. They are those of
`vmstat` and `free`, and in addition the major faults.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from faultlab.core import cpus
from faultlab.engine.measure.cpu_interference import parse_stat, waited
from faultlab.engine.shell import Shell

CPU = (
    "cat /proc/stat && cat /proc/pressure/cpu 2>/dev/null; grep Cpus_allowed_list /proc/self/status"
)
MEMORY = "cat /proc/meminfo /proc/vmstat"
DISKS = "cat /proc/diskstats"
SPACE = "df -kP /"

_CPU = re.compile(r"^(cpu(\d+) .+)$", re.MULTILINE)
# Partitions, and devices that are no disks.
_NO_DISK = re.compile(
    r"(loop|ram|zram|sr|fd|dm-|md)\d|(sd|vd|xvd|hd)[a-z]+\d|(nvme\d+n\d+|mmcblk\d+)p\d"
)


@dataclass(frozen=True)
class Processors:
    """Ticks since boot of all CPUs that the machine can use; waiting for a disk is idle.

    `count`: the number of CPUs. `running`: tasks that run or are ready to. `wait`: seconds in which
    some task waited, if the kernel counts them.
    """

    busy: int
    idle: int
    count: int = 0
    running: int = 0
    wait: float | None = None

    def busy_percent_since(self, before: Processors) -> float:
        """Return the share of the time since then in which the CPUs were busy, in percent."""
        busy, idle = self.busy - before.busy, self.idle - before.idle
        return 100 * busy / (busy + idle) if busy + idle else 0.0


def processors(machine: Shell) -> Processors:
    """Read the time of the CPUs now."""
    return parse_processors(machine.must(CPU))


def parse_processors(out: str) -> Processors:
    """Parse /proc/stat, the pressure if the kernel has it, and then the CPUs that can be used."""
    told = re.search(r"^Cpus_allowed_list:\s*(\S+)", out, re.MULTILINE)
    usable = cpus.parse(told[1]) if told else None  # older records do not say it
    its = [line for line, n in _CPU.findall(out) if usable is None or int(n) in usable]
    busy, idle, _ = map(sum, zip(*map(parse_stat, its), strict=True))
    running = out.split("\nprocs_running ")[1].split(maxsplit=1)[0]
    return Processors(busy, idle, len(its), int(running), waited(out))


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
        """Return the memory that programs can get without swapping, in percent of the total."""
        return 100 * self.available / self.total


def memory(machine: Shell) -> Memory:
    """Read the memory and the paging now."""
    return parse_memory(machine.must(MEMORY))


def parse_memory(out: str) -> Memory:
    """Parse the lines `MemFree:  1234 kB` and `pswpin 1234`."""
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
    """Milliseconds since boot: with any request in progress, and the sum over all requests."""

    busy: int
    waited: int


def parse_disks(out: str) -> dict[str, Disk]:
    """Parse /proc/diskstats: whole disks that were ever used, by name."""
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
    """Parse the last line of `df -kP`."""
    words = out.split("\n")[1].split()
    return Space(int(words[2]), int(words[3]))
