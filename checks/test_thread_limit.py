"""thread-limit: a page starts a thread for each partner, and the container may not have so many."""

import time
from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.asks import page, said
from faultlab.lab.check import Check, Measure
from faultlab.lab.limits import at_least, at_most, exactly
from faultlab.lab.measures import grows
from faultlab.probes import curl

VISITS = 6
OFFERS = "http://app:8080/offers.jsp?number={n}"
# Each partner needs a tenth of a second for an offer.
ASKED = f"curl -sfm 10 -o /dev/null -w '%{{time_total}}' '{OFFERS}' | awk '{{ exit $1 < 0.1 }}'"
# Versions 1 and 2 of cgroups have it in different folders.
EVENTS = "cat /sys/fs/cgroup/pids/pids.events /sys/fs/cgroup/pids.events 2>/dev/null"


@dataclass(frozen=True)
class Look:
    """Users who got their offers."""

    served: int


@dataclass(frozen=True)
class Inspection:
    """How often the limit of the container has refused a thread."""

    refused: int


def look(stack: Stack) -> Look:
    """Let the users come one after the other: each alone is too much for the page."""
    url = OFFERS.format(n=7)
    return Look(curl.one_by_one(stack.user(), url, count=VISITS, max_time=5, seconds=30))


def inspect(stack: Stack) -> Inspection:
    """Ask the cgroup of the shop. At its limit the container can refuse this command, too."""
    tomcat, until = stack["tomcat"], time.monotonic() + 10
    while not (said := tomcat.run(EVENTS).out) and time.monotonic() < until:
        time.sleep(0.2)
    return Inspection(int((said or tomcat.must(EVENTS)).split()[1]))


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        Measure("pages with offers, of 6", "served", exactly(VISITS), at_most(1)).says(
            "Each user gets the offers.", "Users get no offers."
        ),
    ),
    evidence=(
        grows("threads that the container refuses", "refused", at_least(3)).seen("tomcat", EVENTS),
    ),
    asks=(page(OFFERS, times=20, seconds=20), said("each partner is asked", ASKED)),
)
