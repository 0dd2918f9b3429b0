"""retry-storm: a page asks again and again, and the queue of a short pause never ends."""

from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.asks import page, said
from faultlab.lab.check import Check
from faultlab.lab.limits import at_least
from faultlab.lab.measures import grows, share
from faultlab.probes import log

PAGE = "http://app:8080/tables.jsp?restaurant="
COPY = "http://web/booking/copy.php"
USERS = 208  # sixteen a second for thirteen seconds; after two seconds the book is copied
LATE = 160  # those who come later than that come four seconds after the copy, or later
ACCESS = "/var/log/nginx/access.log"
# First it waits until what an earlier look has left is done.
COME = f"""cd $(mktemp -d)
for i in $(seq 40); do curl -sfm 0.8 -o page {PAGE}1 && break; sleep 1; done
visit() {{ curl -s -o /dev/null -m 2 -w '%{{http_code}}\\n' {PAGE}$1 >$1; }}
for i in $(seq {USERS}); do
  visit $i &
  [ $i != 32 ] || curl -s -o copy -m 12 {COPY} &
  sleep 0.0625
done
wait
seq {LATE + 1} {USERS} | xargs cat | grep -c 200; rm -rf $PWD"""
FORTY = f"for i in $(seq {{n}} $(({{n}} + 39))); do curl -sfm 5 {PAGE}$i || echo failed; done"
# Four readers at a time: ten need three times 100 ms.
TEN = f"curl -s -o /dev/null -Z --parallel-immediate --parallel-max 10 -m 5 '{PAGE}[1-10]'"
SLOW = f"began=$(date +%s%N) && {TEN} 2>/dev/null; [ $(($(date +%s%N) - began)) -ge 250000000 ]"
COPIED = (
    f"curl -sfm 9 {COPY} >/tmp/copy & sleep 1;"
    " ! curl -sfm 1 -o /dev/null http://web/booking/tables.php && wait $! && cat /tmp/copy"
)


@dataclass(frozen=True)
class Look:
    """Users who got the page, of those who came four seconds after the copy and later."""

    served: int


@dataclass(frozen=True)
class Inspection:
    """The calls that the reservation book got, and those that the shop gave up (499)."""

    calls: int
    given_up: int


def look(stack: Stack) -> Look:
    """Let users come steadily, and the book be copied once."""
    return Look(int(stack.user().run(COME, timeout=90).out.strip() or 0))


def inspect(stack: Stack) -> Inspection:
    """Read the log of nginx."""
    web = stack["web"]
    return Inspection(log.count(web, ACCESS, "tables.php"), log.count(web, ACCESS, " 499 "))


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        share(
            "users without the page", lambda now: 1 - now.served / (USERS - LATE), good=10, bad=50
        ).says("Users get the page.", "Users wait for the page in vain."),
    ),
    evidence=(
        grows("calls for each page", lambda now: now.calls / USERS, at_least(3)).seen(
            "web", f"grep -c tables.php {ACCESS}"
        ),
        grows("calls that the shop gave up", "given_up", at_least(300)).seen(
            "web", f"grep -c ' 499 ' {ACCESS}"
        ),
    ),
    asks=(
        page(PAGE + "{n}", times=10),
        said("forty pages, one by one", FORTY, seconds=40),
        said("the book, for ten users at once", SLOW),
        said("the copy of the book", COPIED, seconds=20),
    ),
)
