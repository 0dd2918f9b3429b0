"""conntrack: the kernel remembers two hundred connections, and drops the packets of the next."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.check import Check, Measure, Sign
from faultlab.lab.limits import at_least, at_least_times, at_most_times
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
class Watch:
    """The kernel's complaints, and the connections for which the client's table had no place."""

    full: int
    client: conntrack.Table


def look(at: Stack) -> Look:
    """A connection for each request: who is in already needs no new place.

    By address: a full table also drops the question for the name, which would end the load. By ab:
    wrk waits two minutes for its very first connection before it begins.
    """
    seconds = at.pace.seconds(2)
    url = f"http://{at['web'].must('hostname -i').strip()}/"
    with ThreadPoolExecutor() as pool:
        peak = pool.submit(conntrack.peak, at["web"], seconds)
        visits = ab.visits(at["client"], url, visitors=1000, seconds=seconds)
        return Look(visits, peak.result())


def watch(at: Stack) -> Watch:
    """Count the lines of the kernel's log, and the client's drops."""
    return Watch(log.kernel_count(at.shell("kernel"), conntrack.FULL), conntrack.read(at["client"]))


CHECK = Check(
    look=look,
    watch=watch,
    symptom=(
        Measure(
            "good visits",
            lambda r: r.visits.good_per_second,
            at_least_times(0.5),
            at_most_times(0.2),
            "/s",
        ),
    ),
    evidence=(
        Sign(
            "the kernel's log says that the table is full",
            lambda before, after: after.full - before.full,
            at_least(1),
            at="kernel",
            command=f"dmesg | grep -c '{conntrack.FULL}'",
            unit="lines",
        ),
        Sign(
            "packets are dropped for want of an entry",
            lambda before, after: after.client.drops - before.client.drops,
            at_least(1),  # ab's first visitor knocks three times before the others come
            at="client",
            command="conntrack -S",
            unit="packets",
        ),
    ),
)


class TestConntrack(Contract):
    """The contract of every lab, with the limits above."""

    def test_the_table_is_full_and_never_fuller(self, run: Measured) -> None:
        """While the limit is there the count stays within it; without, it goes far above."""
        assert run.reading(FAULTY).look.peak <= MAX
        assert run.reading(HEALTHY).look.peak > MAX
