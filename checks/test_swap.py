"""swap: two Tomcats may take more memory than the host has, so it swaps under load."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.asks import basket
from faultlab.lab.check import Check
from faultlab.lab.limits import at_least, at_most
from faultlab.lab.measures import delay, ends, grows, rate
from faultlab.probes import ab, host, wrk

PORTS = (8080, 8081)
PAGE = "basket.jsp?kb=1024"
WARM = 3000  # baskets, until Java has compiled its code and used all of its heap many times
WARM_SECONDS = 30  # at most: a host that swaps does not fill them all
SECONDS = 8
SWAPPING = 15_000  # pages a look: after the fix, up to 3,000 pages of other programs come back
TIMEOUT = 10


@dataclass(frozen=True)
class Look:
    """The users of both shops, at the same time."""

    shops: list[wrk.Load]

    @property
    def good_per_second(self) -> float:
        """Baskets a second of the slower shop: the other one gets the CPU time that it leaves."""
        return min(shop.good_per_second for shop in self.shops)

    @property
    def median(self) -> float:
        """The median of the slower shop, in seconds; the time-out where no user was served.

        Not the p99, which is a garbage collection: 0.2 to 0.4 s healthy, 1.1 to 3.4 s faulty.
        """
        return max(shop.p50 if shop.requests else TIMEOUT for shop in self.shops)


@dataclass(frozen=True)
class Inspection:
    """Memory and swapping of the host."""

    memory: host.Memory


def look(stack: Stack) -> Look:
    """Let users come, and time those who come when the shops are warm."""

    def warm(port: int) -> None:
        url = f"'http://app:{port}/{PAGE}'"
        ab.warm(stack.user(), url, visitors=4, requests=WARM, seconds=WARM_SECONDS)

    def load(port: int) -> wrk.Load:
        url = f"'http://app:{port}/{PAGE}'"
        return wrk.load(stack.user(), url, connections=4, seconds=SECONDS, timeout=TIMEOUT)

    with ThreadPoolExecutor() as pool:
        list(pool.map(warm, PORTS))
        return Look(list(pool.map(load, PORTS)))


def inspect(stack: Stack) -> Inspection:
    """Read the counters that `vmstat` shows as rates."""
    return Inspection(host.memory(stack.sidecar("app")))


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        rate("baskets of the slower shop", "good_per_second", good=0.5, bad=0.3).says(
            "Both shops fill about as many baskets as before.",
            "At least one shop fills far fewer baskets than before.",
        ),
        delay("median wait in the slower shop", "median", good=2.5, bad=5).says(
            "Users of both shops wait about as long as before.",
            "Users of at least one shop wait far longer than before.",
        ),
    ),
    evidence=(
        grows("pages swapped in", "memory.swapped_in", at_least(SWAPPING)).seen("app", "vmstat 1"),
        grows("pages swapped out", "memory.swapped_out", at_least(SWAPPING)).seen(
            "app", "vmstat 1"
        ),
        ends("available memory", "memory.available_percent", at_most(15), "%").seen(
            "app", "free -m"
        ),
    ),
    asks=(*(ask for port in PORTS for ask in basket(port)),),
)
