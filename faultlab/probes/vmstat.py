"""Probe: the memory of the kernel below a machine, and its swapping. Source: proc(5).

What `vmstat` and `free` show, with the major faults that neither counts. All containers of one
kernel read the same values.
"""

from __future__ import annotations

from dataclasses import dataclass

from faultlab.engine import Shell


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
        """What programs could still get without swapping, in percent of all."""
        return 100 * self.available / self.total


def read(machine: Shell) -> Memory:
    """Read it now."""
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
