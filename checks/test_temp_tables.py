"""temp-tables: each report keeps its rows in a table on disk, as too little memory is allowed."""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from faultlab.engine.stack import Stack
from faultlab.lab.asks import said
from faultlab.lab.check import Check, Measure
from faultlab.lab.limits import at_least, at_most, exactly
from faultlab.lab.measures import grows, grows_per, rate, steady
from faultlab.observe import profiler
from faultlab.probes import mysql, mysqlslap

CREATED = "Created_tmp_disk_tables"
ASKED = "Com_select"

MYSQL = "mysql --binary-mode -hdb -ushop -pshop -BN warehouse"
FILE = "head -c 100000 {root}/srv/report.sql"  # of client
REPORT = "/tmp/report.sql"  # in the user's container
ORDERED = """SELECT l_partkey, l_suppkey, COUNT(*) AS times, SUM(l_quantity) AS pieces
FROM warehouse.lineitem GROUP BY l_partkey, l_suppkey
ORDER BY times DESC, pieces DESC, l_partkey, l_suppkey LIMIT 20;
"""
# Three hundred lines of some parts and suppliers, which differ in each look. No pair was ordered
# more than five times before, so they fill the list. What was stored before cannot contain them.
THEIR = "l_orderkey BETWEEN 4100000000 AND 4100000999"
ENTERED = """INSERT INTO lineitem
SELECT 4100000000 + seq, 1, {part} + FLOOR(5 * RAND({seed} + seq)),
{supplier} + FLOOR(6 * RAND({seed} - seq)), 1 + seq MOD 50, 1, 0, 'N', '2026-06-05', ''
FROM seq_1_to_300"""
MOVED = f"""UPDATE lineitem SET l_partkey = l_partkey + 1, l_quantity = 51 - l_quantity
WHERE {THEIR} AND l_orderkey MOD 3 = 0"""
CANCELLED = f"DELETE FROM lineitem WHERE {THEIR}"
# While the reports run, a line comes and goes fifty times a second: more often than a report is
# made, so that no stored result is of use. One line puts no supplier onto the list.
ITS = "l_orderkey = 4000000001"
CHANGES = f"""yes "REPLACE INTO lineitem SET {ITS}, l_linenumber = 1, l_partkey = 0, l_suppkey = 0,
l_quantity = 1, l_extendedprice = 1, l_discount = 0, l_returnflag = 'N', l_shipdate = '2026-06-05',
l_comment = ''; DELETE FROM lineitem WHERE {ITS}; DO SLEEP(0.02);" 2>/dev/null |
timeout 180 mysql -f warehouse >/dev/null 2>&1 &
echo $!"""
REMOVED = f"sleep 0.1; mysql warehouse -e 'DELETE FROM lineitem WHERE {ITS}'"
LONG = 2  # seconds: fewer reports vary by chance


@dataclass(frozen=True)
class Look:
    """The load of four buyers who run their report, and what the database's CPU time went into.

    `writes`: the share of the samples that are in the kernel's write to a file, in percent.
    `right`: 1 when the report lists what is ordered most often at that moment.
    """

    load: mysqlslap.Load
    writes: float
    right: int = 1


@dataclass(frozen=True)
class Inspection:
    """The server's counters."""

    counters: dict[str, int]

    @property
    def created(self) -> int:
        """Return the temporary tables on disk that the server has made."""
        return self.counters[CREATED]

    @property
    def asked(self) -> int:
        """Return the queries that it has run."""
        return self.counters[ASKED]


def look(stack: Stack) -> Look:
    """Run reports for some seconds, after a few that read the rows into memory."""
    client = stack.sidecar("client")
    text = client.must(FILE.format(root=client.root))
    stack.user().must(f"printf %s {shlex.quote(text)} >{REPORT}")
    statements = max(1, len([part for part in text.split(";") if part.strip()]))
    reports(stack, 8, statements)
    loads: list[mysqlslap.Load] = []
    with changing(stack):
        recording = profiler.during(stack, lambda: loads.append(timed(stack, statements)))
    return Look(loads[0], 100 * recording.stacks.share("vfs_write"), int(follows(stack)))


def follows(stack: Stack) -> bool:
    """Return whether the report has lines that are entered, then changed, then cancelled."""
    dice, db = stack.dice, stack.sidecar("mysql")
    part, supplier, seed = dice.randint(1, 1995), dice.randint(1, 95), dice.randint(1000, 10**6)
    entered = ENTERED.format(part=part, supplier=supplier, seed=seed)
    try:
        for change in (CANCELLED, entered, MOVED, CANCELLED):
            rows = db.must(f"mysql -BN warehouse -e {shlex.quote(f'{change}; {ORDERED}')}").split(
                "\n"
            )
            if stack.user().run(f"{MYSQL} <{REPORT}").out.split("\n") != rows:
                return False
        return True
    finally:
        db.run(f"mysql warehouse -e {shlex.quote(CANCELLED)}")


@contextmanager
def changing(stack: Stack) -> Iterator[None]:
    """Let root enter and remove a line, again and again, meanwhile."""
    db = stack.sidecar("mysql")
    client = db.must(CHANGES).strip()
    try:
        yield
    finally:
        db.run(f"kill {client}; {REMOVED}")


def timed(stack: Stack, statements: int) -> mysqlslap.Load:
    """Run sixty reports, and then three times as many as before until they take long enough."""
    count, every = 60, reports(stack, 60, statements)
    while every.seconds < LONG and count < 10_000:
        count *= 3
        more = reports(stack, count, statements)
        queries, seconds = every.queries + more.queries, every.seconds + more.seconds
        every = replace(every, queries=queries, seconds=seconds)
    return every


def reports(stack: Stack, count: int, statements: int) -> mysqlslap.Load:
    """Let four buyers run so many reports. mysqlslap counts each statement of the file."""
    load = mysqlslap.load(
        stack.user(),
        host="db",
        schema="warehouse",
        file=REPORT,
        clients=4,
        queries=count * statements,
        most=120,
    )
    return replace(load, queries=count)


def inspect(stack: Stack) -> Inspection:
    """Read the counters."""
    return Inspection(mysql.counters(stack.sidecar("mysql"), [CREATED, ASKED]))


MANY = at_least(25)  # system calls cost more on some CPUs: 54 to 64% were seen

CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        # System calls cost less on some CPUs: 0.08 to 0.39 of the healthy rate were seen.
        rate("reports", "load.per_second", good=0.65, bad=0.5).says(
            "The buyers get about as many reports as before.",
            "The buyers get fewer reports than before.",
        ),
        Measure("file writes, of the database's samples", "writes", at_most(5), MANY, "%").says(
            "The database spends hardly any of its time on writing to files.",
            "The database spends some of its time on writing to files.",
        ),
        steady("reports that list what is ordered most often", "right", exactly(1)).says(
            "The report lists what is ordered most often, also what was entered a moment ago.",
            "The report does not list what is ordered most often now.",
        ),
    ),
    evidence=(
        grows_per("temporary tables on disk, per query", "created", "asked", at_least(50)).seen(
            "db", "mysql -e \"SHOW GLOBAL STATUS LIKE 'Created_tmp%'\""
        ),
        # To read performance_schema makes a few, also in a database that is idle.
        grows("temporary tables on disk", "created", at_least(50)).seen(
            "db", f"mysqladmin extended-status | grep {CREATED}"
        ),
    ),
    asks=(said("the report", f"{MYSQL} <{REPORT}"),),
)
