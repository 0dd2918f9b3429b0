"""slow-join: a join looks up the price of the day without an index on the part."""

import time
from dataclasses import dataclass

from faultlab.engine.shell import Shell
from faultlab.engine.stack import Stack
from faultlab.lab.asks import page
from faultlab.lab.check import Check, Evidence
from faultlab.lab.limits import at_least, exactly
from faultlab.lab.measures import delay, ends, failing, rate, steady
from faultlab.probes import ab, mysql, wrk

ACCOUNT = "http://app:8080/account.jsp?customer="
CUSTOMERS = 1500
BOUGHT = """SELECT p.p_name, l.l_quantity, l.l_quantity * h.h_price AS paid FROM warehouse.orders o
JOIN warehouse.lineitem l ON l.l_orderkey = o.o_orderkey
JOIN warehouse.part p ON p.p_partkey = l.l_partkey
JOIN warehouse.price_history h ON h.h_partkey = l.l_partkey
AND h.h_from <= l.l_shipdate AND h.h_until > l.l_shipdate
WHERE o.o_custkey = 7 ORDER BY paid DESC LIMIT 20"""
PRICES = "`price_history`"
# An order of one line. No other has so many pieces, so it is the first on its customer's page.
ORDER = 4_000_000_001
REMOVED = f"""DELETE FROM lineitem WHERE l_orderkey = {ORDER};
DELETE FROM orders WHERE o_orderkey = {ORDER};"""
ENTERED = f"""{REMOVED}
INSERT INTO orders (o_orderkey, o_custkey, o_orderstatus, o_orderdate, o_orderpriority, o_comment)
VALUES ({ORDER}, {{customer}}, 'O', '{{day}}', '5-LOW', 'an order of the check');
INSERT INTO lineitem (l_orderkey, l_linenumber, l_partkey, l_suppkey, l_quantity, l_extendedprice,
l_discount, l_returnflag, l_shipdate, l_comment)
SELECT {ORDER}, 1, h_partkey, 1, 255, 255 * h_price, 0, 'N', '{{day}}', 'a line of the check'
FROM price_history WHERE h_partkey = {{part}} AND h_from <= '{{day}}' AND h_until > '{{day}}';
SELECT CONCAT_WS('</td><td>', p_name, l_quantity, l_extendedprice)
FROM lineitem JOIN part ON p_partkey = l_partkey WHERE l_orderkey = {ORDER};"""
PATIENCE = 3  # seconds after the load, in which the page must show the order


@dataclass(frozen=True)
class Look(wrk.Look):
    """The load; `follows`: whether a page shows what its customer has just bought."""

    follows: bool = True


def look(stack: Stack) -> Look:
    """Let customers look at what they have bought, after a warm-up in which Java compiles the page.

    Each request is for another customer, so remembering the pages of earlier ones does not help.
    Nor does what was remembered before the look, because a customer has bought something since.
    """
    client, db, seconds = stack.user(), stack.sidecar("mysql"), stack.pace.seconds(1)
    customer, part, day = (stack.dice.randint(1, most) for most in (CUSTOMERS, 2000, 28))
    sql = ENTERED.format(customer=customer, part=part, day=f"{1992 + part % 7}-05-{day:02}")
    try:
        line = db.run(f'mysql -BN warehouse -e "{sql}"').out.strip()
        ab.warm(client, f"'{ACCOUNT}7'", visitors=4, requests=100, seconds=1)
        how = {"most": CUSTOMERS, "connections": 4, "seconds": seconds}
        load = wrk.numbered(client, ACCOUNT, **how)
        return Look(load, shows(client, f"{ACCOUNT}{customer}", line))
    finally:
        db.run(f'mysql warehouse -e "{REMOVED}"')


def shows(client: Shell, url: str, line: str) -> bool:
    """Return whether a page has the line, or gets it soon."""
    until = time.monotonic() + PATIENCE
    while not (found := line in client.run(f"curl -s -m 9 '{url}'").out):
        if time.monotonic() > until:
            break
        time.sleep(0.3)
    return bool(line) and found


def inspect(stack: Stack) -> mysql.Asked:
    """Read the statement summary, and the plan of the query that looks up the prices."""
    return mysql.asked(stack.sidecar("mysql"), BOUGHT)


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
            "Responses come about as quickly as before.", "Responses take far longer than before."
        ),
        failing("pages").says("Hardly any page fails.", "Some pages fail."),
        steady("a new order on the page of its customer", "follows", exactly(1)).says(
            "The page shows what a customer has just bought.",
            "The page does not show what a customer has just bought.",
        ),
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
