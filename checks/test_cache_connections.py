"""cache-connections: memcached takes fewer connections than PHP has workers."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from faultlab.engine.stack import Stack
from faultlab.lab.asks import page, said, tables
from faultlab.lab.check import Check, Measure
from faultlab.lab.limits import at_least, at_most, exactly
from faultlab.lab.measures import ends

VISITS = 48  # twice for each worker
NAMES = ("ada", "ben", "cleo", "dan", "eve", "finn")
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
# A click puts an article into a basket, and shows it with all others that are in there.
CLICK = f"""click() {{
curl -s -m 5 "{BASKET}?user=$1&add=$2" | sed -n 's/^<p>Articles: *\\(.*\\)<.p>/'"$1"' \\1/p'; }}
"""
OTHER_PAGE = f"curl -s -m 9 -o /dev/null '{AVAILABILITY}?restaurants=12'"
# memcached accepts a connection above its limit only to say so. Its reset can outrun its words.
ASK = "printf 'version\\r\\nquit\\r\\n' | timeout 2 nc 127.0.0.1 11211"
SERVED = f"for i in $(seq {TRIES}); do {ASK}; done | grep -c VERSION"
# Thirty articles are put into one basket, one by one, and all of them are in it.
FILLED = (
    "u=$(printf %x {n}$(date +%N)); for i in $(seq 30); do"
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
    """Put articles into baskets when all workers are there: in a crowd, then click after click.

    There are never two clicks of one user at a time.
    """
    user, dice = stack.user(), stack.dice
    user.run(BUSY, timeout=60)
    crowd = [(_name(dice), dice.randint(1, 9999)) for _ in range(CLICKS)]
    both = "\n".join(f"{{ click {who} {what}; {OTHER_PAGE}; }} &" for who, what in crowd)
    found = user.run(f"{CLICK}{both}\nwait", timeout=180).out
    alone = [_name(dice) for _ in range(4)]
    clicks = [(alone[n % 4], what) for n, what in enumerate(dice.sample(range(9999), VISITS))]
    typed = "\n".join(f"click {who} {what}" for who, what in clicks)
    shown = user.run(f"{CLICK}{typed}", timeout=180).out
    return Look(complete(shown, clicks), CLICKS - complete(found, crowd))


def _name(dice: Random) -> str:
    return f"{dice.choice(NAMES)}-{dice.getrandbits(24):x}"


def complete(out: str, clicks: Sequence[tuple[str, int]]) -> int:
    """Count the clicks whose page shows the new article after all that were shown before."""
    pages = {(line[0], line[-1]): line[1:] for line in map(str.split, out.splitlines()) if line}
    had: dict[str, set[str]] = {}
    count = 0
    for who, what in clicks:
        articles, known = pages.get((who, str(what)), []), had.setdefault(who, set())
        if articles and known <= {*articles}:
            count += 1
            known.add(str(what))
    return count


def inspect(stack: Stack) -> Inspection:
    """Ask memcached, as its own machine may."""
    return Inspection(TRIES - int(stack.sidecar("cache").run(SERVED).out))


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
        page(f"{BASKET}?user=ada-{{n}}", times=5),
        said("a basket of thirty articles", FILLED),
        # Ten workers need 1.2 s for these, and two need six.
        page(f"{AVAILABILITY}?restaurants=2", times=120, changes='"tables":[0-9]+'),
        tables()[1],
    ),
)
