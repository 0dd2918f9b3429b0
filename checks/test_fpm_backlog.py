"""fpm-backlog: four connections may wait at PHP-FPM's Unix socket, and 200 users come at once."""

from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.asks import page, said
from faultlab.lab.check import Check, Measure
from faultlab.lab.limits import at_least, at_most, exactly
from faultlab.lab.measures import grows, steady
from faultlab.probes import curl, log

PAGE = "http://web/place.php"  # takes 200 ms, so that a rush is there all at once
COMPLAINT = "(11: Resource temporarily unavailable)"
USERS = 200
SPENT = f"curl -sfm 5 -o /dev/null -w '%{{time_total}}' '{PAGE}?{{n}}' | awk '{{ exit $1 < 0.2 }}'"


@dataclass(frozen=True)
class Inspection:
    """How often nginx has logged that the queue was full."""

    complaints: int


def look(stack: Stack) -> curl.Rush:
    """Let ten users come one by one, then 200 at once."""
    return curl.rush(stack.user(), PAGE, USERS)


def inspect(stack: Stack) -> Inspection:
    """Count these lines of the log."""
    return Inspection(log.count(stack["web"], log.NGINX_ERROR, COMPLAINT))


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        Measure("users who get the page, of 200", "crowd", at_least(198), at_most(180)).says(
            "All users of a rush get the page.", "Many users of a rush do not get the page."
        ),
        steady("users who come one by one and get the page, of 10", "alone", exactly(10)).says(
            "Users who come one by one get the page.", "Even users who come one by one fail."
        ),
    ),
    evidence=(
        grows("nginx finds the queue full", "complaints", at_least(20), "lines").seen(
            "web", f"grep -c '{COMPLAINT}' {log.NGINX_ERROR}"
        ),
    ),
    asks=(
        page(f"{PAGE}?{{n}}", times=150, seconds=10),
        said("the reservation book", SPENT),
    ),
)
