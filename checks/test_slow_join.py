"""slow-join: the price of the day is joined without an index on the part."""

from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.check import Check, Measure, Sign
from faultlab.lab.limits import at_least, at_least_times, at_most, at_most_times
from faultlab.probes import ab, mysql, wrk

PAGE = "http://app:8080/account.jsp?customer=7"
BOUGHT = """SELECT p.p_name, l.l_quantity, l.l_quantity * h.h_price AS paid FROM warehouse.orders o
JOIN warehouse.lineitem l ON l.l_orderkey = o.o_orderkey
JOIN warehouse.part p ON p.p_partkey = l.l_partkey
JOIN warehouse.price_history h ON h.h_partkey = l.l_partkey
AND h.h_from <= l.l_shipdate AND h.h_until > l.l_shipdate
WHERE o.o_custkey = 7 ORDER BY paid DESC LIMIT 20"""
PRICES = "`price_history`"


@dataclass(frozen=True)
class Look:
    """Four customers who look at what they have bought."""

    load: wrk.Load


@dataclass(frozen=True)
class Watch:
    """The statements of the database, and its plan to look for the prices."""

    statements: list[mysql.Statement]
    plan: mysql.Plan


def look(at: Stack) -> Look:
    """A second of pages, after some that Java compiles the page with."""
    ab.warm(at["client"], f"'{PAGE}'", visitors=4, requests=100, seconds=1)
    return Look(
        wrk.load(at["client"], f"'{PAGE}'", connections=4, seconds=at.pace.seconds(1), timeout=20)
    )


def watch(at: Stack) -> Watch:
    """Read performance_schema, and ask for the plan."""
    return Watch(mysql.statements(at["db"]), mysql.explain(at["db"], BOUGHT))


def examined(before: Watch, after: Watch) -> float:
    """Rows read for one page."""
    return mysql.examined(before.statements, after.statements, PRICES)


STEADY = at_most(1)

CHECK = Check(
    look=look,
    watch=watch,
    symptom=(
        Measure(
            "pages", lambda r: r.load.good_per_second, at_least_times(0.3), at_most_times(0.1), "/s"
        ),
        Measure(
            "median time of a page",
            lambda r: r.load.p50,
            at_most_times(4),
            at_least_times(10),
            "s",
        ),
        Measure("pages that fail", lambda r: 100 * r.load.failed_share, STEADY, STEADY, "%"),
    ),
    evidence=(
        Sign(
            "rows read for a page of twenty lines",
            examined,
            at_least(200_000),
            at="db",
            command=mysql.TYPED_STATEMENTS,
        ),
        Sign(
            "range checked for each record",
            lambda before, after: int(after.plan.range_checked),
            at_least(1),
            at="db",
            command="mysql -e 'EXPLAIN SELECT … JOIN warehouse.price_history …'",
        ),
    ),
)
