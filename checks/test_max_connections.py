"""max-connections: two PHP machines want 48 connections, and the database allows 30."""

from dataclasses import dataclass, replace

from faultlab.engine.stack import Stack
from faultlab.lab.asks import booking, page
from faultlab.lab.check import Check
from faultlab.lab.limits import at_least, at_most
from faultlab.lab.measures import ends, grows, share
from faultlab.probes import ab, curl, log, mysql

PAGES = 144  # three for each worker: they take turns
USERS = 20  # at once, as the ticket expects them
RUSH = 6  # seconds; PHP-FPM starts further workers once a second, where it may
PAGE = (
    "http://web/booking/restaurant.php"
    "?token=token-01&restaurant={n}&date=2026-06-05&time=18:00&guests=2"
)
REFUSED = "Too many connections"  # as the database says it to PHP, and PHP to nginx


@dataclass(frozen=True)
class Look:
    """How many of the pages came, one after the other, after many users at once."""

    arrived: int


@dataclass(frozen=True)
class Inspection:
    """How often PHP has logged a login that was refused; the sessions now, and their limit."""

    refused: int
    connected: int
    most: int


def look(stack: Stack) -> Look:
    """Let one user open a page of the booking service again and again.

    Before that many users come at once. The workers that serve them keep their connections.
    """
    user, url = stack.user(), PAGE.format(n=7)
    ab.warm(user, f"'{url}'", visitors=USERS, requests=100_000, seconds=stack.pace.seconds(RUSH))
    return Look(curl.one_by_one(user, url, count=PAGES, max_time=5, seconds=20))


def inspect(stack: Stack) -> Inspection:
    """Read nginx's log, and ask the database as root, for whom it keeps one more connection."""
    connected = mysql.counters(stack["mysql"], ["Threads_connected"])["Threads_connected"]
    most = int(stack["mysql"].must("mysql -BNe 'SELECT @@max_connections'"))
    return Inspection(log.count(stack["web"], log.NGINX_ERROR, REFUSED), connected, most)


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        share("pages that fail", lambda now: 1 - now.arrived / PAGES, good=0, bad=15).says(
            "Every page of the booking service comes.",
            "Many pages of the booking service are an error message.",
        ),
    ),
    evidence=(
        grows("logins that the limit refuses", "refused", at_least(1), "lines").seen(
            "web", f"grep -c '{REFUSED}' {log.NGINX_ERROR}"
        ),
        # One of them is root's own. Without the fault five or more are left.
        ends("connections that are left", lambda now: now.most - now.connected, at_most(1)).seen(
            "db", "mysql -e 'SELECT @@max_connections; SHOW PROCESSLIST'"
        ),
    ),
    asks=(replace(page(PAGE, times=20, most=50), name="twenty pages at once"), *booking()),
)
