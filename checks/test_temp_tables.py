"""temp-tables: each report keeps its rows in a table on disk, as too little memory is allowed."""

import shlex
from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.asks import said
from faultlab.lab.check import Check, Evidence, Measure
from faultlab.lab.limits import at_least, at_most, exactly
from faultlab.lab.measures import rate, steady
from faultlab.observe import profiler
from faultlab.probes import mysql, mysqlslap

CREATED = "Created_tmp_disk_tables"
ASKED = "Com_select"

MYSQL = "mysql --binary-mode -hdb -ushop -pshop -BN warehouse"
REPORT = "/tmp/report.sql"  # in the user's container, copied from client
# No parcel was entered twice. So a session hides lineitem behind a temporary table where some were.
TWICE = """CREATE TEMPORARY TABLE booking.entered AS
SELECT * FROM warehouse.lineitem WHERE l_orderkey BETWEEN 100 AND 200;
CREATE TEMPORARY TABLE warehouse.lineitem AS SELECT * FROM booking.entered
UNION ALL SELECT * FROM booking.entered WHERE l_orderkey >= 150 AND l_linenumber = 1
UNION ALL SELECT * FROM booking.entered WHERE l_orderkey = 190 AND l_linenumber = 1;
"""
NAMED = [(190, 1, 3), *((order, 1, 2) for order in range(150, 169))]


@dataclass(frozen=True)
class Look:
    """The load of four clerks who run their report, and what the database's CPU time went into.

    `writes`: the share of the samples that are in the kernel's write to a file, in percent.
    `right`: 1 when the report lists what was entered more than once.
    """

    load: mysqlslap.Load
    writes: float
    right: int = 1


@dataclass(frozen=True)
class Inspection:
    """The server's counters."""

    counters: dict[str, int]


def look(stack: Stack) -> Look:
    """Run reports for nearly a second, after a few that read the rows into memory."""
    text = stack["client"].must("cat /srv/report.sql")
    stack.user().must(f"printf %s {shlex.quote(text)} >{REPORT}")
    reports(stack, 8)
    loads: list[mysqlslap.Load] = []
    recording = profiler.during(stack, lambda: loads.append(reports(stack, 80)))
    right = stack.user().run(f"printf %s {shlex.quote(TWICE + text)} | {MYSQL}").out.split() == [
        str(n) for row in NAMED for n in row
    ]
    return Look(loads[0], 100 * recording.stacks.share("vfs_write"), int(right))


def reports(stack: Stack, queries: int) -> mysqlslap.Load:
    """Let four clerks run so many reports."""
    return mysqlslap.load(
        stack.user(),
        host="db",
        schema="warehouse",
        file=REPORT,
        clients=4,
        queries=queries,
        most=120,
    )


def inspect(stack: Stack) -> Inspection:
    """Read the counters."""
    return Inspection(mysql.counters(stack["db"], [CREATED, ASKED]))


def on_disk(before: Inspection, after: Inspection) -> float:
    """Return the temporary tables on disk for each query."""
    more = {name: count - before.counters[name] for name, count in after.counters.items()}
    return more[CREATED] / more[ASKED] if more[ASKED] else 0.0


MANY = at_least(25)  # system calls cost more on some CPUs: 43 to 53% were seen

CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        rate("reports", "load.per_second", good=0.65, bad=0.4).says(
            "The clerks get about as many reports as before.",
            "The clerks get far fewer reports than before.",
        ),
        Measure("file writes, of the database's samples", "writes", at_most(5), MANY, "%").says(
            "The database spends hardly any of its time on writing to files.",
            "The database spends a large part of its time on writing to files.",
        ),
        steady("reports that name what was entered twice", "right", exactly(1)).says(
            "The report lists what was entered more than once.",
            "The report does not list what was entered more than once.",
        ),
    ),
    evidence=(
        Evidence("temporary tables on disk, for each query", on_disk, at_least(0.5)).seen(
            "db", "mysql -e \"SHOW GLOBAL STATUS LIKE 'Created_tmp%'\""
        ),
    ),
    asks=(
        said(
            "the report",
            f"{MYSQL} <{REPORT} | awk '$3 > 1'",
        ),
    ),
)
