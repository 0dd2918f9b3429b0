"""idle-drop: a firewall forgets idle connections, and the pool of the shop still uses them."""

import time
from dataclasses import dataclass

from faultlab.core.command import meanwhile
from faultlab.engine.stack import Stack
from faultlab.lab.asks import page
from faultlab.lab.check import Check, Measure
from faultlab.lab.limits import at_least, at_most, exactly
from faultlab.lab.measures import ends, steady
from faultlab.probes import conntrack, curl, interface, sockets, stray

VISITS = 8  # fewer than the pool has connections
ALL = VISITS + 1  # with one who comes earlier
EARLY = (5.6, 9.0)  # seconds; the firewall forgets after five
BREAK = (13.0, 16.0)  # seconds
LONG = 43_200  # seconds: a night
CARE = 65  # seconds within which a pool or a probe cares for its connections
PATIENCE = 1.2  # seconds; a kernel that gives up a connection early needs 1.4
PAGE = "http://app:8080/account.jsp"
OPEN = "ss -Htno state established dport = :3306"
KNOWN = "conntrack -L -p tcp --orig-port-dst 3306 --state ESTABLISHED"


@dataclass(frozen=True)
class Look:
    """The pages that come at once, after no user has asked for a while.

    `early`: those of the one who came in between. `carried`: packets that left the firewall
    meanwhile. `strays`: packets without a connection that reached the machine of the database.
    """

    pages: int
    carried: int
    strays: int
    early: int = 1

    @property
    def came(self) -> int:
        """Return all pages that came after a break."""
        return self.pages + self.early


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
    """Let users come, then none, then one, then none, then eight at once.

    Then send packets without a connection, from app and with its address from another machine.
    """
    user, dice = stack.user(), stack.dice
    curl.get(user, PAGE, max_time=5)
    curl.arriving(user, PAGE, tries=40, max_time=3)
    began, end = time.monotonic(), dice.uniform(*BREAK)
    time.sleep(dice.uniform(*EARLY))
    early = curl.arriving(user, PAGE, tries=1, max_time=PATIENCE)
    time.sleep(max(0, began + end - time.monotonic()))
    go_on(stack)
    firewall = stack.sidecar("firewall")
    before = interface.read(firewall).tx_packets
    pages = curl.arriving(user, PAGE, tries=VISITS, max_time=PATIENCE)
    carried = interface.read(firewall).tx_packets - before
    return Look(pages, carried, strays(stack), early)


def strays(stack: Stack) -> int:
    """Return how many of some packets without a connection reach the machine of the database."""
    ports, found = stack.dice.sample(range(1024, 65536), 24), list[int]()
    ours, theirs = ports[::2], ports[1::2]
    db = stack.sidecar("db")
    with meanwhile(lambda: found.append(stray.arrived(db, ports, 3306, seconds=2))):
        time.sleep(0.4)
        stray.send(stack.user("app"), ours, "db", 3306)
        stray.send(stack.user(), theirs, "db", 3306, sender="app", by="firewall")
    return found[0]


def go_on(stack: Stack) -> None:
    """Let the break last until what the firewall will soon forget is forgotten.

    Connections that something uses from time to time stay. What the firewall would only forget
    after minutes it forgets now, so that no user has to wait for that.
    """
    if not (first := fading(stack)):
        return
    wait = min(max(first.values()) + 2, CARE)
    time.sleep(wait)
    later = fading(stack)
    unused = [port for port in first.keys() & later if later[port] <= first[port] - wait + 3]
    for port in unused:
        conntrack.forget(stack.sidecar("firewall"), 3306, port)


def fading(stack: Stack) -> dict[int, int]:
    """Return how long the firewall will know connections of the pool, by their ports.

    Those are left out that it knows for a night, or of which an end sends a probe before that.
    """
    known = conntrack.rests(stack.sidecar("firewall"), 3306)
    ours = sockets.probes(stack.sidecar("app"), "dport = :3306")
    theirs = sockets.probes(stack.sidecar("db"), "sport = :3306")
    ends = {port: min(LONG, ours[port], theirs.get(port, LONG)) for port in ours}
    return {port: rest for port, rest in known.items() if rest < ends.get(port, 0)}


def inspect(stack: Stack) -> Inspection:
    """Ask the kernel of app, and the firewall."""
    ours = stack.sidecar("app").must(OPEN).splitlines()
    known = stack.sidecar("firewall").must(f"{KNOWN} 2>/dev/null").splitlines()
    return Inspection(len(ours), sum("timer:(on," in line for line in ours), len(known))


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        Measure(f"pages of {ALL} after a break", "came", exactly(ALL), at_most(1)).says(
            "After a break every page comes at once.",
            "After a break some pages do not come at once.",
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
