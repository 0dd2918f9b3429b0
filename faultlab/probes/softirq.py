"""Probe: the softirqs of each CPU of a kernel, and their threads. Source: proc(5).

A line of /proc/net/softnet_stat has hexadecimal counters of one CPU: packets processed, packets
that its queue had no room for, and the times that its share of time was over before its work was.
"""

import re
from dataclasses import dataclass

from faultlab.engine.shell import Shell
from faultlab.probes import host

COMMAND = (
    f"cat /proc/net/softnet_stat; {host.CPU};"
    " for p in $(pgrep '^ksoftirqd/'); do cat /proc/$p/stat; done"
)
_CPU = re.compile(r"^cpu(\d+) (.+)$", re.MULTILINE)
_THREAD = re.compile(r"^\d+ \(ksoftirqd/(\d+)\) (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Processor:
    """Counters of one CPU since boot, in packets and in ticks.

    `squeezed`: how often its time was over before its work. `thread`: the ticks of its ksoftirqd.
    """

    packets: int
    dropped: int
    squeezed: int
    softirq: int
    thread: int
    ticks: int


def read(kernel: Shell) -> list[Processor]:
    """Read the counters of all CPUs now."""
    return parse(kernel.must(COMMAND))


def parse(out: str) -> list[Processor]:
    """Parse softnet_stat, /proc/stat and the stat file of each ksoftirqd."""
    softnet = out[: out.index("cpu ")].splitlines()
    network = [[int(field, 16) for field in line.split()] for line in softnet]
    times = [[int(field) for field in found[2].split()[:8]] for found in _CPU.finditer(out)]
    threads = {int(found[1]): found[2].split() for found in _THREAD.finditer(out)}
    return [
        Processor(
            packets=counters[0],
            dropped=counters[1],
            squeezed=counters[2],
            softirq=time[6],
            thread=sum(map(int, threads[i][11:13])) if i in threads else 0,
            ticks=sum(time),
        )
        for i, (counters, time) in enumerate(zip(network, times, strict=False))
    ]
