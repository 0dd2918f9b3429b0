"""stampede: a page that many users want has expired, and each of them makes a new one."""

import re
import secrets
import time
from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.asks import new_order
from faultlab.lab.check import Check
from faultlab.lab.limits import at_least
from faultlab.lab.measures import ends, share
from faultlab.probes import curl, mysql

USERS = 40
PAGE = "http://app:8080/popular.jsp"
# memcached says for how many seconds more it keeps the page; the ticket allows ten and a few.
LIFETIME = "printf 'mg popular-{month} t\\r\\nquit\\r\\n' | timeout 2 nc cache 11211"
LONGEST = 15
PATIENCE = 20


@dataclass(frozen=True)
class Look:
    """Users who got the page in time."""

    served: int


@dataclass(frozen=True)
class Inspection:
    """The sessions that run the same query now."""

    copies: int


def look(stack: Stack) -> Look:
    """One user sees the page of any month. When it has expired, all others want it at once."""
    user, quiet = stack.user(), time.monotonic() + PATIENCE
    month = secrets.randbelow(12) + 1
    while inspect(stack).copies > 1 and time.monotonic() < quiet:
        time.sleep(0.5)  # users of an earlier look have left work behind, and it still makes pages
    curl.get(user, f"{PAGE}?month={month}", PATIENCE)
    left = re.match(r"HD t(\d+)", user.run(LIFETIME.format(month=month)).out)
    time.sleep(min(LONGEST, int(left[1]) + 1.2 if left else LONGEST))
    return Look(curl.arriving(user, f"{PAGE}?month={month}&visit=", tries=USERS, max_time=2))


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
