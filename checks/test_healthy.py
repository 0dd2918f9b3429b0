"""healthy: nothing is wrong, and a light load proves it."""

from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.asks import page, php, said
from faultlab.lab.check import Check, Measure
from faultlab.lab.limits import at_most
from faultlab.lab.measures import delay, inspect_nothing, rate, share
from faultlab.probes import connect, curl, wrk

CROWD = (400, 800)  # connections, in 4 to 8 s: more than a rule lets pass before it counts
# Two pages, more than a second apart, show two times.
FOLLOWS = r"""
shown() { curl -sfm 5 http://web/index.php | sed -nE 's/.*made by PHP at (.*)[.]<.*/\1/p'; }
first=$(shown) && sleep 1.6 && later=$(shown) && [ "$first" ] && [ "$first" != "$later" ] &&
echo another"""


@dataclass(frozen=True)
class Look:
    """The port, a page from the disk, and a light load on a page from PHP."""

    syn: connect.Handshakes
    page: curl.Page
    load: wrk.Load


def look(stack: Stack) -> Look:
    """Let a crowd come, fetch a page, then let twenty users click for a second."""
    client = stack.user()
    return Look(
        connect.tried(client, "web", count=stack.dice.randint(*CROWD), gap=0.01),
        curl.get(client, "http://web/"),
        wrk.load(client, "http://web/index.php", connections=20, seconds=1),
    )


CHECK = Check(
    look=look,
    inspect=inspect_nothing,
    symptom=(
        share("first SYNs lost or late", "syn.first_try_loss", good=5).says(
            "Nearly every connection opens at once.", "Some connections do not open at once."
        ),
        Measure("page: curl's exit code", "page.exit_code", at_most(0)).says(
            "The page comes.", "The page does not come."
        ),
        share("requests that fail", "load.failed_share", good=0).says(
            "Every request succeeds.", "Some requests fail."
        ),
        delay("median latency", "load.p50", good=3).says(
            "Responses come about as quickly as before.", "Responses take far longer than before."
        ),
        rate("good requests", "load.good_per_second", good=0.5).says(
            "About as many pages come as before.", "Far fewer pages come than before."
        ),
    ),
    asks=(page("http://web/"), *php(), said("the page follows the clock", FOLLOWS)),
)
