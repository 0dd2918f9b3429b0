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
TRIES = 5
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
    """Visits that got their basket."""

    served: int


@dataclass(frozen=True)
class Inspection:
    """Connections that memcached refused, of a few."""

    refused: int


def look(stack: Stack) -> Look:
    """Look at a basket, visit after visit: never two at a time."""
    url = f"{BASKET}?user=look"
    return Look(curl.one_by_one(stack.user(), url, count=VISITS, max_time=3, seconds=30))


def inspect(stack: Stack) -> Inspection:
    """Ask memcached, as its own machine may."""
    return Inspection(TRIES - int(stack["cache"].run(SERVED).out))


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        Measure("baskets that are shown, of 48", "served", exactly(VISITS), at_most(36)).says(
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
        *tables(),
    ),
)
