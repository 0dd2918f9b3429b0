"""descriptors: a worker of nginx may open 256 files, and 200 users need two each."""

from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.asks import page, said
from faultlab.lab.check import Check, Measure
from faultlab.lab.limits import at_least, at_most, exactly
from faultlab.lab.measures import grows, steady
from faultlab.probes import log, places

COMPLAINT = "(24: Too many open files)"
LEAST, MOST = 215, 228  # guests of a rush: two hundred, and those who also tried
SPENT = (
    f"curl -sfm 5 -o /dev/null -w '%{{time_total}}' '{places.PAGE}?{{n}}' |"
    " awk '{ exit $1 < 0.2 }'"
)


@dataclass(frozen=True)
class Inspection:
    """How often nginx has logged that it may open no more files."""

    complaints: int


def look(stack: Stack) -> places.Rush:
    """Let ten guests come one by one, then a rush of over two hundred, each with another name."""
    return places.rush(stack.user(), stack.dice, stack.dice.randint(LEAST, MOST))


def inspect(stack: Stack) -> Inspection:
    """Count these lines of the log."""
    return Inspection(log.count(stack.sidecar("web"), log.NGINX_ERROR, COMPLAINT))


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        Measure(
            "guests of a rush who get the page",
            lambda now: 100 * now.shown,
            at_least(99),
            at_most(90),
            "%",
        ).says(
            "Nearly all users of a rush get the page.", "Some users of a rush do not get the page."
        ),
        steady("users who come one by one and get the page, of 10", "alone", exactly(10)).says(
            "Users who come one by one get the page.",
            "Even of the users who come one by one some fail.",
        ),
    ),
    evidence=(
        grows("nginx may open no more files", "complaints", at_least(20), "lines").seen(
            "web", f"grep -c '{COMPLAINT}' {log.NGINX_ERROR}"
        ),
    ),
    asks=(
        page(f"{places.PAGE}?{{n}}", times=150, seconds=10),
        said("the reservation book", SPENT),
    ),
)
