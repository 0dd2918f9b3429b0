"""reverse-dns: the database looks up the name of each client, and its DNS server never answers."""

import time
from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.asks import booking
from faultlab.lab.check import Check, Measure
from faultlab.lab.limits import at_least, at_most, exactly
from faultlab.lab.measures import ends, steady
from faultlab.probes import curl, mysql

PAGE = (
    "http://web/booking/restaurant.php"
    "?token=token-01&restaurant={}&date=2026-05-{:02}&time=18:00&guests=2&visit="
)
PAGES = 16
LOGIN = "mysql -h db -u booking -pbooking -e 'SELECT 1' >/dev/null 2>&1"
WAITING = "SELECT COUNT(*) FROM information_schema.processlist WHERE user LIKE 'unauth%'"
FAILED = "SELECT SUM(COUNT_NAMEINFO_TRANSIENT_ERRORS) FROM performance_schema.host_cache"


@dataclass(frozen=True)
class Look:
    """One booking page, sixteen at once, and a page that needs no database.

    `prompt`: how many of the sixteen arrive within 0.8 seconds.
    """

    page: curl.Page
    prompt: int
    start: curl.Page


@dataclass(frozen=True)
class Inspection:
    """How many clients wait for their login while one logs in, and failed look-ups of names.

    The database counts these from the moment when it last forgot the names: at the start of a look.
    """

    waiting: int
    failed: int


def look(stack: Stack) -> Look:
    """Fetch the pages, one for at most four seconds. A copy of an earlier page does not count.

    Nor do connections that are open already, because they are ended. Nor do names that the database
    keeps, because it forgets them.
    """
    user, dice = stack.user(), stack.dice
    url = f"{PAGE.format(dice.randint(1, 50), dice.randint(1, 28))}{time.time_ns()}"
    mysql.end_idle(stack.sidecar("mysql"))
    mysql.forget_hosts(stack.sidecar("mysql"))
    page = curl.get(user, f"'{url}'", max_time=4)
    prompt = curl.arriving(user, f"{url}-", tries=PAGES, max_time=0.8)
    return Look(page, prompt, curl.get(user, "http://web/"))


def inspect(stack: Stack) -> Inspection:
    """Begin a login, and count the logins that are not through half a second later."""
    mysql = stack.sidecar("mysql")
    stack.user().run(f"timeout 5 {LOGIN} & sleep 0.7")
    out = mysql.must(f'mysql -BNe "{WAITING}; {FAILED}"').replace("NULL", "0")
    waiting, failed = map(int, out.split())
    return Inspection(waiting, failed)


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        Measure("time of a booking page", "page.total", at_most(0.8), at_least(2), "s").says(
            "The response to a booking comes within a second.",
            "The response to a booking takes too long.",
        ),
        Measure("pages within 0.8 s, of 16", "prompt", at_least(15), at_most(8)).says(
            "Sixteen guests at once get their pages at once.",
            "Some of the guests wait for their pages, or do not get them.",
        ),
        steady("start page: status", "start.status", exactly(200)).says(
            "The start page arrives.", "The start page does not arrive."
        ),
    ),
    evidence=(
        ends("logins that the database has not finished", "waiting", at_least(1)).seen(
            "db", "mysql -e 'SHOW PROCESSLIST'"
        ),
        ends("look-ups of a client's name that failed", "failed", at_least(1)).seen(
            "db", f"mysql -e '{FAILED}'"
        ),
    ),
    asks=booking(seconds=3),
)
