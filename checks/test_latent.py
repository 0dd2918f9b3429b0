"""latent: the sysctl is far too small, but no socket uses it: queues are as long as before."""

from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.asks import page
from faultlab.lab.check import Check
from faultlab.lab.measures import delay, inspect_nothing, rate, share
from faultlab.probes import ab


@dataclass(frozen=True)
class Look:
    """Visits to the page from the disk, and to the one from PHP."""

    visits: ab.Visits
    php: ab.Visits


def look(stack: Stack) -> Look:
    """Let 400 users at a time visit the page for two seconds: a short accept queue would show.

    Then a hundred or more come to the page of PHP, whose pool has a queue of its own.
    """
    seconds, users = stack.pace.seconds(2), stack.dice.randint(100, 140)
    return Look(
        ab.visits(stack.user(), "http://web/", visitors=400, seconds=seconds),
        ab.visits(stack.user(), "http://web/index.php", visitors=users, seconds=1),
    )


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
        share("visits of PHP over half a second", "php.slow_share", good=0.5).says(
            "Hardly any user of PHP waits half a second or longer.",
            "Some users of PHP wait half a second or longer.",
        ),
    ),
    asks=(page("http://web/"), page("http://web/index.php", changes="made by PHP at .*")),
)
