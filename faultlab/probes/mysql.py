"""Probe: MySQL's own counters. Source: MySQL manual, "Server Status Variables".

Read as the user root of the daemon's container, whom the server knows by his socket.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from faultlab.engine import Shell

TYPED = "mysqladmin extended-status | grep -E 'Threads|Aborted|pool_wait|row_lock'"
COMMAND = (
    "$(command -v mariadb || echo mysql) -N -B -e 'SHOW GLOBAL STATUS;"
    ' SHOW GLOBAL VARIABLES LIKE "max_connections"\''
)


@dataclass(frozen=True)
class Status:
    """Counters since the server started, unless said otherwise.

    `connected`: sessions now, of at most `most`; `refused`: logins that failed, also for want of a
    place. `pool_used` of `pool_pages`: buffer pool now; `pool_waits`: for a free page of it.
    `lock_ms`: milliseconds of waits for row locks that are over; `lock_waiting`: sessions that wait
    for one now.
    """

    connected: int
    most: int
    refused: int
    pool_used: int
    pool_pages: int
    pool_waits: int
    lock_ms: int
    lock_waiting: int


def counters(machine: Shell, names: Sequence[str]) -> dict[str, int]:
    """Counters since the server started, by name (`Com_select`, `Handler_read_next`, …)."""
    wanted = ", ".join(f"'{name}'" for name in names)
    sql = f"SHOW GLOBAL STATUS WHERE Variable_name IN ({wanted})"
    return parse_counters(machine.must(f'mysql -BNe "{sql}"'))


def parse_counters(out: str) -> dict[str, int]:
    """Read the lines `Com_select<tab>1234`."""
    rows = (line.split("\t") for line in out.splitlines())
    return {name: int(value) for name, value in rows}


def parse(out: str) -> Status:
    """Read the lines `name<TAB>value`."""
    facts = dict(line.split("\t", 1) for line in out.splitlines() if "\t" in line)
    pages = int(facts["Innodb_buffer_pool_pages_total"])
    return Status(
        connected=int(facts["Threads_connected"]),
        most=int(facts["max_connections"]),
        refused=int(facts["Aborted_connects"]),
        pool_used=pages - int(facts["Innodb_buffer_pool_pages_free"]),
        pool_pages=pages,
        pool_waits=int(facts["Innodb_buffer_pool_wait_free"]),
        lock_ms=int(facts["Innodb_row_lock_time"]),
        lock_waiting=int(facts["Innodb_row_lock_current_waits"]),
    )
