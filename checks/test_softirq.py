"""softirq: one CPU processes all received packets, and a crowd sends small ones without a pause.

The crowd comes in every phase, as in syn-flood. It sends from CPU 1, so that CPU 0 only receives.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from faultlab.engine.shell import Shell
from faultlab.engine.stack import Stack
from faultlab.lab.asks import page
from faultlab.lab.check import Check, Measure
from faultlab.lab.limits import at_least, at_least_times, at_most
from faultlab.lab.measures import grows, steady
from faultlab.probes import curl, hping3, interface, nstat, ping, softirq
from faultlab.run.contract import Contract
from faultlab.run.phase import FAULTY
from faultlab.run.readings import Measured

PAGES = 60
BESIDE = 30
SECONDS = 7  # for the pages; a healthy server needs six
LONGEST = 60  # seconds of the crowd; it ends when the pages are counted
DROPS = "TcpExtListenDrops"


@dataclass(frozen=True)
class Look:
    """Pages that came while the crowd was there, and the mean time of an echo request in ms.

    `beside`: pages of honest users who come through the crowd's machine. `crowd`: packets a second
    that it sent; `bytes_a_packet`: the mean size of those for web.
    """

    pages: int
    round_trip: float
    crowd: float
    bytes_a_packet: float
    beside: int = BESIDE


@dataclass(frozen=True)
class Inspection:
    """The softirqs of each CPU, and the SYNs that TCP of web had no room for."""

    cpus: list[softirq.Processor]
    drops: int


def look(stack: Stack) -> Look:
    """Let the crowd send without a pause, while users open pages and another one pings."""
    crowd, client, web = stack.user("crowd"), stack.user(), stack.sidecar("web")
    with ThreadPoolExecutor() as pool:
        flood = pool.submit(hping3.flood, crowd, "web", dice=stack.dice, seconds=LONGEST)
        hping3.wait_flood(crowd, 30)
        sent, got, began = interface.read(crowd), interface.read(web), time.monotonic()
        echo = pool.submit(ping.round_trip, client, "web", count=30, gap=0.2, wait=2)
        honest = pool.submit(_paced, crowd, BESIDE)
        pages = _paced(client, PAGES)
        beside, round_trip = honest.result(), echo.result()
        sent_now, got_now = interface.read(crowd), interface.read(web)
        seconds = time.monotonic() - began
        hping3.end_flood(crowd)
        flood.result()
    return Look(
        pages,
        round_trip,
        crowd=(sent_now.tx_packets - sent.tx_packets) / seconds,
        bytes_a_packet=(got_now.rx_bytes - got.rx_bytes)
        / max(1, got_now.rx_packets - got.rx_packets),
        beside=beside,
    )


def _paced(user: Shell, count: int) -> int:
    """Count the pages that come of so many, asked for in six seconds."""
    rate = count // (SECONDS - 1)
    return curl.paced(user, "http://web/", count=count, per_second=rate, seconds=SECONDS)


def inspect(stack: Stack) -> Inspection:
    """Read the counters of the kernel."""
    drops = nstat.read(stack.sidecar("web"), [DROPS])[DROPS]
    return Inspection(softirq.read(stack.shell("kernel")), drops)


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        Measure(f"pages of {PAGES} that come", "pages", at_least(45), at_most(30)).says(
            "Most pages come at once while the crowd is there.",
            "Many pages do not come at once while the crowd is there.",
        ),
        Measure(
            f"pages of {BESIDE} that come to honest users of the crowd's machine",
            "beside",
            at_least(20),
            at_most(15),
        ).says(
            "Most honest users of the crowd's machine get their page.",
            "Many honest users of the crowd's machine do not get their page.",
        ),
        Measure(
            "time of an echo request, mean", "round_trip", at_most(30), at_least(50), "ms"
        ).says("The packets of users do not wait.", "The packets of users wait."),
        steady("packets of the crowd", "crowd", at_least_times(0.15), "/s").says(
            "The crowd is about as large as before.", "The crowd is far smaller than before."
        ),
    ),
    evidence=(
        grows(
            "packets that the queue of CPU 0 drops", lambda now: now.cpus[0].dropped, at_least(50)
        ).seen("kernel", "head -1 /proc/net/softnet_stat"),
    ),
    asks=(
        page("http://web/", seconds=10),
        page("http://web/", times=2, seconds=10, at="crowd"),  # honest users come through it too
    ),
)


class TestSoftirq(Contract):
    """The tests that every lab has, and one for the queue of connections."""

    def test_no_queue_of_connections_is_full(self, run: Measured) -> None:
        """In this it differs from syn-flood: TCP of web drops no SYN."""
        found = run.reading(FAULTY)
        assert found.before is not None
        assert found.after is not None
        assert found.after.drops == found.before.drops
