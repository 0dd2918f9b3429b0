"""nagle: nginx holds back the end of a response until the client acknowledges its beginning."""

from dataclasses import dataclass
from secrets import randbelow
from statistics import median

from faultlab.engine.stack import Stack
from faultlab.lab.asks import page
from faultlab.lab.check import Check, Measure
from faultlab.lab.limits import at_least, at_most, exactly
from faultlab.lab.measures import grows, grows_per, steady
from faultlab.probes import nstat

COUNT = 80  # the questions of one bill
DISH = "http://web/booking/dish.php?n="
TYPED = "%{http_code} %{num_connects} %{time_total}\\n"
SECONDS = 60  # for all of them; the fault takes four
DELAYED, RECEIVED = "TcpExtDelayedACKs", "TcpInSegs"


@dataclass(frozen=True)
class Look:
    """Questions over one connection: good responses, connections, and the median time in ms."""

    good: int
    opened: int
    median: float


@dataclass(frozen=True)
class Inspection:
    """The acknowledgements that the kernel of client has delayed, and the segments that it got."""

    delayed: int
    received: int


def look(stack: Stack) -> Look:
    """Ask for eighty dishes that were not asked for before."""
    first = randbelow(1_000_000)
    questions = f"'{DISH}[{first}-{first + COUNT - 1}]'"
    typed = f"timeout {SECONDS} curl -s -m 10 -o /dev/null -w '{TYPED}' {questions}"
    out = stack.user().run(typed, timeout=SECONDS + 20).out
    lines = [line.split() for line in out.splitlines()]
    times = [float(line[2]) for line in lines] or [SECONDS]  # what `timeout` ends prints nothing
    return Look(
        good=[line[0] for line in lines].count("200"),
        opened=sum(int(line[1]) for line in lines),
        median=1000 * median(times),
    )


def inspect(stack: Stack) -> Inspection:
    """Read the counters of the network that client and its users share."""
    return Inspection(*nstat.read(stack.user(), [DELAYED, RECEIVED]).values())


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        steady(f"responses to {COUNT} questions", "good", exactly(COUNT)).says(
            "Every question gets a response.", "Some questions get no response."
        ),
        steady("connections for them", "opened", exactly(1)).says(
            "One connection is enough for a bill.", "A bill needs more than one connection."
        ),
        # The shortest delay of an ACK on Linux is 40 ms. A response takes about half a millisecond.
        Measure("time for a response, median", "median", at_most(15), at_least(30), "ms").says(
            "Responses come at once.", "Each response takes dozens of milliseconds."
        ),
    ),
    evidence=(
        grows("acknowledgements that client delays", "delayed", at_least(COUNT // 2)).seen(
            "client", f"nstat -az {DELAYED}"
        ),
        # Many connections delay some as well. Here it is one for every few segments.
        grows_per(
            "delayed, of the segments that client gets", "delayed", "received", at_least(10)
        ).seen("client", f"nstat -az {DELAYED} {RECEIVED}"),
    ),
    asks=(page(f"{DISH}{{n}}", times=10),),
)
