"""conntrack: the kernel tracks two hundred connections and drops the packets of all others."""

from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.asks import page
from faultlab.lab.check import Check, Measure
from faultlab.lab.limits import at_least, at_most
from faultlab.lab.measures import ends, grows
from faultlab.probes import ab, conntrack, log
from faultlab.run.contract import Contract
from faultlab.run.phase import FAULTY, HEALTHY
from faultlab.run.readings import Measured

MAX = 200
VISITS = 4000
SECONDS = 5  # for all of them; a healthy server needs half of it
SALE = 100  # new customers a second for hours, says the ticket
MANY = 1_000_000


@dataclass(frozen=True)
class Look:
    """The visits of a thousand users, and the most connections that web tracked meanwhile.

    A connection that has ended is tracked for two minutes more, so the most are at the end.
    `lasting`: customers a second for whom the table has room for hours.
    """

    visits: ab.Visits
    peak: int
    lasting: float = MANY


@dataclass(frozen=True)
class Inspection:
    """The messages in the kernel's log, and the connection table of web."""

    full: int
    web: conntrack.Table


def look(stack: Stack) -> Look:
    """Open a new connection for each request: a connected user needs no new entry.

    It uses the address, because a full table also drops the DNS query for the name, and the load
    would end. It uses ab, because wrk can wait two minutes for its first connection.
    """
    seconds, web = stack.pace.seconds(SECONDS), stack.sidecar("web")
    url = f"http://{stack['web'].link[0]}/"
    visits = ab.visits(stack.user(), url, visitors=1000, seconds=seconds, most=VISITS)
    lasting = min(MANY, conntrack.lasting(web, visits.requests))
    return Look(visits, conntrack.read(web).entries, lasting)


def inspect(stack: Stack) -> Inspection:
    """Count the lines of the kernel's log, and read the table of web."""
    return Inspection(
        log.kernel_count(stack.shell("kernel"), conntrack.FULL),
        conntrack.read(stack.sidecar("web")),
    )


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        Measure(
            f"visits answered, of {VISITS}",
            lambda now: now.visits.requests - now.visits.failed,
            at_least(2400),
            at_most(800),
        ).says(
            "About as many users get their page as before.",
            "Far fewer users get their page than before.",
        ),
        Measure(
            "customers a second that can come for hours",
            "lasting",
            at_least(SALE),
            at_most(SALE / 5),
            "/s",
        ).says(
            "The customers of a whole sale can get in.",
            "Later customers of a sale cannot get in.",
        ),
    ),
    evidence=(
        grows("the kernel's log says that the table is full", "full", at_least(1), "lines").seen(
            "kernel", f"dmesg | grep -c '{conntrack.FULL}'"
        ),
        ends(
            "entries in the table of web, of its limit",
            lambda now: 100 * now.web.entries / now.web.most,
            at_least(95),
            "%",
        ).seen("web", "conntrack -C; sysctl net.netfilter.nf_conntrack_max"),
    ),
    asks=(page("http://web/"),),
)


class TestConntrack(Contract):
    """The tests that every lab has, and one for the table."""

    def test_the_table_is_full_and_never_fuller(self, run: Measured) -> None:
        """With the fault the count stays within the limit; without it, the count goes far above."""
        assert run.reading(FAULTY).look.peak <= MAX
        assert run.reading(HEALTHY).look.peak > MAX
