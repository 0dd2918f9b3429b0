"""Probe: MySQL's own figures: counters, statements by their form, query plans.

Source: MySQL manual, "Server Status Variables", "Statement Digests", "EXPLAIN Output Format".
MariaDB's JSON of a plan differs from MySQL's.

Everything is read as root of the daemon's container, whom the server authenticates by its socket.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from faultlab.engine.shell import Shell, json_of

TYPED = "mysqladmin extended-status | grep -E 'Threads|Aborted|pool_wait|row_lock'"
TYPED_STATEMENTS = (
    "mysql performance_schema -e 'SELECT * FROM events_statements_summary_by_digest\\G'"
)
COMMAND = (
    "$(command -v mariadb || echo mysql) -N -B -e 'SHOW GLOBAL STATUS;"
    ' SHOW GLOBAL VARIABLES LIKE "max_connections"\''
)


@dataclass(frozen=True)
class Status:
    """Counters since the server started, unless noted otherwise.

    `connected`: sessions now, of at most `most`. `refused`: logins that failed, also above that
    limit. `pool_used` of `pool_pages`: the buffer pool now. `pool_waits`: waits for a free page of
    it. `lock_ms`: milliseconds of completed waits for row locks. `lock_waiting`: sessions that wait
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
    """Return counters since the server started, by name (`Com_select`, `Handler_read_next`, …)."""
    wanted = ", ".join(f"'{name}'" for name in names)
    sql = f"SHOW GLOBAL STATUS WHERE Variable_name IN ({wanted})"
    return parse_counters(machine.must(f'mysql -BNe "{sql}"'))


def copies(machine: Shell) -> int:
    """Return how many sessions run the same query now, of the query that most of them run."""
    sql = (
        "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE COMMAND = 'Query'"
        " GROUP BY INFO ORDER BY 1 DESC LIMIT 1"
    )
    return int(machine.must(f'mysql -BNe "{sql}"'))


def end_idle(machine: Shell) -> None:
    """End the idle sessions of all users, as the server itself does with them after some hours.

    Sessions by way of the server's socket go on. Their host has no port.
    """
    sql = (
        "SELECT CONCAT('KILL ', ID, ';') FROM information_schema.PROCESSLIST"
        " WHERE HOST LIKE '%:%' AND COMMAND = 'Sleep'"
    )
    machine.must(f'mysql -BNe "{sql}" | mysql -f')


def forget_hosts(machine: Shell) -> None:
    """Empty the cache of the names of clients, so that the server looks each one up again."""
    machine.must("mysql -e 'FLUSH HOSTS'")


def parse_counters(out: str) -> dict[str, int]:
    """Parse the lines `Com_select<tab>1234`."""
    rows = (line.split("\t") for line in out.splitlines())
    return {name: int(value) for name, value in rows}


def parse(out: str) -> Status:
    """Parse the lines `name<TAB>value`."""
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


@dataclass(frozen=True)
class Statement:
    """All statements of one form, since the server started or the summary was truncated.

    `text`: with `?` for each value. `seconds`: the sum of their times, with waits. `examined` and
    `sent`: rows.
    """

    text: str
    calls: int
    seconds: float
    examined: int
    sent: int

    def since(self, before: Statement) -> Statement:
        """Return what has been added since `before`."""
        return Statement(
            self.text,
            self.calls - before.calls,
            self.seconds - before.seconds,
            self.examined - before.examined,
            self.sent - before.sent,
        )


def statements(machine: Shell) -> list[Statement]:
    """Return the 100 forms that took the most time, from performance_schema."""
    sql = (
        "SELECT COUNT_STAR, SUM_TIMER_WAIT / 1e12, SUM_ROWS_EXAMINED, SUM_ROWS_SENT, DIGEST_TEXT"
        " FROM performance_schema.events_statements_summary_by_digest"
        " WHERE DIGEST_TEXT IS NOT NULL ORDER BY 2 DESC LIMIT 100"
    )
    return parse_statements(machine.must(f'mysql -BNe "{sql}"'))


def parse_statements(out: str) -> list[Statement]:
    """Parse the lines `calls<TAB>seconds<TAB>examined<TAB>sent<TAB>text`."""
    found = []
    for line in out.splitlines():
        calls, seconds, examined, sent, text = line.split("\t", 4)
        found.append(Statement(text, int(calls), float(seconds), int(examined), int(sent)))
    return found


def between(before: list[Statement], after: list[Statement]) -> list[Statement]:
    """Return the forms that ran between two readings, the one that took the most time first."""
    was = {statement.text: statement for statement in before}
    new = [s.since(was[s.text]) if s.text in was else s for s in after]
    return sorted((s for s in new if s.calls), key=lambda s: -s.seconds)


def examined(before: list[Statement], after: list[Statement], words: str) -> float:
    """Return how many rows a SELECT with these words read on average; 0 if none ran."""
    ran = between(before, after)
    selects = [s for s in ran if s.text.startswith("SELECT") and words in s.text]
    calls = sum(s.calls for s in selects)
    return sum(s.examined for s in selects) / calls if calls else 0.0


@dataclass(frozen=True)
class Table:
    """How a plan reads a table: `ALL` is a full scan; `rows` is the server's estimate."""

    name: str
    access: str
    key: str | None
    rows: int


@dataclass(frozen=True)
class QueryPlan:
    """The plan of a query, from EXPLAIN. `range_checked`: for each row of a table before it."""

    tables: list[Table]
    filesort: bool
    temporary: bool
    range_checked: bool

    def rows(self, name: str) -> int:
        """Return the rows that it reads at a time from a table, by name or alias; 0 if absent."""
        return sum(table.rows for table in self.tables if table.name == name)


@dataclass(frozen=True)
class Asked:
    """The statements of a server so far, and its plan for a query."""

    statements: list[Statement]
    plan: QueryPlan


def asked(machine: Shell, sql: str) -> Asked:
    """Read performance_schema, and the plan of a query."""
    return Asked(statements(machine), explain(machine, sql))


def explain(machine: Shell, sql: str) -> QueryPlan:
    """Return the plan of a query that names the database of each table."""
    quoted = shlex.quote(f"EXPLAIN FORMAT=JSON {sql}")
    return parse_plan(machine.must(f"mysql -BNre {quoted}"))


def parse_plan(out: str) -> QueryPlan:
    """Parse the JSON of EXPLAIN, with tables at any depth. Raises CannotRun for anything else."""
    nodes = list(_nodes(json_of(out, "EXPLAIN")))
    tables = [node for key, node in nodes if key == "table"]
    keys = {key for key, _ in nodes}
    return QueryPlan(
        tables=[
            Table(t["table_name"], t.get("access_type", ""), t.get("key"), int(t.get("rows", 0)))
            for t in tables
        ],
        filesort=bool({"filesort", "read_sorted_file"} & keys),
        temporary="temporary_table" in keys,
        range_checked="range-checked-for-each-record" in keys,
    )


def _nodes(tree: Any) -> Iterator[tuple[str, Any]]:
    """Yield every key of the document with its value."""
    if isinstance(tree, list):
        for branch in tree:
            yield from _nodes(branch)
    elif isinstance(tree, dict):
        for key, branch in tree.items():
            yield key, branch
            yield from _nodes(branch)


def orders(user: Shell) -> int:
    """Count the orders in the book, over the network as the booking service does."""
    return int(
        user.must("mysql -hdb -ubooking -pbooking -NBe 'SELECT COUNT(*) FROM booking.orders'")
    )
