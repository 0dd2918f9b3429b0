"""pmtu-black-hole: web drops the message that its packets are too long for the path."""

import re
from dataclasses import dataclass
from ipaddress import ip_address

from faultlab.engine.stack import Stack
from faultlab.lab.asks import page
from faultlab.lab.check import Check, Evidence, Measure
from faultlab.lab.limits import at_least, at_most, exactly
from faultlab.lab.measures import steady
from faultlab.probes import curl, interface, nstat, ping

LIST = "http://web/list/restaurants.html"
LISTS = 6  # of 83 kB each
LONGEST = 1300  # bytes that the provider's link carries
# Prints the addresses of client and of the user who types it.
BRANCHES = """at() { getent ahostsv4 $1 | awk '{ print $1; exit }'; }
at client; ip -4 -o route get $(at web) | sed -E 's/.* src ([0-9.]+).*/\\1/'"""
TOLD, HEARD = "IcmpOutDestUnreachs", "IcmpInDestUnreachs"


@dataclass(frozen=True)
class Look:
    """The short page, the lists that come within a second, and pings.

    `carried`: what left the router meanwhile, in kB. `longest`: the longest packet that the router
    lets through to the branches, in bytes; 0 if it lets all through to one of them.
    """

    start: curl.Page
    lists: int
    carried: float
    pings: ping.Echoes
    longest: int = LONGEST


@dataclass(frozen=True)
class Inspection:
    """The messages that a packet is too long: sent by the router, and got by TCP of web."""

    told: int
    heard: int


def look(stack: Stack) -> Look:
    """Fetch the start page and six lists, and count what the router forwards.

    web forgets what it has learned in a test. It learns it again from one packet, if it can.
    """
    user, router = stack.user(), stack.sidecar("router")
    stack.sidecar("web").must("ip route flush cache")
    before = interface.read(router).tx_bytes
    start = curl.get(user, "http://web/")
    lists = curl.arriving(user, LIST, tries=LISTS, max_time=1)
    carried = (interface.read(router).tx_bytes - before) / 1000
    pings = ping.echoes(user, "web", count=3, gap=0.2)
    return Look(start, lists, carried, pings, longest(stack))


def longest(stack: Stack) -> int:
    """Return the longest packet that the router lets through to the branches; 0 without a limit."""
    found = []
    for branch in stack.user().must(BRANCHES).split():
        route = stack.sidecar("router").run(f"ip -4 -o route get {ip_address(branch)}").out
        locked = re.search(r"mtu lock (\d+)", route)
        found.append(int(locked[1]) if locked else 0)
    return max(found) if all(found) else 0


def inspect(stack: Stack) -> Inspection:
    """Read the kernel's counters on both sides."""
    told = nstat.read(stack.sidecar("router"), [TOLD])[TOLD]
    return Inspection(told, nstat.read(stack.sidecar("web"), [HEARD])[HEARD])


def unheard(before: Inspection, after: Inspection) -> float:
    """Return the messages that the router has sent and web has not got."""
    return (after.told - before.told) - (after.heard - before.heard)


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        steady("start page: status", "start.status", exactly(200)).says(
            "The start page comes.", "The start page does not come."
        ),
        Measure(f"lists of {LISTS} that come", "lists", exactly(LISTS), at_most(0)).says(
            "Every list comes.", "Some lists do not come."
        ),
        Measure("sent by way of the router", "carried", at_least(250), at_most(100), "kB").says(
            "The lists come over the rented link.", "The rented link does not carry the lists."
        ),
        steady("pings that are answered", "pings.answered", at_most(0)).says(
            "No ping gets a reply.", "Pings get a reply."
        ),
        steady("longest packet on the link", "longest", exactly(LONGEST), "bytes").says(
            "The provider's link is as it was.", "The provider's link is not as it was."
        ),
    ),
    evidence=(
        Evidence("messages of the router that web drops", unheard, at_least(2)).seen(
            "web", "tcpdump -ni eth0 icmp; iptables -nvL INPUT"
        ),
    ),
    asks=(page("http://web/"), page(LIST, times=10, seconds=1)),
)
