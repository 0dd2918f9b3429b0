"""heap-oom: Java may take 8 GB in a container that has 512 MB, and the kernel kills it."""

import sys
from dataclasses import dataclass

from faultlab.engine.contract import State
from faultlab.engine.stack import Stack
from faultlab.lab.asks import basket
from faultlab.lab.check import Check, Evidence, Measure
from faultlab.lab.limits import at_least, at_most, exactly
from faultlab.lab.measures import ends, steady
from faultlab.probes import cgroup, container, curl, jvm

VISITS = 200  # of 4 MB each: more than the container has, and less than Java may keep
BASKET = "http://app:8080/basket.jsp?kb={n}"
MEMORY = 512 << 20  # of the container
KILLED = 128 + 9


@dataclass(frozen=True)
class Look:
    """Users, one after the other, the state of the shop after them, and the bytes it may use."""

    served: int
    tomcat: State
    memory: int = MEMORY


@dataclass(frozen=True)
class Inspection:
    """The largest heap of Java and the memory limit of its container, while it runs."""

    tomcat: State
    jvm: jvm.Jvm | None
    limit: int | None

    @property
    def heap_percent(self) -> float:
        """The heap at its largest, in percent of the container's memory; 0 without a limit."""
        return 100 * self.jvm.max_heap / self.limit if self.jvm and self.limit else 0.0


def look(stack: Stack) -> Look:
    """Let the users come, until all have come or a minute is over.

    In a larger container they fill baskets of twice the size, so that it fills up, too.
    """
    limit = cgroup.read(stack.sidecar("tomcat")).limit or sys.maxsize
    usual = stack.dice.randint(3700, 4400)  # "some 4 MB each", says the ticket
    page = BASKET.format(n=usual if limit <= MEMORY else 2 * usual)
    served = curl.one_by_one(stack.user(), page, count=VISITS, max_time=10, seconds=60)
    wait = 5 if served < VISITS else 0
    return Look(served, container.settled(stack["tomcat"], wait), limit)


def inspect(stack: Stack) -> Inspection:
    """Ask Docker, the cgroup and Java. Only Docker knows about a container that has ended."""
    tomcat = stack["tomcat"]
    state = tomcat.state
    if not state.running:
        return Inspection(state, None, None)
    return Inspection(state, jvm.read(tomcat), cgroup.read(stack.sidecar("tomcat")).limit)


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        Measure("customers served, of 200", "served", exactly(VISITS), at_most(150)).says(
            "Every user is served.", "Some users are not served."
        ),
        Measure("exit code of tomcat", "tomcat.exit_code", exactly(0), exactly(KILLED)).says(
            "The program of the shop keeps running.",
            "The program of the shop does not keep running.",
        ),
        steady(
            "memory of the shop", lambda now: now.memory >> 20, at_most(MEMORY >> 20), "MB"
        ).says(
            "The shop takes no more memory than it may have.",
            "The shop takes more memory than it may have.",
        ),
    ),
    evidence=(
        Evidence(
            "heap that Java may take, of the container's memory",
            lambda before, after: before.heap_percent,
            at_least(100),
            unit="%",
        ).seen("app", "jcmd $(pgrep -x java) VM.flags"),
        ends(
            "ended by the OOM killer",
            # Docker keeps the flag when a container is started again.
            lambda now: int(now.tomcat.oom_killed and not now.tomcat.running),
            exactly(1),
        ).seen("tomcat", "docker inspect -f '{{.State.Status}} {{.State.OOMKilled}}' …-tomcat"),
    ),
    may_stop=("tomcat",),
    asks=basket(),
)
