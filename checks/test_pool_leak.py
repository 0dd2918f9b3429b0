"""pool-leak: a page keeps its connection for some customers, until the pool has none left."""

from dataclasses import dataclass
from random import Random

from faultlab.engine.stack import Stack
from faultlab.lab.asks import page, said
from faultlab.lab.check import Check, Measure
from faultlab.lab.limits import at_least, at_most, exactly
from faultlab.lab.measures import grows, steady
from faultlab.probes import curl, log

STRANGERS = 220  # customers who do not exist: more than the database allows sessions
# Of each account that comes over the network; the server's own threads and root on db do not.
SESSIONS = "SELECT COUNT(*) FROM information_schema.processlist WHERE host LIKE '%:%'"
SECONDS = 4  # that a user waits; the pool waits for five
ACCOUNT = "http://app:8080/account.jsp?customer="
POPULAR = "http://app:8080/popular.jsp?month="
CUSTOMERS = 1500
# A new customer's first order, with a number above those of all others.
ORDER = 4_000_000_001
REMOVED = f"""DELETE FROM lineitem WHERE l_orderkey = {ORDER};
DELETE FROM orders WHERE o_orderkey = {ORDER};"""
ENTERED = f"""{REMOVED} INSERT INTO orders VALUES
({ORDER}, {{customer}}, 'O', '1996-05-05', '5-LOW', 'an order of the check');
INSERT INTO lineitem VALUES
({ORDER}, 1, {{part}}, 1, 1, 1, 0, 'N', '1996-05-05', 'a line of the check');"""
LOG = "/var/log/tomcat10/catalina.out"
EMPTY = "Unable to fetch a connection"
# Numbers of four or five digits and of six or more. A page waits for a connection for five seconds.
STATUS = (
    f"""curl -sm 9 -o /dev/null -w '%{{http_code}} ' "{ACCOUNT}{{$((2000 + {{n}})),9{{n}}0000}}" """
)


@dataclass(frozen=True)
class Look:
    """How many `of` the visits got their page in time, after a search engine had come.

    `sessions`: in the database, when no user is there.
    """

    arrived: int
    sessions: int
    of: int = 2


@dataclass(frozen=True)
class Inspection:
    """How often a page got no connection from the pool."""

    empty: int


def look(stack: Stack) -> Look:
    """Let a search engine ask for customers who do not exist, then users for three pages.

    One of the users has just bought for the first time.
    """
    user, db, dice = stack.user(), stack.sidecar("mysql"), stack.dice
    numbers = strangers(dice, STRANGERS + 1)
    new = numbers.pop()
    pages = [f"{ACCOUNT}{dice.randint(1, CUSTOMERS)}", f"{POPULAR}{dice.randint(1, 12)}"]
    for url in pages:  # Java compiles a page that it has not served before
        curl.get(user, url, max_time=15)
    unknown = f"{ACCOUNT}{{{','.join(map(str, numbers))}}}"
    curl.one_by_one(user, unknown, count=1, max_time=1, seconds=stack.pace.seconds(5))
    sessions = int(db.must(f'mysql -BNe "{SESSIONS}"'))
    sql = ENTERED.format(customer=new, part=dice.randint(1, 2000))
    try:
        db.must(f'mysql warehouse -e "{sql}"')
        visits = [
            f"curl -s -o /dev/null -m {SECONDS} -w '%{{http_code}}\\n' '{url}'"
            for url in (*pages, f"{ACCOUNT}{new}")
        ]
        out = user.run(" & ".join(visits) + " & wait", timeout=30).out
    finally:
        db.run(f'mysql warehouse -e "{REMOVED}"')
    return Look(out.split().count("200"), sessions, len(visits))


def strangers(dice: Random, count: int) -> list[int]:
    """Return the numbers of so many customers who do not exist; all do up to number 1500.

    The numbers have four to nine digits, each length as often as another, and none comes twice.
    """
    numbers: set[int] = set()
    while len(numbers) < count:
        size: int = 10 ** dice.randint(3, 8)
        numbers.add(dice.randrange(2 * size, 10 * size))
    return dice.sample(sorted(numbers), count)


def inspect(stack: Stack) -> Inspection:
    """Read what Tomcat has said."""
    return Inspection(log.count(stack.sidecar("app"), LOG, EMPTY))


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        Measure(
            "pages within 4 s",
            lambda now: 100 * now.arrived / now.of,
            exactly(100),
            exactly(0),
            "%",
        ).says(
            "Every user gets the page within four seconds.",
            "Some users do not get the page within four seconds.",
        ),
        steady("sessions of the shop in the database", "sessions", at_most(45)).says(
            "The shop gives its connections back.", "The shop keeps more connections than it needs."
        ),
    ),
    evidence=(
        grows("pages that got no connection from the pool", "empty", at_least(1), "lines").seen(
            "app", f"grep '{EMPTY}' {LOG}"
        ),
    ),
    asks=(
        page("http://app:8080/account.jsp?customer={n}", times=10, most=1000, seconds=8),
        page("http://app:8080/popular.jsp?month={n}", times=2, most=12, seconds=8),
        said("customers who do not exist", STATUS, 20, most=9999),
    ),
)
