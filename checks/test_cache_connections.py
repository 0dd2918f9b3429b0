"""cache-connections: memcached takes fewer connections than PHP has workers."""

from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.asks import page, said, tables
from faultlab.lab.check import Check, Measure
from faultlab.lab.limits import at_least, at_most, exactly
from faultlab.lab.measures import ends
from faultlab.probes import curl

VISITS = 48  # twice for each worker
BASKET = "http://web/booking/basket.php"
AVAILABILITY = "http://web/availability.php"
TRIES = 5
# PHP can start its workers when they are needed. These visits need all of them at the same time,
# also on a busy machine, where they begin one after the other.
FULL = 20  # more than the eleven for which the fault leaves a connection
BUSY = f"""for i in $(seq {FULL}); do
curl -s -m 30 -o /dev/null '{AVAILABILITY}?restaurants=20' & done; wait"""
# Each click is followed by another page, which takes its time and keeps a worker busy. So the next
# click meets another worker, also where PHP or nginx uses as few of them as it can.
CLICKS = 40
CROWD = f"""for i in $(seq {CLICKS}); do
curl -s -m 3 -o /dev/null -w '%{{http_code}}\\n' '{BASKET}?user=look&click='$i
curl -s -m 9 -o /dev/null '{AVAILABILITY}?restaurants=6' & done; wait"""
# memcached accepts a connection above its limit only to say so. Its reset can outrun its words.
ASK = "printf 'version\\r\\nquit\\r\\n' | timeout 2 nc 127.0.0.1 11211"
SERVED = f"for i in $(seq {TRIES}); do {ASK}; done | grep -c VERSION"
# Thirty articles are put into one basket, one by one, and all of them are in it.
FILLED = (
    "u=check-$(date +%s%N); for i in $(seq 30); do"
    f' page=$(curl -sm 3 "{BASKET}?user=$u&add=$i"); done; echo "$page"'
)


@dataclass(frozen=True)
class Look:
    """Visits that got their basket, and those in a crowd that did not (of `CLICKS`)."""

    served: int
    missed: int = 0

    @property
    def shown(self) -> int:
        """Return the visits that got their basket, less those in the crowd that did not."""
        return min(self.served, VISITS - self.missed)


@dataclass(frozen=True)
class Inspection:
    """Connections that memcached refused, of a few."""

    refused: int


def look(stack: Stack) -> Look:
    """Look at a basket, visit after visit, when all workers are there: in a crowd, and then alone.

    There are never two visits to a basket at a time.
    """
    user, url = stack.user(), f"{BASKET}?user=look"
    user.run(BUSY, timeout=60)
    found = user.run(CROWD, timeout=180).out.split().count("200")
    served = curl.one_by_one(user, url, count=VISITS, max_time=3, seconds=30)
    return Look(served, CLICKS - found)


def inspect(stack: Stack) -> Inspection:
    """Ask memcached, as its own machine may."""
    return Inspection(TRIES - int(stack["cache"].run(SERVED).out))


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        Measure("baskets that are shown, of 48", "shown", exactly(VISITS), at_most(36)).says(
            "Each click finds the basket.", "Some clicks do not find the basket."
        ),
    ),
    evidence=(
        ends("new connections that memcached refuses, of 5", "refused", at_least(TRIES)).seen(
            "cache", ASK
        ),
    ),
    asks=(
        page(f"{BASKET}?user=nobody-{{n}}", times=5),
        said("a basket of thirty articles", FILLED),
        # Ten workers need 1.2 s for these, and two need six.
        page(f"{AVAILABILITY}?restaurants=2", times=120, changes='"tables":[0-9]+'),
        tables()[1],
    ),
)
