"""healthy: nothing is wrong, and a little load proves it."""

from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.check import Check, Measure
from faultlab.lab.limits import at_least_times, at_most, at_most_times
from faultlab.probes import curl, hping3, wrk


@dataclass(frozen=True)
class Look:
    """The port, a page from the disk, and a light load on a page from PHP."""

    syn: hping3.Handshakes
    page: curl.Page
    load: wrk.Load


@dataclass(frozen=True)
class Watch:
    """A control has no traces to look for."""


def look(at: Stack) -> Look:
    """Knock, fetch, then twenty users for a second."""
    client = at["client"]
    return Look(
        hping3.syn(client, "web", count=40, gap=0.01),
        curl.get(client, "http://web/"),
        wrk.load(client, "http://web/index.php", connections=20, seconds=1),
    )


def watch(at: Stack) -> Watch:
    """Nothing to read."""
    return Watch()


CHECK = Check(
    look=look,
    watch=watch,
    symptom=(
        Measure(
            "first SYNs lost or late", lambda r: 100 * r.syn.first_try_loss, at_most(5), unit="%"
        ),
        Measure("page: curl's exit code", lambda r: r.page.exit_code, at_most(0)),
        Measure("requests that fail", lambda r: 100 * r.load.failed_share, at_most(0), unit="%"),
        Measure("median latency", lambda r: r.load.p50, at_most_times(3), unit="s"),
        Measure("good requests", lambda r: r.load.good_per_second, at_least_times(0.5), unit="/s"),
    ),
    evidence=(),
)
