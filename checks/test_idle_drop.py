"""idle-drop: a firewall forgets idle connections, and the pool of the shop still uses them."""

from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.asks import page
from faultlab.lab.check import Check, Measure
from faultlab.lab.limits import at_least, at_most, exactly
from faultlab.lab.measures import ends, steady
from faultlab.probes import curl, interface, nstat

VISITS = 8  # fewer than the pool has connections
BREAK = 15  # seconds; the firewall forgets after five
PATIENCE = 1.2  # seconds; a kernel that gives up a connection early needs 1.4
PAGE = "http://app:8080/account.jsp"
REFUSED = "TcpOutRsts"
# ACKs without a connection: without data, with some, and like the query with which a pool tests.
STRAY = """for kind in '' '-P -d 20' '-P -d 13 -s 40000 --tcp-timestamp'; do
hping3 -q -A $kind -p 3306 -c 4 -i u100000 db; done"""
OPEN = "ss -Htno state established dport = :3306"
KNOWN = "conntrack -L -p tcp --orig-port-dst 3306 --state ESTABLISHED"


@dataclass(frozen=True)
class Look:
    """The pages that come at once, after no user has asked for a while.

    `carried`: packets that left the firewall meanwhile. `strays`: packets without a connection that
    reached the database.
    """

    pages: int
    carried: int
    strays: int


@dataclass(frozen=True)
class Inspection:
    """The shop's connections to the database: all, those that wait for an ACK, those known."""

    open: int
    waiting: int
    known: int

    @property
    def forgotten(self) -> int:
        """Return how many connections the shop has and the firewall does not know."""
        return self.open - self.known


def look(stack: Stack) -> Look:
    """Let users come, then none, then eight at once. Then send packets without a connection."""
    user, db, firewall = stack.user(), stack["db"], stack["firewall"]
    curl.get(user, PAGE, max_time=5)
    curl.arriving(user, PAGE, tries=40, max_time=3)
    user.run(f"sleep {BREAK}")
    before = interface.read(firewall).tx_packets
    pages = curl.arriving(user, PAGE, tries=VISITS, max_time=PATIENCE)
    carried = interface.read(firewall).tx_packets - before
    refused = nstat.read(db, [REFUSED])[REFUSED]
    stack.user("app").run(STRAY, timeout=10)
    return Look(pages, carried, nstat.read(db, [REFUSED])[REFUSED] - refused)


def inspect(stack: Stack) -> Inspection:
    """Ask the kernel of app, and the firewall."""
    ours = stack["app"].must(OPEN).splitlines()
    known = stack["firewall"].must(f"{KNOWN} 2>/dev/null").splitlines()
    return Inspection(len(ours), sum("timer:(on," in line for line in ours), len(known))


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        Measure(f"pages of {VISITS} after a break", "pages", exactly(VISITS), at_most(1)).says(
            "After a break every page comes at once.", "After a break pages do not come."
        ),
        Measure("packets by way of the firewall", "carried", at_least(12), at_most(6)).says(
            "The pages get their data by way of the firewall.",
            "The pages get no data by way of the firewall.",
        ),
        steady("packets of no connection that reach db", "strays", exactly(0)).says(
            "The firewall keeps out what belongs to no connection.",
            "Packets that belong to no connection reach the database.",
        ),
    ),
    evidence=(
        ends("connections of the shop that wait for an ACK", "waiting", at_least(5)).seen(
            "app", OPEN
        ),
        ends("connections that the firewall does not know", "forgotten", at_least(5)).seen(
            "firewall", KNOWN
        ),
    ),
    asks=(
        page(f"{PAGE}?customer={{n}}", times=10, most=1000, seconds=4),
        page("http://app:8080/popular.jsp?month={n}", times=1, most=12, seconds=25),
        page("http://app:8080/report.jsp?month={n}", times=2, most=12, seconds=25),
    ),
)
