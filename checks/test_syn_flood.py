"""syn-flood: a crowd sends SYNs and never an ACK, until web has no backlog slot left.

The crowd comes in every phase and at every `faultlab check`. It is part of the look, as the load of
other labs is. A flood in the background would end some day, and the lab would be healthy by itself.
"""

import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from faultlab.engine.shell import Shell
from faultlab.engine.stack import Stack
from faultlab.lab.asks import page
from faultlab.lab.check import Check, Measure
from faultlab.lab.limits import at_least, at_most
from faultlab.lab.measures import grows, steady
from faultlab.probes import curl, interface, nstat, sockets, syns
from faultlab.run.contract import Contract
from faultlab.run.phase import FAULTY, FIXED
from faultlab.run.readings import Measured

PAGES = 12
RATE = 10_000  # SYNs a second
LONGEST = 60  # seconds of the crowd; it ends when the pages are counted
FILLED = 20_000  # SYNs; more than ten times what the queue of a cheat holds
SLOTS = 48  # three quarters of tcp_max_syn_backlog=64; the rest is kept for peers that web knows
MEMORY = 40_000  # half-open connections that web can remember, says the ticket
PLACES = "ss -Htln 'sport = :80' | awk '{ print $3 }'"
DROPS = "TcpExtListenDrops"
OVERFLOWS = "TcpExtListenOverflows"
REPEATS = "TcpExtTCPSynRetrans"
RESETS = "TcpExtEmbryonicRsts"


@dataclass(frozen=True)
class Look:
    """The pages that users got while the crowd was there, and half-open connections.

    `pages` of those at home, `beside` of honest users who come through the crowd's machine.
    `half_open`: as many as web has, or would have if the crowd were as quick as on a calm machine.
    `arrived`: packets of the crowd at web. `resets`: RSTs from the kernel of `crowd`, which a rule
    there drops.
    """

    pages: int
    half_open: int
    resets: int
    beside: int = PAGES
    arrived: int = FILLED


@dataclass(frozen=True)
class Inspection:
    """The counters of the kernel on both sides."""

    web: dict[str, int]
    client: dict[str, int]


def look(stack: Stack) -> Look:
    """Let the crowd send SYNs until the queue grows no more. Then let users ask for a page.

    So a long queue is full too, or longer than web has memory for. Slots that are free for a moment
    can help only one user of two, because they come apart, and not in step with the slots. The
    crowd ends after the last user: a SYN that a user repeats must not arrive in the quiet after it.
    """
    crowd, web = stack.user("crowd"), stack.sidecar("web")
    resets, arrived = nstat.read(web, [RESETS])[RESETS], interface.read(web).rx_packets
    gap = stack.dice.uniform(0.09, 0.14)
    with ThreadPoolExecutor() as pool:
        many = partial(syns.flood, owner=stack.shell("crowd"), dice=stack.dice, rate=RATE)
        flood = pool.submit(many, crowd, "web", seconds=LONGEST)
        _wait_full(web, flood)
        asked = [
            pool.submit(curl.apart, user, "http://web/", tries=PAGES, gap=gap, max_time=3)
            for user in (stack.user(), crowd)
        ]
        pages, beside = [each.result() for each in asked]
        half_open = sockets.half_open(web, 80)
        expected = at_full_rate(web, half_open, interface.read(web).rx_packets - arrived)
        syns.end(crowd)
        flood.result()
    return Look(
        pages,
        max(half_open, expected),
        nstat.read(web, [RESETS])[RESETS] - resets,
        beside,
        interface.read(web).rx_packets - arrived,
    )


def at_full_rate(web: Shell, half_open: int, arrived: int) -> int:
    """Return how many half-open connections web would have from RATE SYNs a second.

    Each lives until its last SYN-ACK was in vain: 1, 3, 7 … seconds with 0, 1, 2 … repetitions.
    The queue has as many places as its program asked for, as far as the kernel allows it.
    """
    retries = int(web.must("cat /proc/sys/net/ipv4/tcp_synack_retries"))
    places = max(map(int, web.must(PLACES).split()), default=0)
    life = 2 ** (min(retries, 10) + 1) - 1
    return min(places, int(half_open / max(1, arrived) * RATE * life))


def _wait_full(web: Shell, flood: Future[int]) -> None:
    """Wait until 20,000 SYNs have come and the queue grows no more, or is too long for web."""
    first, last, half_open = interface.read(web).rx_packets, 0, sockets.half_open(web, 80)
    until = time.monotonic() + LONGEST / 2
    while time.monotonic() < until and not flood.done():
        time.sleep(0.5)
        arrived, before = interface.read(web).rx_packets - first, half_open
        half_open = sockets.half_open(web, 80)
        grown, last = (half_open - before) / max(1, arrived - last), arrived
        if half_open > MEMORY or (arrived >= FILLED and grown < 0.1):
            return


def inspect(stack: Stack) -> Inspection:
    """Count the SYNs that web dropped, and those that the kernel of the users sent again."""
    web = nstat.read(stack.sidecar("web"), [DROPS, OVERFLOWS])
    return Inspection(web, nstat.read(stack.user(), [REPEATS]))


def turned_away(counters: dict[str, int]) -> int:
    """Return the SYNs dropped while the accept queue had room (else both counters grow)."""
    return counters[DROPS] - counters[OVERFLOWS]


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        Measure(f"pages of {PAGES} that come", "pages", at_least(8), at_most(4)).says(
            "Most users get their page while the crowd is there.",
            "Many users do not get their page while the crowd is there.",
        ),
        Measure(
            f"pages of {PAGES} that come to honest users of the crowd's machine",
            "beside",
            at_least(8),
            at_most(4),
        ).says(
            "Most honest users of the crowd's machine get their page.",
            "Many honest users of the crowd's machine do not get their page.",
        ),
        steady("half-open connections", "half_open", at_most(MEMORY)).says(
            "Web remembers no more half-open connections than it has memory for.",
            "Web remembers more half-open connections than it has memory for.",
        ),
        steady("packets of the crowd", "arrived", at_least(FILLED / 2)).says(
            "The crowd is as large as ever.", "The crowd is far smaller than ever."
        ),
        steady("RSTs of the crowd", "resets", at_most(50)).says(
            "The kernel of the crowd resets no connection.",
            "The kernel of the crowd resets connections, which frees their slots.",
        ),
    ),
    evidence=(
        grows(
            "SYNs dropped before the accept queue", lambda now: turned_away(now.web), at_least(500)
        ).seen("web", f"nstat -az {DROPS} {OVERFLOWS}"),
        grows("SYNs of users sent again", lambda now: now.client[REPEATS], at_least(PAGES)).seen(
            "client", f"nstat -az {REPEATS}"
        ),
    ),
    asks=(
        page("http://web/", seconds=10),
        page("http://web/", times=2, seconds=10, at="crowd"),  # the campaign was made for its users
    ),
)


class TestSynFlood(Contract):
    """The tests that every lab has, and one for the flood."""

    def test_the_crowd_holds_its_slots_also_when_it_is_fixed(self, run: Measured) -> None:
        """The fix works while the flood is still there and still holds the slots."""
        assert run.reading(FAULTY).look.half_open >= SLOTS
        assert run.reading(FIXED).look.half_open >= SLOTS
