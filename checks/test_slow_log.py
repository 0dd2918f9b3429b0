"""slow-log: the log keeps what takes 10 s or more, and misses the statements that cost most."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.asks import page
from faultlab.lab.check import Check, Evidence, Measure
from faultlab.lab.limits import at_least, at_most, exactly
from faultlab.probes import ab, log, mysql, slowlog, wrk

POPULAR = "http://app:8080/popular.jsp?month={n}"
PAGE = "http://app:8080/popular.jsp?month=5"
# A partner fetches its orders one by one, and works on each of them. It delays no other query.
EXPORT = "SELECT id, guest_name, SLEEP(0.011) FROM booking.orders WHERE token_id = 7 LIMIT 1000"
SECONDS = 11
# A job that reads each table of both databases once: many forms of queries, and little work.
TABLES = [
    f"booking.{name}" for name in ("restaurants", "tables", "settings", "tokens", "orders")
] + [
    f"warehouse.{name}"
    for name in ("region", "nation", "supplier", "customer", "part", "partsupp", "orders")
]
JOB = " ".join(f"SELECT COUNT(*) FROM {t}; SELECT * FROM {t} LIMIT 1;" for t in TABLES)


@dataclass(frozen=True)
class Look:
    """The load, the queries that the log names, and the statements that ran in the same seconds."""

    load: wrk.Load
    logged: list[slowlog.Logged]
    ran: list[mysql.Statement]

    @property
    def forms(self) -> int:
        """Return how many forms of queries the log names."""
        return len(self.logged)

    @property
    def named_share(self) -> float:
        """Return the share of the database's time of the log's first two statements, in percent."""
        named = {entry.statement(self.ran) for entry in self.logged[:2]}
        return 100 * sum(s.seconds for s in named if s) / sum(s.seconds for s in self.ran)

    @property
    def right(self) -> int:
        """Return 1 when the log's first statement is one of the two that took most of the time."""
        return int(bool(self.logged) and self.logged[0].statement(self.ran) in self.ran[:2])


@dataclass(frozen=True)
class Inspection:
    """The number of entries in the log, and of statements that the server ran."""

    entries: int
    counters: dict[str, int]


def look(stack: Stack) -> Look:
    """Let users open the page for eleven seconds, beside the export and the job; sum the log up."""
    client, db = stack.user(), stack["db"]
    ab.warm(client, f"'{PAGE}'", visitors=12, requests=200, seconds=1)
    start, before = slowlog.mark(db), mysql.statements(db)
    with ThreadPoolExecutor(1) as pool:
        export = pool.submit(
            client.must, f"mysql -h db -ubooking -pbooking -e '{EXPORT}' >/dev/null", 60
        )
        client.must(f"mysql -h db -ushop -pshop -e '{JOB}' >/dev/null")
        load = wrk.load(client, f"'{PAGE}'", connections=12, seconds=SECONDS, timeout=20)
        export.result()
    ran = mysql.between(before, mysql.statements(db))
    return Look(load, slowlog.since(db, start), [s for s in ran if s.text.startswith("SELECT")])


def inspect(stack: Stack) -> Inspection:
    """Count the entries and the statements."""
    return Inspection(
        entries=log.count(stack["db"], slowlog.FILE, slowlog.ENTRY),
        counters=mysql.counters(stack["db"], ["Questions"]),
    )


def unseen(before: Inspection, after: Inspection) -> float:
    """Return the statements for each one that the log has kept; 0 when it keeps none."""
    kept = after.entries - before.entries
    ran = after.counters["Questions"] - before.counters["Questions"]
    return ran / kept if kept > 0 else 0.0


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        Measure(
            "share of the database's time that the log's first two queries have",
            "named_share",
            at_least(70),
            at_most(35),
            "%",
        ).says(
            "The two queries that the report names first take most of the database's time.",
            "The two queries that the report names first take little of the database's time.",
        ),
        Measure(
            "the log puts one of the two that cost most first", "right", exactly(1), exactly(0)
        ).says(
            "The query that the report names first is one of the two that cost most.",
            "The query that the report names first is neither of the two that cost most.",
        ),
    ),
    evidence=(
        Evidence("statements for each one that the log has kept", unseen, at_least(50)).seen(
            "db", "mysqladmin status; grep -c Query_time /var/log/mysql/slow.log"
        ),
    ),
    asks=(page(POPULAR, times=3, most=12, seconds=20),),
)
