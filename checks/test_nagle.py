"""nagle: nginx holds back the end of a response until the client acknowledges its beginning."""

from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.asks import page, said
from faultlab.lab.check import Check
from faultlab.lab.limits import at_least, at_most, exactly
from faultlab.lab.measures import grows, grows_per, share, steady
from faultlab.probes import nstat

LEAST, MOST = 50, 100  # the questions of one bill
DISH = "http://web/booking/dish.php?n="
TYPED = "%{http_code} %{num_connects} %{time_total}\\n"
SECONDS = 60  # for all of them; the fault takes four
LATE = 0.03  # seconds; the shortest delay of an ACK on Linux is 0.04, and a response takes 0.0005
# What is left of a dish changes each half second. Eight dishes are as before by chance in none of
# many million looks.
NOW = f"""left() {{ curl -sfm 5 '{DISH}[{{n}}0-{{n}}7]' | grep '^left [0-9]'; }}
now=$(left) && sleep 0.7 && later=$(left) && [ "$now" != "$later" ]"""
DELAYED, RECEIVED = "TcpExtDelayedACKs", "TcpInSegs"


@dataclass(frozen=True)
class Look:
    """Questions over one connection: the shares without a response and with a late one.

    `opened`: the connections for all of them.
    """

    failed: float
    opened: int
    late: float


@dataclass(frozen=True)
class Inspection:
    """The acknowledgements that the kernel of the tills has delayed, and the segments it got."""

    delayed: int
    received: int


def look(stack: Stack) -> Look:
    """Ask for fifty to a hundred dishes that were not asked for before."""
    first, count = stack.dice.randrange(1_000_000), stack.dice.randint(LEAST, MOST)
    questions = f"'{DISH}[{first}-{first + count - 1}]'"
    typed = f"timeout {SECONDS} curl -s -m 10 -o /dev/null -w '{TYPED}' {questions}"
    out = stack.user().run(typed, timeout=SECONDS + 20).out
    lines = [line.split() for line in out.splitlines()]
    prompt = sum(float(line[2]) < LATE for line in lines)  # what `timeout` ends prints nothing
    return Look(
        failed=1 - [line[0] for line in lines].count("200") / count,
        opened=sum(int(line[1]) for line in lines),
        late=1 - prompt / count,
    )


def inspect(stack: Stack) -> Inspection:
    """Read the counters of the kernel of the tills."""
    return Inspection(*nstat.read(stack.user(), [DELAYED, RECEIVED]).values())


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        steady("questions without a response", lambda now: 100 * now.failed, at_most(0), "%").says(
            "Every question gets a response.", "Some questions get no response."
        ),
        steady("connections for them", "opened", exactly(1)).says(
            "One connection is enough for a bill.", "A bill needs more than one connection."
        ),
        share("responses that take 30 ms or longer", "late", good=5, bad=60).says(
            "Responses come at once.", "Some responses take 30 milliseconds and more."
        ),
    ),
    evidence=(
        grows("acknowledgements that the tills delay", "delayed", at_least(LEAST // 2)).seen(
            "client", f"nstat -az {DELAYED}"
        ),
        # Many connections delay some as well. Here it is one for every few segments.
        grows_per(
            "delayed, of the segments that they get", "delayed", "received", at_least(10)
        ).seen("client", f"nstat -az {DELAYED} {RECEIVED}"),
    ),
    asks=(
        page(f"{DISH}{{n}}", times=10, changes="^left [0-9]+$"),
        said("what is left of a dish is of now", f"{NOW} && echo new"),
    ),
)
