"""Probe: the connection tracking table of a machine's network namespace. Source: conntrack(8)."""

import math
import re
from dataclasses import dataclass

from faultlab.engine.shell import Shell

# What the kernel logs; in another network namespace than the first, newer kernels name it here.
FULL = "nf_conntrack: table full"
FULL_FROM = 0.9  # share of its entries from which a table is full
UNTRACKED = 0.05  # entries for each visit; those of DNS queries are always there
COMMAND = "cd /proc/sys/net/netfilter && cat nf_conntrack_count nf_conntrack_max && conntrack -S"


@dataclass(frozen=True)
class Table:
    """Entries now and at `most`, and losses since the machine started.

    `drops`: packets without a free entry. `early_drops`: older entries that were removed for new
    ones.
    """

    entries: int
    drops: int
    most: int = 0
    early_drops: int = 0


def read(machine: Shell) -> Table:
    """Read the table's size and its counters."""
    return parse(machine.must(COMMAND))


def parse(out: str) -> Table:
    """Parse the count, the limit, then a line of counters for each CPU."""
    entries, most, counters = out.split("\n", 2)
    drops, early = (
        sum(map(int, re.findall(rf"\b{name}=(\d+)", counters))) for name in ("drop", "early_drop")
    )
    return Table(int(entries), drops, int(most), early)


def peak(machine: Shell, seconds: int) -> int:
    """Return the most entries seen in these seconds, in samples 0.2 s apart."""
    count = "read -r n </proc/sys/net/netfilter/nf_conntrack_count"
    loop = f"while ((SECONDS < {seconds})); do {count}; echo $n; sleep 0.2; done"
    return int(machine.must(f"bash -c '{loop}' | sort -n | tail -1", timeout=seconds + 30))


_OLDEST = """conntrack -L -p tcp 2>/dev/null |
awk '$4 != "ESTABLISHED" && $3 > most { most = $3 } END { print most + 0 }'"""


def lasting(machine: Shell, visits: int) -> float:
    """Return how many visits a second can go on without end, just after so many visits.

    Each has left its share of the entries, and these stay for as long as the youngest one still
    does. Of a full table each is taken to leave one. Infinite for visits that are not tracked.
    """
    table, seconds = read(machine), int(machine.must(_OLDEST))
    each = 1.0 if table.entries > FULL_FROM * table.most else table.entries / max(1, visits)
    return table.most / (each * max(1, seconds)) if each > UNTRACKED else math.inf


def rests(machine: Shell, port: int) -> dict[int, int]:
    """Return for how many seconds connections to a port are still known, by the clients' ports."""
    command = f"conntrack -L -p tcp --orig-port-dst {port} --state ESTABLISHED 2>/dev/null"
    return parse_rests(machine.must(command))


def parse_rests(out: str) -> dict[int, int]:
    """Parse the lines of conntrack; what an entry says first is the client's side."""
    rows = re.findall(r"^tcp +6 +(\d+) ESTABLISHED .*? sport=(\d+) ", out, re.MULTILINE)
    return {int(client): int(rest) for rest, client in rows}


def forget(machine: Shell, port: int, client: int) -> None:
    """Remove the entry of a connection from the client's port to a port."""
    machine.run(f"conntrack -D -p tcp --orig-port-dst {port} --orig-port-src {client}")
