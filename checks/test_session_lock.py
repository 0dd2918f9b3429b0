"""session-lock: a page keeps the session of its user while it waits for another service."""

from dataclasses import dataclass
from random import Random
from statistics import median

from faultlab.engine.stack import Stack
from faultlab.lab.asks import page, php, said
from faultlab.lab.check import Check, Measure
from faultlab.lab.limits import at_least, at_most, exactly
from faultlab.lab.measures import grows, steady
from faultlab.probes import log

SHOP = "http://web/booking"
CUSTOMERS = 4
DISHES = ("soup", "fish", "pasta", "salad", "cake", "stew")
LONGEST = 9  # seconds; a page without its dish counts as one that took as long
SLOW_LOG = "/var/log/php/slow.log"
WAITING = "session_start() /var/www/html/booking/"
# Each chooses a dish and asks for a statement. After a pause the next dish is chosen, then both
# must be in the basket, and another customer looks at a basket. In the end both must be there.
VISITS = f"""cd $(mktemp -d)
customer() {{ n=$1 pause=$2 first=$3 second=$4 third=$5
get() {{ curl -s -m {LONGEST} -b jar$n -c jar$n "$@"; }}
took() {{
curl -s -m {LONGEST} -b $1 -c $1 -o page$n -w '%{{time_total}} ' "$2" &&
grep -qx -- "- $3" page$n; }}
get -o /dev/null '{SHOP}/basket.php?dish='$first
cp jar$n copy$n
{{ curl -s -m {LONGEST} -b copy$n {SHOP}/statement.php | grep -A1 -E "^[12] dishes: $first" |
grep -q '^signed [0-9a-f]' && echo statement; }} &
sleep $pause
echo next $({{ took jar$n '{SHOP}/basket.php?dish='$second $second &&
took jar$n {SHOP}/basket.php $first && grep -qx -- "- $second" page$n; }} || echo {LONGEST})
echo other $(took other$n '{SHOP}/basket.php?dish='$third $third || echo {LONGEST})
wait
get {SHOP}/basket.php | grep -xe "- $first" -e "- $second" | sort -u | sed 's/.*/kept/'
}}
"""
# The first customer comes when the bank has just begun, and the last one when it has nearly done.
PAUSES = ((0.1, 0.4), (0.4, 1.0), (1.0, 1.6), (1.6, 2.0))
SPENT = f"""cd $(mktemp -d) &&
curl -sf -m 5 -c jar -o /dev/null '{SHOP}/basket.php?dish=soup-{{n}}' &&
curl -sf -m 9 -b jar -w '%{{time_total}}\\n' {SHOP}/statement.php |
awk 'NR == 3 {{ $0 = $1 < 3 ? "too early" : "" }} 1'"""


@dataclass(frozen=True)
class Look:
    """Statements and dishes that are there, and times in seconds.

    `next`: of the next two pages of a customer who waits for a statement, a click and the basket,
    the longest; `other`: of a page of other customers, the median.
    """

    statements: int
    kept: int
    next: float
    other: float


@dataclass(frozen=True)
class Inspection:
    """The slow requests of PHP-FPM that were opening a session."""

    waiting: int


def look(stack: Stack) -> Look:
    """Let some customers ask for a statement and choose a dish meanwhile, each at another time."""
    dice = stack.dice
    visits = "\n".join(
        f"customer {n} {dice.uniform(*pause):.2f} {' '.join(_dishes(dice))} &"
        for n, pause in enumerate(PAUSES)
    )
    out = stack.user().run(f"{VISITS}{visits}\nwait", 60).out
    words = [line.split() for line in out.splitlines()]
    times = {
        name: [sum(map(float, w[1:])) for w in words if w[0] == name] for name in ("next", "other")
    }
    return Look(
        statements=words.count(["statement"]),
        kept=words.count(["kept"]),
        next=max(times["next"], default=LONGEST),
        other=median(times["other"] or [LONGEST]),
    )


def _dishes(dice: Random) -> list[str]:
    """Return the names of three dishes."""
    return [f"{dice.choice(DISHES)}-{dice.getrandbits(24):x}" for _ in range(3)]


def inspect(stack: Stack) -> Inspection:
    """Count them in the log."""
    return Inspection(log.count(stack.sidecar("web"), SLOW_LOG, WAITING))


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        Measure("time of the next page, longest", "next", at_most(0.7), at_least(1.5), "s").says(
            "The next page comes while the bank still works.",
            "The next page does not come while the bank still works.",
        ),
        steady("time of a page of other customers, median", "other", at_most(0.7), "s").says(
            "Other customers get their pages at once.",
            "Other customers do not get their pages at once.",
        ),
        steady(f"statements that come, of {CUSTOMERS}", "statements", exactly(CUSTOMERS)).says(
            "The statements come.", "Some statements do not come."
        ),
        steady(f"dishes in the baskets, of {2 * CUSTOMERS}", "kept", exactly(2 * CUSTOMERS)).says(
            "Every dish stays in its basket.", "Some dishes are lost."
        ),
    ),
    evidence=(
        grows("slow requests that open a session", "waiting", at_least(3), "lines").seen(
            "web", f"grep -cF '{WAITING}' {SLOW_LOG}"
        ),
    ),
    asks=(*php(), page(f"{SHOP}/basket.php"), said("a statement of the bank", SPENT)),
)
