"""slow-join: a join looks up the price of the day without an index on the part."""

from faultlab.engine.stack import Stack
from faultlab.lab.asks import page
from faultlab.lab.check import Check, Evidence
from faultlab.lab.limits import at_least
from faultlab.lab.measures import delay, ends, failing, rate
from faultlab.probes import ab, mysql, wrk

ACCOUNT = "http://app:8080/account.jsp?customer="
CUSTOMERS = 1000
BOUGHT = """SELECT p.p_name, l.l_quantity, l.l_quantity * h.h_price AS paid FROM warehouse.orders o
JOIN warehouse.lineitem l ON l.l_orderkey = o.o_orderkey
JOIN warehouse.part p ON p.p_partkey = l.l_partkey
JOIN warehouse.price_history h ON h.h_partkey = l.l_partkey
AND h.h_from <= l.l_shipdate AND h.h_until > l.l_shipdate
WHERE o.o_custkey = 7 ORDER BY paid DESC LIMIT 20"""
PRICES = "`price_history`"


def look(stack: Stack) -> wrk.Look:
    """Let customers look at what they have bought, after a warm-up in which Java compiles the page.

    Each request is for another customer, so remembering the pages of earlier ones does not help.
    """
    client, seconds = stack.user(), stack.pace.seconds(1)
    ab.warm(client, f"'{ACCOUNT}7'", visitors=4, requests=100, seconds=1)
    how = {"most": CUSTOMERS, "connections": 4, "seconds": seconds}
    return wrk.Look(wrk.numbered(client, ACCOUNT, **how))


def inspect(stack: Stack) -> mysql.Asked:
    """Read the statement summary, and the plan of the query that looks up the prices."""
    return mysql.asked(stack["db"], BOUGHT)


def examined(before: mysql.Asked, after: mysql.Asked) -> float:
    """Return the rows that are read for one page."""
    return mysql.examined(before.statements, after.statements, PRICES)


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        rate("pages", "load.good_per_second", good=0.3, bad=0.1).says(
            "The shop serves about as many pages as before.",
            "The shop serves far fewer pages than before.",
        ),
        delay("median time of a page", "load.p50", good=4, bad=10).says(
            "A page comes about as quickly as before.", "A page takes far longer than before."
        ),
        failing("pages").says("Hardly any page fails.", "Some pages fail."),
    ),
    evidence=(
        Evidence("rows read for a page of twenty lines", examined, at_least(200_000)).seen(
            "db", mysql.TYPED_STATEMENTS
        ),
        ends(
            "range checked for each record", lambda now: int(now.plan.range_checked), at_least(1)
        ).seen("db", "mysql -e 'EXPLAIN SELECT … JOIN warehouse.price_history …'"),
    ),
    asks=(page(ACCOUNT + "{n}", times=4, most=CUSTOMERS, seconds=20),),
)
