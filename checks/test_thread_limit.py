"""thread-limit: a page starts a thread for each partner, and the container may not have so many."""

import sys
from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.asks import page
from faultlab.lab.check import Check, Measure
from faultlab.lab.limits import at_least, at_most, exactly
from faultlab.lab.measures import grows, steady
from faultlab.probes import curl

VISITS = 6
PARTNERS = 200
THREADS = 120  # that the container may have, says the ticket
NUMBERS = 999_999_999
OFFERS = "http://app:8080/offers.jsp?number={n}"
# Versions 1 and 2 of cgroups have them in different folders.
_FOLDERS = "{0}/sys/fs/cgroup/pids/pids.{1} {0}/sys/fs/cgroup/pids.{1}"
EVENTS = "cat " + _FOLDERS.format("", "events") + " 2>/dev/null"


@dataclass(frozen=True)
class Look:
    """Users who got their offers, and the partners that were asked for each of their pages.

    `threads`: the limit of the container.
    """

    served: int
    asked: float = PARTNERS
    threads: int = THREADS


@dataclass(frozen=True)
class Inspection:
    """How often the limit of the container has refused a thread."""

    refused: int


def look(stack: Stack) -> Look:
    """Let the users come one after the other: each alone is too much for the page.

    Each looks at another article, and then the partners say how many of them were asked for it.
    """
    user, tomcat = stack.user(), stack.sidecar("tomcat")
    first = stack.dice.randint(1, NUMBERS - VISITS)
    numbers = f"[{first}-{first + VISITS - 1}]"
    served = curl.each(user, OFFERS.format(n=numbers), max_time=5, seconds=30)
    asked = user.must(f"curl -sf -m 5 -w '\\n' 'http://localhost:8000/asked?number={numbers}'")
    limit = tomcat.run(f"cat {_FOLDERS.format(tomcat.root, 'max')} 2>/dev/null").out.strip()
    return Look(
        served,
        asked=sum(map(int, asked.split())) / VISITS,
        threads=sys.maxsize if limit == "max" else int(limit),
    )


def inspect(stack: Stack) -> Inspection:
    """Ask the cgroup of the shop."""
    tomcat = stack.sidecar("tomcat")
    events = tomcat.run(f"cat {_FOLDERS.format(tomcat.root, 'events')} 2>/dev/null").out
    return Inspection(int(events.split()[1]))


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        Measure("pages with offers, of 6", "served", exactly(VISITS), at_most(1)).says(
            "Each user gets the offers.", "Some users do not get the offers."
        ),
        Measure(
            "partners asked for each page", "asked", exactly(PARTNERS), at_most(PARTNERS * 0.8)
        ).says("All partners are asked for each page.", "Some partners are not asked."),
        steady("threads that the shop may have", "threads", at_most(THREADS)).says(
            "The shop runs no more tasks than it may.",
            "The shop may run more tasks than the other shops can spare.",
        ),
    ),
    evidence=(
        grows("threads that the container refuses", "refused", at_least(3)).seen("tomcat", EVENTS),
    ),
    asks=(page(OFFERS, times=20, seconds=20),),
)
