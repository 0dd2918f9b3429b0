"""gzip: nginx sends a page as it is over a link that has room for it only when compressed."""

from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.check import Check, Measure, Sign
from faultlab.lab.limits import at_least, at_least_times, at_most_times
from faultlab.probes import curl, qdisc, wrk

PAGE = "http://web/list/restaurants.html"
ACCEPT = "-H 'Accept-Encoding: gzip'"


@dataclass(frozen=True)
class Look:
    """Eighty guests, whose browsers take gzip and who read a second before their next page."""

    guests: wrk.Load


@dataclass(frozen=True)
class Watch:
    """One page as it comes, and the queue in front of the link of web."""

    page: curl.Page
    link: qdisc.Qdisc


def look(at: Stack) -> Look:
    """Two seconds of guests."""
    seconds = at.pace.seconds(2)
    load = wrk.load(
        at["client"], PAGE, connections=80, seconds=seconds, timeout=10, script="readers"
    )
    return Look(load)


def watch(at: Stack) -> Watch:
    """Fetch the page once, and read the queue's counters."""
    return Watch(curl.get(at["client"], PAGE, 10, gzip=True), qdisc.read(at["web"]))


CHECK = Check(
    look=look,
    watch=watch,
    symptom=(
        Measure(
            "pages",
            lambda r: r.guests.good_per_second,
            at_least_times(0.6),
            at_most_times(0.3),
            "/s",
        ),
        Measure(
            "time for a page, median",
            lambda r: r.guests.p50,
            at_most_times(5),
            at_least_times(20),
            "s",
        ),
    ),
    evidence=(
        Sign(
            "bytes of the page on its way",
            lambda before, after: after.page.bytes,
            at_least(40_000),
            at="client",
            command=f"curl -so /dev/null {ACCEPT} -w '%{{size_download}}' {PAGE}",
        ),
        Sign(
            "packets that found the link's queue full",
            lambda before, after: after.link.dropped - before.link.dropped,
            at_least(300),
            at="web",
            command="tc -s qdisc show dev eth0",
        ),
    ),
)
