"""pool-leak: a page keeps its connection for some customers, until the pool has none left."""

from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.asks import page, said
from faultlab.lab.check import Check, Measure
from faultlab.lab.limits import at_least, at_most, exactly
from faultlab.lab.measures import grows, steady
from faultlab.probes import curl, log

STRANGERS = 220  # customers who do not exist: more than the database allows sessions
SESSIONS = "SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'shop'"
SECONDS = 4  # that a user waits; the pool waits for five
UNKNOWN = "http://app:8080/account.jsp?customer=900000001"
PAGES = (
    "http://app:8080/account.jsp?customer=7",
    "http://app:8080/popular.jsp?month=5",
)
LOG = "/var/log/tomcat10/catalina.out"
EMPTY = "Unable to fetch a connection"
STATUS = "curl -sm 9 -o /dev/null -w '%{http_code}' 'http://app:8080/account.jsp?customer=90000{n}'"


@dataclass(frozen=True)
class Look:
    """How many of the visits got their page in time, after a search engine had come.

    `sessions`: of the shop in the database, when no user is there.
    """

    arrived: int
    sessions: int


@dataclass(frozen=True)
class Inspection:
    """How often a page got no connection from the pool."""

    empty: int


def look(stack: Stack) -> Look:
    """Let a search engine ask for customers who do not exist, then users for two pages."""
    user = stack.user()
    for url in PAGES:  # Java compiles a page that it has not served before
        curl.get(user, url, max_time=15)
    curl.one_by_one(user, UNKNOWN, count=STRANGERS, max_time=1, seconds=stack.pace.seconds(5))
    sessions = int(stack["mysql"].must(f'mysql -BNe "{SESSIONS}"'))
    visits = [f"curl -s -o /dev/null -m {SECONDS} -w '%{{http_code}}\\n' '{url}'" for url in PAGES]
    out = user.run(" & ".join(visits) + " & wait", timeout=30).out
    return Look(out.split().count("200"), sessions)


def inspect(stack: Stack) -> Inspection:
    """Read what Tomcat has said."""
    return Inspection(log.count(stack["app"], LOG, EMPTY))


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        Measure("pages within 4 s", "arrived", exactly(len(PAGES)), exactly(0)).says(
            "Every user gets the page within four seconds.", "Users wait for a page in vain."
        ),
        steady("sessions of the shop in the database", "sessions", at_most(45)).says(
            "The shop gives its connections back.", "Each visit of a stranger costs a connection."
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
        said("customers who do not exist", STATUS, most=9999),
    ),
)
