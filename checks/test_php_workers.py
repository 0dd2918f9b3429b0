"""php-workers: PHP-FPM has five workers for a page that waits 50 ms."""

import re
import time
from dataclasses import dataclass

from faultlab.core.command import meanwhile
from faultlab.engine.stack import Stack
from faultlab.lab.asks import page, said
from faultlab.lab.check import Check
from faultlab.lab.limits import at_least, exactly
from faultlab.lab.measures import ends, grows, rate, share, steady
from faultlab.probes import fpm, log, wrk

PAGE = "http://web/availability.php"
FULL = "reached pm.max_children"
GUESTS = 8  # beside the load
CLICKS = 13  # of each of them, over one connection and three in a second at most
# A response can be kept for a second, and nginx counts whole ones.
KEPT = 2.1
# After such a time the book must be asked again, which takes 50 ms for each restaurant.
SPENT = f"""took() {{
curl -sfm 5 -o /dev/null -w '%{{time_total}}' "$1" | awk "{{ exit \\$1 < $2 }}"; }}
n={{n}} more=$(({{n}} % 6 + 10)); [ $((n % 2)) = 0 ] && one={PAGE} || one="{PAGE}?g=$n"
sleep {KEPT} && took "$one" 0.05 && took "{PAGE}?restaurants=$more&g=$n" "$more / 20"
"""


@dataclass(frozen=True)
class Look:
    """Two hundred users, and guests beside them who are told what the book says at that time.

    `told`: 8 in records from before they were asked.
    """

    load: wrk.Load
    told: int = GUESTS


@dataclass(frozen=True)
class Inspection:
    """How often PHP-FPM has logged that its pool is full, and the status of the pool."""

    complaints: int
    status: fpm.Status


def look(stack: Stack) -> Look:
    """Let 200 users ask for a table for five seconds; each waits for one second at most.

    A shorter load could end before PHP-FPM logs that its pool is full. Meanwhile the number of
    tables in the book changes, and other guests with the same links must see it.
    """
    user, dice, loads = stack.user(), stack.dice, list[wrk.Load]()
    links = ["", *(f"?g={dice.getrandbits(32):x}" for _ in range(7))]
    old, new = dice.sample(range(31), 2)
    _write(stack, old)

    def load() -> None:
        how = {"connections": 200, "seconds": 5, "timeout": 1}
        loads.append(wrk.ending(user, PAGE, links, **how))

    def change() -> None:
        time.sleep(dice.uniform(1.0, 1.5))
        _write(stack, new)

    with meanwhile(load), meanwhile(change):
        clicks = "".join(_guest(PAGE + dice.choice(links)) for _ in range(GUESTS))
        told = user.run(f"{clicks}wait", timeout=30).out.splitlines()
    return Look(loads[0], following(told, old, new))


def _write(stack: Stack, tables: int) -> None:
    """Let the book have so many free tables."""
    book = stack.sidecar("php-fpm")
    book.must(f"echo {tables} >{book.root}/var/lib/book/tables")


def _guest(url: str) -> str:
    """Return the command of a guest who clicks again and again, and prints a line in the end."""
    urls = f"'{url}' " * CLICKS
    return f"{{ echo $(timeout 8 curl -sN -m 8 --rate 3/s {urls}); }} &\n"


def following(told: list[str], old: int, new: int) -> int:
    """Count the guests who were told the old number, the new one in the end, and no other.

    None of them follows the book if no guest was told the old one.
    """
    before, after = (f'{{"restaurant":"Old Mill","tables":{tables}}}' for tables in (old, new))
    guests = [re.split("(?<=}) ", line) for line in told]
    right = [one for one in guests if {*one} <= {before, after} and one[-1] == after]
    return len(right) if any(before in one for one in guests) else 0


def inspect(stack: Stack) -> Inspection:
    """Read its log and its status page."""
    pool = stack.sidecar("php-fpm")
    return Inspection(log.count(stack.sidecar("web"), log.PHP_FPM, FULL), fpm.status(pool))


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        # With half of the workers every user is still served within a second.
        rate("answered requests", "load.good_per_second", good=0.5, bad=0.33).says(
            "About as many users get the page as before.",
            "Far fewer users get the page than before.",
        ),
        share("guests who wait over a second", "load.failed_share", good=2, bad=15).says(
            "Hardly any user waits longer than a second.",
            "Some users wait longer than a second, or do not get the page.",
        ),
        steady(f"guests who are told the tables of now, of {GUESTS}", "told", exactly(GUESTS)).says(
            "The page shows the tables that are free now.",
            "Some guests are told a number of tables that is old or wrong.",
        ),
    ),
    evidence=(
        grows("the log says that the pool is full", "complaints", at_least(1), "lines").seen(
            "web", f"grep '{FULL}' {log.PHP_FPM}"
        ),
        ends("times that the pool was full", "status.max_children_reached", at_least(1)).seen(
            "web", "curl -s http://127.0.0.1/status"
        ),
    ),
    asks=(
        page(f"{PAGE}?restaurants=2", times=40, changes='"tables":[0-9]+'),
        said("the reservation book", SPENT),
    ),
)
