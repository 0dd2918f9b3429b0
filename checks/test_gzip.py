"""gzip: nginx sends a page as it is over a link that has room for it only when compressed."""

from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.asks import page
from faultlab.lab.check import Check
from faultlab.lab.limits import at_least
from faultlab.lab.measures import delay, ends, grows, rate
from faultlab.probes import curl, interface, wrk

PAGE = "http://web/list/restaurants.html"
TYPED = f"curl -so /dev/null -H 'Accept-Encoding: gzip' -w '%{{size_download}}' {PAGE}"


@dataclass(frozen=True)
class Look:
    """Eighty guests, whose browsers take gzip and who read a second before their next page."""

    guests: wrk.Load


@dataclass(frozen=True)
class Inspection:
    """One page as it comes, and the queue in front of the link of web."""

    page: curl.Page
    link: interface.Qdisc


def look(stack: Stack) -> Look:
    """Two seconds of guests."""
    client, seconds = stack.user(), stack.pace.seconds(2)
    load = wrk.load(client, PAGE, connections=80, seconds=seconds, timeout=10, script="readers")
    return Look(load)


def inspect(stack: Stack) -> Inspection:
    """Fetch the page once, and read the queue's counters."""
    return Inspection(
        curl.get(stack.user(), PAGE, 10, gzip=True), interface.read(stack["web"]).qdisc
    )


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        rate("pages", "guests.good_per_second", good=0.6, bad=0.3).says(
            "About as many pages come as before.", "Far fewer pages come than before."
        ),
        delay("time for a page, median", "guests.p50", good=5, bad=20).says(
            "A page comes about as quickly as before.", "A page takes far longer than before."
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
