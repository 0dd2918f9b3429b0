"""max-connections: two PHP machines want 48 connections, and the database allows 30."""

from dataclasses import dataclass, replace

from faultlab.engine.shell import Shell
from faultlab.engine.stack import Stack
from faultlab.lab.asks import booking, page
from faultlab.lab.check import Check
from faultlab.lab.limits import at_least, at_most, exactly
from faultlab.lab.measures import ends, grows, share, steady
from faultlab.probes import ab, curl, log, mysql

PAGES = 144  # three for each worker: they take turns
USERS = 20  # at once, as the ticket expects them
RUSH = 6  # seconds; PHP-FPM starts further workers once a second, where it may
PAGE = (
    "http://web/booking/restaurant.php"
    "?token=token-01&restaurant={n}&date=2026-06-05&time=18:00&guests=2"
)
KILLED = "SHOW GLOBAL STATUS LIKE 'Com_kill'"
REFUSED = "Too many connections"  # as the database says it to PHP, and PHP to nginx


@dataclass(frozen=True)
class Look:
    """How many of the pages came, one after the other, after many users at once.

    `killed`: sessions of the database that were killed meanwhile.
    """

    arrived: int
    killed: int = 0


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
    user, db, url = stack.user(), stack.sidecar("mysql"), PAGE.format(n=stack.dice.randint(1, 50))
    before = kills(db)
    ab.warm(user, f"'{url}'", visitors=USERS, requests=100_000, seconds=stack.pace.seconds(RUSH))
    arrived = curl.one_by_one(user, url, count=PAGES, max_time=5, seconds=20)
    after = kills(db)
    return Look(arrived, 0 if before is None or after is None else after - before)


def kills(db: Shell) -> int | None:
    """Return how many sessions were killed so far; None if a learner has root's last connection."""
    done = db.run(f'mysql -BNe "{KILLED}"')
    return None if done.code else int(done.out.split()[1])


def inspect(stack: Stack) -> Inspection:
    """Read nginx's log, and ask the database as root, for whom it keeps one more connection."""
    db = stack.sidecar("mysql")
    connected = mysql.counters(db, ["Threads_connected"])["Threads_connected"]
    most = int(db.must("mysql -BNe 'SELECT @@max_connections'"))
    refused = log.count(stack.sidecar("web"), log.NGINX_ERROR, REFUSED)
    return Inspection(refused, connected, most)


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        share("pages that fail", lambda now: 1 - now.arrived / PAGES, good=0, bad=15).says(
            "Every page of the booking service comes.",
            "Some pages of the booking service do not come.",
        ),
        steady("programs that are cut off", "killed", exactly(0)).says(
            "No program is cut off from the database.",
            "Something cuts off programs from the database.",
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
