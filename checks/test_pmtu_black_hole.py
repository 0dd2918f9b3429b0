"""pmtu-black-hole: web drops the message that its packets are too long for the path."""

import re
from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.asks import page
from faultlab.lab.check import Check, Evidence, Measure
from faultlab.lab.limits import at_least, at_most, exactly
from faultlab.lab.measures import steady
from faultlab.probes import curl, interface, nstat, ping

LIST = "http://web/list/restaurants.html"
LISTS = 6  # of 83 kB each
LONGEST = 1300  # bytes that the provider's link carries
ROUTE = "ip route get $(getent ahostsv4 client | awk '{ print $1; exit }')"
TOLD, HEARD = "IcmpOutDestUnreachs", "IcmpInDestUnreachs"


@dataclass(frozen=True)
class Look:
    """The short page, the lists that come within a second, and pings.

    `carried`: what left the router meanwhile, in kB. `longest`: the longest packet that the router
    lets through to client, in bytes; 0 if it lets all through.
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
    user, router = stack.user(), stack["router"]
    stack["web"].run("ip route flush cache")
    before = interface.read(router).tx_bytes
    start = curl.get(user, "http://web/")
    lists = curl.arriving(user, LIST, tries=LISTS, max_time=1)
    carried = (interface.read(router).tx_bytes - before) / 1000
    pings = ping.echoes(user, "web", count=3, gap=0.2)
    locked = re.search(r"mtu lock (\d+)", router.run(ROUTE).out)
    return Look(start, lists, carried, pings, int(locked[1]) if locked else 0)


def inspect(stack: Stack) -> Inspection:
    """Read the kernel's counters on both sides."""
    told = nstat.read(stack["router"], [TOLD])[TOLD]
    return Inspection(told, nstat.read(stack["web"], [HEARD])[HEARD])


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
            "Every list comes.", "Lists do not come."
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
