"""heap-oom: Java may take 8 GB in a container that has 512 MB, and the kernel ends it."""

from dataclasses import dataclass

from faultlab.engine.contract import State
from faultlab.engine.stack import Stack
from faultlab.lab.asks import page, said
from faultlab.lab.check import Check, Evidence, Measure
from faultlab.lab.limits import at_least, at_most, exactly
from faultlab.lab.measures import ends
from faultlab.probes import cgroup, container, curl, jvm

VISITS = 200  # of 4 MB each: more than the container has, and no more than Java may keep
BASKET = "http://app:8080/basket.jsp?kb={n}"
MEMORY = 512 << 20  # of the container
# Of 256 pages of memory that are compared one is the same, and all are with the basket itself.
OTHERS = (
    "curl -sm 10 'http://app:8080/basket.jsp?kb=400&others=100' | grep -oE 'and [0-9]+ articles' |"
    " awk '{ exit $2 < 10 }'"
)
KILLED = 128 + 9


@dataclass(frozen=True)
class Look:
    """Customers, one after the other, and how the shop was after them."""

    served: int
    tomcat: State


@dataclass(frozen=True)
class Inspection:
    """The memory that Java may take and that its container may take, while it runs."""

    tomcat: State
    jvm: jvm.Jvm | None
    limit: int | None

    @property
    def heap_percent(self) -> float:
        """The heap at its largest, in percent of the container's memory; 0 without a limit."""
        return 100 * self.jvm.max_heap / self.limit if self.jvm and self.limit else 0.0


def look(stack: Stack) -> Look:
    """Let the customers come, until they are through or a minute is over.

    In a larger container their baskets are larger, up to twice: it has to be filled.
    """
    limit = cgroup.read(stack["tomcat"]).limit
    page = BASKET.format(n=4096 if limit and limit <= MEMORY else 8192)
    served = curl.one_by_one(stack.user(), page, count=VISITS, max_time=10, seconds=60)
    wait = 5 if served < VISITS else 0
    return Look(served, container.settled(stack["tomcat"], wait))


def inspect(stack: Stack) -> Inspection:
    """Ask Docker, the cgroup and Java; of a container that has ended only Docker knows."""
    tomcat = stack["tomcat"]
    state = tomcat.state
    if not state.running:
        return Inspection(state, None, None)
    return Inspection(state, jvm.read(tomcat), cgroup.read(tomcat).limit)


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        Measure("customers served, of 200", "served", exactly(VISITS), at_most(150)).says(
            "Every customer is served.", "The shop stops before every customer is served."
        ),
        Measure("exit code of tomcat", "tomcat.exit_code", exactly(0), exactly(KILLED)).says(
            "The shop's program keeps running.", "The shop's program has ended."
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
    asks=(
        page(BASKET, times=5, most=200, changes="and [0-9]+ articles", seconds=10),
        said("what others also bought", OTHERS),
    ),
)
