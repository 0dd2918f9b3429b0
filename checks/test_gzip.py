"""gzip: nginx sends a page uncompressed, and the link has room for compressed pages only."""

from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.asks import page
from faultlab.lab.check import Check
from faultlab.lab.limits import at_least, at_most
from faultlab.lab.measures import delay, ends, grows, rate, steady
from faultlab.probes import curl, interface, wrk

PAGE = "http://web/list/restaurants.html"
TYPED = f"curl -so /dev/null -H 'Accept-Encoding: gzip' -w '%{{size_download}}' {PAGE}"


@dataclass(frozen=True)
class Look:
    """Eighty users, whose browsers accept gzip and who read for a second before the next page.

    `mbits`: what arrived in a second.
    """

    guests: wrk.Load
    mbits: float = 0.0


@dataclass(frozen=True)
class Inspection:
    """One page as it arrives, and the queue in front of the link of web."""

    page: curl.Page
    link: interface.Qdisc


def look(stack: Stack) -> Look:
    """Two seconds of users."""
    client, seconds = stack.user(), stack.pace.seconds(2)
    before = interface.read(client).rx_bytes
    load = wrk.load(client, PAGE, connections=80, seconds=seconds, timeout=10, script="readers")
    return Look(load, 8e-6 * (interface.read(client).rx_bytes - before) / load.seconds)


def inspect(stack: Stack) -> Inspection:
    """Fetch the page once, and read the queue's counters."""
    return Inspection(
        curl.get(stack.user(), PAGE, 10, gzip=True), interface.read(stack.sidecar("web")).qdisc
    )


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        rate("pages", "guests.good_per_second", good=0.6, bad=0.3).says(
            "About as many pages arrive as before.", "Far fewer pages arrive than before."
        ),
        delay("time for a page, median", "guests.p50", good=5, bad=20).says(
            "Responses come about as quickly as before.", "Responses take far longer than before."
        ),
        # The rented link has 10 Mbit/s. What waits in its queue arrives after the end of the load.
        steady("sent over the line", "mbits", at_most(13), "Mbit/s").says(
            "The link can carry what is sent.", "More is sent than the link can carry."
        ),
    ),
    evidence=(
        ends("bytes of the page on its way", "page.bytes", at_least(40_000)).seen("client", TYPED),
        grows("packets that found the link's queue full", "link.dropped", at_least(300)).seen(
            "web", "tc -s qdisc show dev eth0"
        ),
    ),
    asks=(page(PAGE, times=2, seconds=20),),
)
