"""stampede: a page that many users want has expired, and each of them makes a new one."""

import re
import time
from collections import Counter
from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.asks import new_order
from faultlab.lab.check import Check
from faultlab.lab.limits import at_least, at_most
from faultlab.lab.measures import ends, share, steady
from faultlab.probes import cgroup, mysql

USERS = 40
PAGE = "http://app:8080/popular.jsp"
# memcached says for how many seconds more it keeps the page. Users then come for so many seconds
# that a page as old as the ticket allows, ten seconds and a few, is made again meanwhile.
LIFETIME = "printf 'mg popular-{month} t\\r\\nquit\\r\\n' | timeout 2 nc cache 11211"
LONGEST = 4
SECONDS = 12
PATIENCE = 20
# The digest of the page of one user, if both tables of the month are in it.
ONE = f"""cd /tmp && rm -f popular; curl -sfm {PATIENCE} -o popular '{PAGE}?month=MONTH'
grep -q 'month MONTH,' popular && [ $(grep -o '</table>' popular | wc -l) -ge 2 ] &&
sha256sum <popular | cut -c1-64"""
# Forty users come at once, in each of so many seconds. A line for each page that one of them gets
# within two seconds: the second, and the digest.
CROWD = f"""cd $(mktemp -d) && for second in $(seq SECONDS); do mkdir $second
curl -s --parallel --parallel-immediate --parallel-max {USERS} -m 2 -o "$second/#1" \\
'{PAGE}?month=MONTH&visit=[1-{USERS}]' 2>/dev/null & [ SECONDS = 1 ] || sleep 1; done; wait
for second in $(seq SECONDS); do sha256sum $second/* 2>/dev/null | sed "s/ .*//; s/^/$second /"
done; rm -r $PWD"""
# The list changes once. Then orders of another month are entered and cancelled all the time.
ITS = "guest_name = 'an order of the crowd'"
ENTERED = f"""INSERT INTO orders SET restaurant_id = 7, table_id = 181, token_id = 1, {ITS},
dining_time = '{{hour}}:00', dining_date ="""
BOOK = "mysql -hdb -ubooking -pbooking booking"
REMOVED = f"DELETE FROM orders WHERE {ITS}"
ORDERS = f"""{{{{ echo "{ENTERED} '2027-{{month}}-15', guests = 120;"
yes "{ENTERED} '2027-{{other}}-15', guests = 2; DO SLEEP({{pause}}); {REMOVED} AND guests = 2;"
}}}} 2>/dev/null | timeout {SECONDS + 3} {BOOK} >/dev/null 2>&1 &
"""


@dataclass(frozen=True)
class Look:
    """Users of forty who got the page in time, in the second in which fewest did.

    `late`: users who got a list that was older than ten seconds. `cpus`: of the database.
    """

    served: int
    late: int = 0
    cpus: float = 0.5


@dataclass(frozen=True)
class Inspection:
    """The sessions that run the same query now."""

    copies: int


def look(stack: Stack) -> Look:
    """One user sees the page of any month. When it has expired, all others want it at once.

    If all get it, as many come in each of the next seconds, while orders are entered. The first
    month is the one that the page shows without a number, so none asks for that.
    """
    dice, quiet = stack.dice, time.monotonic() + PATIENCE
    month = dice.randint(2, 12)
    while inspect(stack).copies > 1 and time.monotonic() < quiet:
        time.sleep(0.5)  # users of an earlier look have left work behind, and it still makes pages
    first = one(stack, month)
    left = re.match(r"HD t(\d+)", stack.user().run(LIFETIME.format(month=month)).out)
    pause = dice.uniform(1.05, 1.5)
    time.sleep(min(LONGEST, int(left[1]) + pause if left else LONGEST))
    served, late = crowd(stack, month, "", 1)[1][first], 0
    if served == USERS:
        try:
            served, late = rush(stack, month, first)
        finally:
            stack.user().run(f'{BOOK} -e "{REMOVED}"')
    return Look(served, late, cgroup.read(stack.sidecar("mysql")).cpus)


def rush(stack: Stack, month: int, first: str) -> tuple[int, int]:
    """Let users come for seconds; return how many got the page in the worst, and how many late."""
    dice = stack.dice
    other = dice.choice([n for n in range(1, 13) if n != month])
    facts = {"hour": dice.randint(11, 21), "pause": round(dice.uniform(0.1, 0.4), 2)}
    orders = ORDERS.format(month=month, other=other, **facts)
    seen = crowd(stack, month, orders, SECONDS)
    last = one(stack, month)
    counts = [seen[second][first] + (last != first) * seen[second][last] for second in seen]
    return min(counts, default=0), seen[SECONDS][first]


def one(stack: Stack, month: int) -> str:
    """Return the digest of the page that a user gets; `none` without one."""
    command = ONE.replace("MONTH", str(month))
    return stack.user().run(command, timeout=PATIENCE + 10).out.strip() or "none"


def crowd(stack: Stack, month: int, before: str, seconds: int) -> dict[int, Counter[str]]:
    """Let users come for so many seconds; return which pages they got in each of them."""
    command = CROWD.replace("MONTH", str(month)).replace("SECONDS", str(seconds))
    out = stack.user().run(before + command, timeout=seconds + 30).out
    rows = [line.split() for line in out.splitlines()]
    return {n: Counter(row[1] for row in rows if row[0] == str(n)) for n in range(1, seconds + 1)}


def inspect(stack: Stack) -> Inspection:
    """Ask the database."""
    return Inspection(mysql.copies(stack.sidecar("mysql")))


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        share("users without the page", lambda now: 1 - now.served / USERS, good=1, bad=50).says(
            "Nearly all users see the page.", "Some users do not get the page."
        ),
        steady("users with a list older than ten seconds", "late", at_most(0)).says(
            "The list follows new orders within ten seconds.",
            "Users see a list that is older than ten seconds.",
        ),
        steady("CPUs of the database", "cpus", at_most(0.5)).says(
            "The database has the half CPU that it is allowed.",
            "The database has more than the half CPU that it is allowed.",
        ),
    ),
    evidence=(
        ends("sessions that run the same query", "copies", at_least(5)).seen(
            "db", "mysql -e 'SHOW PROCESSLIST'"
        ),
    ),
    asks=(new_order(),),
)
