"""query-cache: the database computes the same results again for each user."""

from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.asks import new_order, page
from faultlab.lab.check import Check, Evidence
from faultlab.lab.limits import at_least
from faultlab.lab.measures import delay, failing, rate
from faultlab.probes import ab, cgroup, mysql, wrk

MONTH = "http://app:8080/popular.jsp?month="
MONTHS = 12
ASKED = "Com_select"
COUNTS = "MONTH ("  # in the statements that count orders, as performance_schema writes it


@dataclass(frozen=True)
class Look:
    """The load of eight users, and the CPU time that it cost the database, in seconds."""

    load: wrk.Load
    cpu: float

    @property
    def cpu_a_page(self) -> float:
        """Return the CPU time of the database for a page, in milliseconds."""
        return 1000 * self.cpu / max(1, self.load.requests)


@dataclass(frozen=True)
class Inspection:
    """The counter of queries of the database, and the statements that it worked out."""

    counters: dict[str, int]
    statements: list[mysql.Statement]


def look(stack: Stack) -> Look:
    """Let users open the pages of all months for a second, after a warm-up.

    In the warm-up Java compiles the page, and what is kept of each month is made.
    """
    client, seconds = stack.user(), stack.pace.seconds(1)
    client.run(f"curl -sm 20 -o /dev/null '{MONTH}[1-{MONTHS}]'", timeout=60)
    month = f"{MONTH}{stack.dice.randint(1, MONTHS)}"
    ab.warm(client, month, visitors=8, requests=200, seconds=1)
    before = cgroup.read(stack.sidecar("mysql")).cpu
    load = wrk.numbered(client, MONTH, most=MONTHS, connections=8, seconds=seconds)
    return Look(load, cgroup.read(stack.sidecar("mysql")).cpu - before)


def inspect(stack: Stack) -> Inspection:
    """Read the counter and the statement summary."""
    db = stack.sidecar("mysql")
    return Inspection(mysql.counters(db, [ASKED]), mysql.statements(db))


def counted(before: Inspection, after: Inspection) -> float:
    """Return the rows that were read to count orders, for each SELECT of any kind.

    `Com_select` of MariaDB contains those SELECTs whose result came from the query cache.
    """
    ran = mysql.between(before.statements, after.statements)
    rows = sum(s.examined for s in ran if s.text.startswith("SELECT") and COUNTS in s.text)
    return rows / max(1, after.counters[ASKED] - before.counters[ASKED])


# With a summary table the shop serves a quarter to a half of the pages that it serves from the
# cache, and with an index for the month of a date a twelfth. With the fault it is a 400th.

CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        rate("pages", "load.good_per_second", good=0.03, bad=0.01).says(
            "The shop serves many times as many pages as it did when the ticket came.",
            "The shop serves less than a thirtieth of the pages that it served before.",
        ),
        delay(
            "processor time of the database for a page", "cpu_a_page", good=100, bad=400, unit="ms"
        ).says(
            "A page costs the database a small part of the work that it did when the ticket came.",
            "A page costs the database more than a hundred times as much work as before.",
        ),
        failing("pages").says("Hardly any page fails.", "Some pages fail."),
    ),
    evidence=(
        Evidence("rows read to count orders, for each SELECT", counted, at_least(20_000)).seen(
            "db", mysql.TYPED_STATEMENTS
        ),
    ),
    asks=(
        new_order(),
        page(MONTH + "{n}", times=6, most=MONTHS, seconds=20),
    ),
)
