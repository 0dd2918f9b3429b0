"""Probe: the connection tracking table of a machine's network namespace. Source: conntrack(8)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from faultlab.engine.shell import Shell

FULL = "table full, dropping packet"  # what the kernel's log says then
_COUNT = "/proc/sys/net/netfilter/nf_conntrack_count"
_DROP = re.compile(r"\bdrop=(\d+)")


@dataclass(frozen=True)
class Table:
    """Entries now, and the packets dropped for want of a free one since the machine started."""

    entries: int
    drops: int


def read(machine: Shell) -> Table:
    """Read the table's size and its counters."""
    return parse(machine.must(f"cat {_COUNT} && conntrack -S"))


def parse(out: str) -> Table:
    """Read the count, then a line of counters for each processor."""
    entries, _, counters = out.partition("\n")
    return Table(int(entries), sum(int(drop) for drop in _DROP.findall(counters)))


def peak(machine: Shell, seconds: int) -> int:
    """The most entries seen in so many seconds, in samples 0.2 s apart."""
    loop = f"while ((SECONDS < {seconds})); do read -r n <{_COUNT}; echo $n; sleep 0.2; done"
    return int(machine.must(f"bash -c '{loop}' | sort -n | tail -1", timeout=seconds + 30))


USE = "cd /proc/sys/net/netfilter && cat nf_conntrack_count nf_conntrack_max && conntrack -S"
_LOST = re.compile(r"\b(?:early_)?drop=(\d+)")


@dataclass(frozen=True)
class Fill:
    """Entries now and at most, and what found no place: packets, and entries that had to go."""

    entries: int
    most: int
    lost: int


def fill(out: str) -> Fill:
    """Read what USE printed: the count, the limit, then a line of counters for each processor."""
    entries, most, counters = out.split("\n", 2)
    return Fill(int(entries), int(most), sum(map(int, _LOST.findall(counters))))
