"""php-workers: PHP-FPM has five workers for a page that waits 50 ms."""

from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.asks import tables
from faultlab.lab.check import Check
from faultlab.lab.limits import at_least
from faultlab.lab.measures import ends, grows, rate, share
from faultlab.probes import fpm, log, wrk

PAGE = "http://web/availability.php"
FULL = "reached pm.max_children"


@dataclass(frozen=True)
class Inspection:
    """How often PHP-FPM has logged that its pool is full, and the status of the pool."""

    complaints: int
    status: fpm.Status


def look(stack: Stack) -> wrk.Look:
    """Let 200 users ask for a table for four seconds; each waits for one second at most.

    A shorter load could end before PHP-FPM logs that its pool is full.
    """
    return wrk.Look(wrk.load(stack.user(), PAGE, connections=200, seconds=4, timeout=1))


def inspect(stack: Stack) -> Inspection:
    """Read its log and its status page."""
    return Inspection(log.count(stack["web"], log.PHP_FPM, FULL), fpm.status(stack["php-fpm"]))


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
            "Many users wait longer than a second.",
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
    asks=tables(PAGE),
)
