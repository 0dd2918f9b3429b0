"""stampede: a page that many users want has expired, and each of them makes a new one."""

import re
import secrets
import time
from dataclasses import dataclass

from faultlab.engine.shell import Shell
from faultlab.engine.stack import Stack
from faultlab.lab.asks import new_order
from faultlab.lab.check import Check
from faultlab.lab.limits import at_least
from faultlab.lab.measures import ends, share
from faultlab.probes import mysql

USERS = 40
PAGE = "http://app:8080/popular.jsp"
# memcached says for how many seconds more it keeps the page. Users then come for so many seconds
# that a page as old as the ticket allows, ten seconds and a few, is made again meanwhile.
LIFETIME = "printf 'mg popular-{month} t\\r\\nquit\\r\\n' | timeout 2 nc cache 11211"
LONGEST = 4
SECONDS = 12
PATIENCE = 20
# The digest of the page of one user, if both tables of the month are in it.
FIRST = f"""cd /tmp && rm -f popular; curl -sfm {PATIENCE} -o popular '{PAGE}?month=MONTH'
grep -q 'month MONTH,' popular && [ $(grep -o '</table>' popular | wc -l) -ge 2 ] &&
sha256sum <popular | cut -c1-64"""
# Forty users come at once, in each of so many seconds. How many of them get the same page within
# two seconds: a number for each second.
CROWD = f"""cd $(mktemp -d) && for second in $(seq SECONDS); do mkdir $second
curl -s --parallel --parallel-immediate --parallel-max {USERS} -m 2 -o "$second/#1" \\
'{PAGE}?month=MONTH&visit=[1-{USERS}]' 2>/dev/null & [ SECONDS = 1 ] || sleep 1; done; wait
for second in $(seq SECONDS); do sha256sum $second/* 2>/dev/null | grep -c '^DIGEST '; done
rm -r $PWD"""


@dataclass(frozen=True)
class Look:
    """Users of forty who got the page in time, in the second in which fewest did."""

    served: int


@dataclass(frozen=True)
class Inspection:
    """The sessions that run the same query now."""

    copies: int


def look(stack: Stack) -> Look:
    """One user sees the page of any month. When it has expired, all others want it at once.

    If all get it, as many come in each of the next seconds. The first month is the one that the
    page shows without a number, so none asks for that.
    """
    user, quiet = stack.user(), time.monotonic() + PATIENCE
    month = secrets.choice(range(2, 13))
    while inspect(stack).copies > 1 and time.monotonic() < quiet:
        time.sleep(0.5)  # users of an earlier look have left work behind, and it still makes pages
    first = user.run(FIRST.replace("MONTH", str(month)), timeout=PATIENCE + 10).out.strip()
    left = re.match(r"HD t(\d+)", user.run(LIFETIME.format(month=month)).out)
    time.sleep(min(LONGEST, int(left[1]) + 1.2 if left else LONGEST))
    served = crowd(user, month, first, 1)
    return Look(served if served < USERS else crowd(user, month, first, SECONDS))


def crowd(user: Shell, month: int, page: str, seconds: int) -> int:
    """Let users come for so many seconds; return how many got that page in the worst of them."""
    command = CROWD.replace("MONTH", str(month)).replace("SECONDS", str(seconds))
    out = user.run(command.replace("DIGEST", page or "none"), timeout=seconds + 30).out
    return min(map(int, out.split()), default=0)


def inspect(stack: Stack) -> Inspection:
    """Ask the database."""
    return Inspection(mysql.copies(stack["mysql"]))


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        share("users without the page", lambda now: 1 - now.served / USERS, good=1, bad=50).says(
            "All users see the page.", "Users wait for the page in vain."
        ),
    ),
    evidence=(
        ends("sessions that run the same query", "copies", at_least(5)).seen(
            "db", "mysql -e 'SHOW PROCESSLIST'"
        ),
    ),
    asks=(new_order(),),
)
