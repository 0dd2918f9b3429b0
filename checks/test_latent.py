"""latent: the sysctl is far too small, but no socket uses it: queues are as long as before."""

from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.asks import page
from faultlab.lab.check import Check
from faultlab.lab.measures import delay, inspect_nothing, rate, share
from faultlab.probes import ab, curl

AVAILABILITY = "http://web/availability.php"  # waits for 50 ms, in one of 24 workers
PATIENCE = 0.95  # seconds; the kernel repeats a SYN that found a full queue after one


@dataclass(frozen=True)
class Look:
    """Visits to the page from the disk, and users at once of a page of PHP who wait for a second.

    `waiting`: the share of these users, 0 to 1.
    """

    visits: ab.Visits
    waiting: float


def look(stack: Stack) -> Look:
    """Let 400 users at a time visit the page for two seconds: a short accept queue would show.

    Then about a hundred ask PHP at once, whose pool has a queue of its own.
    """
    user, users = stack.user(), stack.dice.randint(90, 120)
    visits = ab.visits(user, "http://web/", visitors=400, seconds=stack.pace.seconds(2))
    arrived = curl.arriving(user, AVAILABILITY, tries=users, max_time=PATIENCE)
    return Look(visits, 1 - arrived / users)


CHECK = Check(
    look=look,
    inspect=inspect_nothing,
    symptom=(
        delay("slowest 1% of visits, mean", "visits.slowest_percent", good=2.5).says(
            "Even the slowest visits are about as quick as before.",
            "The slowest visits take far longer than before.",
        ),
        share("visits over half a second", "visits.slow_share", good=0.05).says(
            "Hardly any user waits half a second or longer.",
            "Some users wait half a second or longer.",
        ),
        rate("good visits", "visits.good_per_second", good=0.5).says(
            "About as many users get the page as before.",
            "Far fewer users get the page than before.",
        ),
        share("users of PHP who wait for a second", "waiting", good=20).says(
            "A crowd gets its pages of PHP at once.",
            "Many users of a page of PHP wait for a second.",
        ),
    ),
    asks=(page("http://web/"), page("http://web/index.php", changes="made by PHP at .*")),
)
