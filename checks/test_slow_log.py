"""slow-log: the log keeps what takes 10 s or more, and a page reads all orders for one month's.

The numbers of the log do not depend on the speed of the page, because they leave the export out.
Beside a quick page, such as one from the query cache, the export can be what takes most of the
time. Then a log that has the export only would be right by chance.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from faultlab.engine.stack import Stack
from faultlab.lab.asks import new_order, page
from faultlab.lab.check import Check, Evidence, Measure
from faultlab.lab.limits import at_least, at_most, exactly
from faultlab.lab.measures import failing, rate
from faultlab.probes import ab, log, mysql, slowlog, wrk

POPULAR = "http://app:8080/popular.jsp?month={n}"
MONTH = "http://app:8080/popular.jsp?month="
# A partner fetches its orders one by one, and works on each of them. It delays no other query.
EXPORT = "SELECT id, guest_name, SLEEP(0.011) FROM booking.orders WHERE token_id = 7 LIMIT 940"
SECONDS = 4  # of the eleven that the export takes
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
        return _percent(sum(s.seconds for s in named if s), self.ran)

    @property
    def worked(self) -> list[mysql.Statement]:
        """Return the statements that ran, without the export, which waits most of its time."""
        return [s for s in self.ran if "SLEEP" not in s.text]

    @property
    def kept_share(self) -> float:
        """Return the share of their time of the runs that the log has, in percent."""
        kept = dict.fromkeys(self.worked, 0)
        for entry in self.logged:
            if (statement := entry.statement(self.ran)) in kept:
                kept[statement] += entry.calls
        seconds = sum(s.seconds * min(1, calls / s.calls) for s, calls in kept.items())
        return _percent(seconds, self.worked)

    @property
    def right(self) -> int:
        """Return 1 when the log's first statement is one of the two that took most of the time."""
        named = (entry.statement(self.ran) for entry in self.logged if "sleep" not in entry.form)
        return int(next(named, None) in self.worked[:2])


def _percent(seconds: float, ran: list[mysql.Statement]) -> float:
    """Return the share of the statements' time; 0 while performance_schema is off."""
    return 100 * seconds / sum(s.seconds for s in ran) if ran else 0.0


@dataclass(frozen=True)
class Inspection:
    """The number of entries in the log, and the statements that the server ran."""

    entries: int
    counters: dict[str, int]
    statements: list[mysql.Statement] = field(default_factory=list)


def look(stack: Stack) -> Look:
    """Let users open the page for some of the export's seconds, after the job; sum the log up."""
    client, db = stack.user(), stack.sidecar("mysql")
    start, before = slowlog.mark(db), mysql.statements(db)
    with ThreadPoolExecutor(1) as pool:
        export = pool.submit(
            client.must, f"mysql -h db -ubooking -pbooking -e '{EXPORT}' >/dev/null", 60
        )
        client.must(f"mysql -h db -ushop -pshop -e '{JOB}' >/dev/null")
        ab.warm(client, f"'{MONTH}5'", visitors=12, requests=1000, seconds=3)
        seconds = stack.pace.seconds(SECONDS)
        load = wrk.numbered(client, MONTH, most=12, connections=12, seconds=seconds)
        export.result()
    ran = mysql.between(before, mysql.statements(db))
    return Look(load, slowlog.since(db, start), [s for s in ran if s.text.startswith("SELECT")])


def inspect(stack: Stack) -> Inspection:
    """Count the entries and the statements."""
    db = stack.sidecar("mysql")
    return Inspection(
        entries=log.count(db, slowlog.FILE, slowlog.ENTRY),
        counters=mysql.counters(db, ["Questions"]),
        statements=mysql.statements(db),
    )


def unseen(before: Inspection, after: Inspection) -> float:
    """Return the statements for each one that the log has kept; 0 when it keeps none."""
    kept = after.entries - before.entries
    ran = after.counters["Questions"] - before.counters["Questions"]
    return ran / kept if kept > 0 else 0.0


def examined(before: Inspection, after: Inspection) -> float:
    """Return the rows that are read for one of the page's two queries."""
    return mysql.examined(before.statements, after.statements, "`evenings`")


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        Measure(
            "share of the statements' time that is in the log, the export aside",
            "kept_share",
            at_least(10),  # log_slow_rate_limit = 5 keeps one statement in five
            at_most(2),
            "%",
            fault="log",
        ).says(
            "The report has the queries that take the database's time.",
            "The report does not have the queries that take the database's time.",
        ),
        Measure(
            "the log puts one of the two that cost most first, the export aside",
            "right",
            exactly(1),
            exactly(0),
            fault="log",
        ).says(
            "The export aside, the report begins with one of the two queries that cost most.",
            "The export aside, the report begins with neither of the two queries that cost most.",
        ),
        rate("pages", "load.good_per_second", good=0.5, bad=0.2, fault="index").says(
            "The shop serves about as many pages as before.",
            "The shop serves far fewer pages than before.",
        ),
        failing("pages").says("Hardly any page fails.", "Some pages fail."),
    ),
    evidence=(
        Evidence(
            "statements for each one that the log has kept", unseen, at_least(50), fault="log"
        ).seen("db", "mysqladmin status; grep -c Query_time /var/log/mysql/slow.log"),
        Evidence(
            "rows read for a query of the page", examined, at_least(25_000), fault="index"
        ).seen("db", mysql.TYPED_STATEMENTS),
    ),
    asks=(page(POPULAR, times=3, most=12, seconds=20), new_order()),
)
