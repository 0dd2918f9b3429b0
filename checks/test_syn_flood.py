"""syn-flood: a crowd sends SYNs and never an ACK, until web has no backlog slot left.

The crowd comes in every phase and at every `faultlab check`. It is part of the look, as the load of
other labs is. A flood in the background would end some day, and the lab would be healthy by itself.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.asks import page
from faultlab.lab.check import Check, Measure
from faultlab.lab.limits import at_least, at_least_times, at_most
from faultlab.lab.measures import grows, steady
from faultlab.probes import curl, hping3, interface, nstat, sockets
from faultlab.run.contract import Contract
from faultlab.run.readings import FAULTY, FIXED, Measured

PAGES = 12
GAP = 0.11  # seconds between users: slots that are free for a moment can help only one of them
LONGEST = 60  # seconds of the crowd; it ends when the pages are counted
FILLED = 20_000  # SYNs; more than ten times what the queue of a cheat holds
SLOTS = 48  # three quarters of tcp_max_syn_backlog=64; the rest is kept for peers that web knows
DROPS = "TcpExtListenDrops"
OVERFLOWS = "TcpExtListenOverflows"
REPEATS = "TcpExtTCPSynRetrans"
RESETS = "TcpExtEmbryonicRsts"


@dataclass(frozen=True)
class Look:
    """The pages that users got while the crowd was there, what it sent, and half-open connections.

    `resets`: RSTs from the kernel of `crowd`, which a rule there drops.
    """

    pages: int
    half_open: int
    crowd: hping3.Flood
    resets: int = 0


@dataclass(frozen=True)
class Inspection:
    """The counters of the kernel on both sides."""

    web: dict[str, int]
    client: dict[str, int]


def look(stack: Stack) -> Look:
    """Let the crowd send SYNs until a long queue is full too. Then let twelve users ask for a page.

    The SYNs are counted, because the crowd of a busy machine sends fewer in a second. The crowd
    ends after the last user: a SYN that a user repeats must not arrive in the quiet after it.
    """
    crowd, web = stack.user("crowd"), stack["web"]
    before = nstat.read(web, [RESETS])[RESETS]
    with ThreadPoolExecutor() as pool:
        flood = pool.submit(hping3.flood, crowd, "web", seconds=LONGEST)
        interface.wait_sent(crowd, packets=FILLED, seconds=40)
        pages = curl.apart(stack.user(), "http://web/", tries=PAGES, gap=GAP, max_time=3)
        half_open = sockets.half_open(web, 80)
        hping3.end_flood(crowd)
        sent = flood.result()
        return Look(pages, half_open, sent, nstat.read(web, [RESETS])[RESETS] - before)


def inspect(stack: Stack) -> Inspection:
    """Count the SYNs that web dropped, and those that the kernel of client sent again."""
    return Inspection(
        nstat.read(stack["web"], [DROPS, OVERFLOWS]), nstat.read(stack.user(), [REPEATS])
    )


def turned_away(counters: dict[str, int]) -> int:
    """Return the SYNs dropped while the accept queue had room (else both counters grow)."""
    return counters[DROPS] - counters[OVERFLOWS]


AS_EVER = at_least_times(0.3)  # the crowd sends in every phase

CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        Measure(f"pages of {PAGES} that come", "pages", at_least(8), at_most(4)).says(
            "Most users get their page while the crowd is there.",
            "Few users or none get their page while the crowd is there.",
        ),
        steady("SYNs of the crowd", "crowd.sent", AS_EVER).says(
            "The crowd is about as large as before.", "The crowd is far smaller than before."
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
