"""missing-index: no index on orders, so each booking reads all 52,219 of them."""

from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.check import Check, Measure, Sign
from faultlab.lab.limits import at_least, at_least_times, at_most, at_most_times
from faultlab.probes import mysql, wrk

TAKEN = """SELECT t.number FROM booking.orders o JOIN booking.tables t ON t.id = o.table_id
WHERE o.restaurant_id = 7 AND o.dining_date = '2027-01-01'
AND o.dining_time > '10:00' AND o.dining_time < '14:00'"""
FROM_ORDERS = "FROM `orders`"  # as performance_schema writes it


@dataclass(frozen=True)
class Look:
    """Eight partners that book tables."""

    load: wrk.Load


@dataclass(frozen=True)
class Watch:
    """The statements of the database, and its plan to look for the tables that are taken."""

    statements: list[mysql.Statement]
    plan: mysql.Plan


def look(at: Stack) -> Look:
    """A second of orders."""
    return Look(wrk.bookings(at["client"], connections=8, seconds=at.pace.seconds(1)))


def watch(at: Stack) -> Watch:
    """Read performance_schema, and ask for the plan."""
    return Watch(mysql.statements(at["db"]), mysql.explain(at["db"], TAKEN))


def examined(before: Watch, after: Watch) -> float:
    """Rows that one look into the orders reads."""
    return mysql.examined(before.statements, after.statements, FROM_ORDERS)


STEADY = at_most(1)

CHECK = Check(
    look=look,
    watch=watch,
    symptom=(
        Measure(
            "bookings",
            lambda r: r.load.good_per_second,
            at_least_times(0.7),
            at_most_times(0.5),
            "/s",
        ),
        Measure(
            "median time of a booking",
            lambda r: r.load.p50,
            at_most_times(1.5),
            at_least_times(2.1),
            "s",
        ),
        Measure("requests that fail", lambda r: 100 * r.load.failed_share, STEADY, STEADY, "%"),
    ),
    evidence=(
        Sign(
            "rows read to find the tables that are taken",
            examined,
            at_least(25_000),
            at="db",
            command=mysql.TYPED_STATEMENTS,
        ),
        Sign(
            "rows of orders that the plan reads",
            lambda before, after: after.plan.rows("o"),
            at_least(25_000),
            at="db",
            command="mysql booking -e 'EXPLAIN SELECT … FROM orders o JOIN tables t …'",
        ),
    ),
)
