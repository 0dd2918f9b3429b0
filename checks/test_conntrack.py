"""conntrack: the kernel remembers two hundred connections, and drops the packets of the next."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.asks import page
from faultlab.lab.check import Check
from faultlab.lab.limits import at_least
from faultlab.lab.measures import grows, rate
from faultlab.probes import ab, conntrack, log
from faultlab.run.contract import Contract
from faultlab.run.readings import FAULTY, HEALTHY, Measured

MAX = 200


@dataclass(frozen=True)
class Look:
    """A thousand users of the start page, and the most connections that web remembered."""

    visits: ab.Visits
    peak: int


@dataclass(frozen=True)
class Inspection:
    """The kernel's complaints, and the connections for which the client's table had no place."""

    full: int
    client: conntrack.Table


def look(stack: Stack) -> Look:
    """A connection for each request: who is in already needs no new place.

    By address: a full table also drops the question for the name, which would end the load. By ab:
    wrk waits two minutes for its very first connection before it begins.
    """
    seconds = stack.pace.seconds(2)
    url = f"http://{stack['web'].must('hostname -i').strip()}/"
    with ThreadPoolExecutor() as pool:
        peak = pool.submit(conntrack.peak, stack["web"], seconds)
        visits = ab.visits(stack.user(), url, visitors=1000, seconds=seconds)
        return Look(visits, peak.result())


def inspect(stack: Stack) -> Inspection:
    """Count the lines of the kernel's log, and the client's drops."""
    return Inspection(
        log.kernel_count(stack.shell("kernel"), conntrack.FULL), conntrack.read(stack.user())
    )


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        rate("good visits", "visits.good_per_second", good=0.5, bad=0.2).says(
            "About as many visitors get their page as before.",
            "Far fewer visitors get their page than before.",
        ),
    ),
    evidence=(
        grows("the kernel's log says that the table is full", "full", at_least(1), "lines").seen(
            "kernel", f"dmesg | grep -c '{conntrack.FULL}'"
        ),
        grows(
            "packets are dropped for want of an entry",
            "client.drops",
            at_least(1),  # ab's first visitor knocks three times before the others come
            "packets",
        ).seen("client", "conntrack -S"),
    ),
    asks=(page("http://web/"),),
)


class TestConntrack(Contract):
    """The tests of every lab, and one of the table."""

    def test_the_table_is_full_and_never_fuller(self, run: Measured) -> None:
        """While the limit is there the count stays within it; without, it goes far above."""
        assert run.reading(FAULTY).look.peak <= MAX
        assert run.reading(HEALTHY).look.peak > MAX
