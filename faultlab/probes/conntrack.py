"""Probe: the connection tracking table of a machine's network namespace. Source: conntrack(8)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from faultlab.engine import Shell

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


def peak(machine: Shell, seconds: float) -> int:
    """The most entries seen in so many seconds, in samples 0.1 s apart."""
    samples = int(seconds * 10)
    command = f"for i in $(seq {samples}); do cat {_COUNT}; sleep 0.1; done | sort -n | tail -1"
    return int(machine.must(command, timeout=seconds * 5 + 30))
