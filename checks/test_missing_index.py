"""missing-index: orders has no index on the restaurant, so each booking reads all of them."""

from faultlab.engine.stack import Stack
from faultlab.lab.asks import booking
from faultlab.lab.check import Check, Evidence
from faultlab.lab.limits import at_least
from faultlab.lab.measures import delay, ends, failing, kept, rate
from faultlab.probes import mysql, wrk

TAKEN = """SELECT t.number FROM booking.orders o JOIN booking.tables t ON t.id = o.table_id
WHERE o.restaurant_id = 7 AND o.dining_date = '2027-01-01'
AND o.dining_time > '10:00' AND o.dining_time < '14:00'"""
FROM_ORDERS = "FROM `orders`"  # as performance_schema writes it


def look(stack: Stack) -> wrk.Booked:
    """Let eight partners book tables for a second."""
    return wrk.booked(stack.user(), connections=8, seconds=stack.pace.seconds(1))


def inspect(stack: Stack) -> mysql.Asked:
    """Read the statement summary, and the plan of the query for the tables that are taken."""
    return mysql.asked(stack.sidecar("mysql"), TAKEN)


def examined(before: mysql.Asked, after: mysql.Asked) -> float:
    """Return the rows that one query of the orders reads."""
    return mysql.examined(before.statements, after.statements, FROM_ORDERS)


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        kept(),
        rate("bookings", "load.good_per_second", good=0.7, bad=0.5).says(
            "Partners make about as many bookings as before.",
            "Partners make fewer bookings than before.",
        ),
        delay("median time of a booking", "load.p50", good=1.5, bad=2.1).says(
            "Responses come about as quickly as before.", "Responses take longer than before."
        ),
        failing("requests").says("Hardly any booking fails.", "Some bookings fail."),
    ),
    evidence=(
        Evidence("rows read to find the tables that are taken", examined, at_least(25_000)).seen(
            "db", mysql.TYPED_STATEMENTS
        ),
        ends(
            "rows of orders that the plan reads", lambda now: now.plan.rows("o"), at_least(25_000)
        ).seen("db", "mysql booking -e 'EXPLAIN SELECT … FROM orders o JOIN tables t …'"),
    ),
    asks=booking(),
)
