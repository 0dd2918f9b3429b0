"""heap-leak: a page keeps each statement that it has made, until the heap is full."""

import re
import sys
import time
from dataclasses import dataclass

from faultlab.engine.shell import Shell
from faultlab.engine.stack import Stack
from faultlab.lab.asks import page, said
from faultlab.lab.check import Check
from faultlab.lab.limits import at_least, at_most
from faultlab.lab.measures import ends, share, steady
from faultlab.probes import cgroup, curl, jvm

PAGE = "http://app:8080/statement.jsp"
START = "http://app:8080/index.jsp"
USERS = 20
MEMORY = 512 << 20  # of the container
CUSTOMERS = 900_000_000
MINUTE = 100  # customers in the busiest minute
KEPT = 60  # of these at most can be in a map with a largest size
NOISE = 2 << 20  # bytes by which the heap grows by itself
FORGOTTEN = 68  # seconds after which a statement that is kept for a minute has gone
# All of them together make statements of eight times the heap. That fills it too if each statement
# takes a tenth of its memory. Each is another customer.
GROUPS, VISITS = 6, 500
GROUP = (
    "timeout {seconds} curl -s -o /dev/null -m 5 --parallel --parallel-max 4"
    f" '{PAGE}?customer=[{{first}}-{{last}}]'"
)
# A statement, and its file when others have looked at theirs and some seconds have passed.
_OPEN = f"file=$(curl -sfm 5 '{PAGE}?customer='$1 | grep -oE 'file=[0-9a-f-]+')"
READERS = f"""n={{n}}
reader() {{ {_OPEN} && sleep $2 && curl -sfm 5 "{PAGE}?$file" >/tmp/$1 || echo no file; }}
reader $n $((n % 6 + 1)) & reader $((n + 1)) $((n % 7 + 7)) & reader $((n + 2)) $((n % 6 + 14)) &
sleep 0.5
curl -s -o /dev/null -m 5 -Z --parallel-max 4 "{PAGE}?customer=[$((n + 3))-$((n + 36))]"
wait
cd /tmp && cat $n $((n + 1)) $((n + 2))"""
# Large statements of four others do not cost a customer the file. Nor do usual ones, and 61 of
# these come one by one. So a map of fifty cannot be emptied at a moment when it does not matter.
FILE = (
    f"file=$(curl -sfm 5 '{PAGE}?customer={{n}}' | grep -oE 'file=[0-9a-f-]+') &&"
    f" timeout 15 curl -sfm 9 -o /dev/null '{PAGE}?months=50&customer=[1-4]' &&"
    f' curl -sfm 5 "{PAGE}?$file" || exit 1; for i in $(seq 61); do'
    f' files[i]=$(curl -sfm 5 "{PAGE}?customer=$(({{n}} + i))" | grep -oE "file=[0-9a-f-]+") &&'
    " { [ $i -le 10 ] ||"
    f' curl -sfm 5 "{PAGE}?${{files[i - 10]}}" || exit 1; }} || exit 1; done'
)
# The page as it was released. It keeps each statement, so there is no wait for one to go.
RELEASED = "0455105364f53522"
# The last collection of the whole heap, such as 156M->155M(156M); no line before the first one.
LOG = "grep 'Pause Full' {}/var/log/tomcat10/gc.log | grep -o '[0-9]*M->.*)' | tail -n 1"


@dataclass(frozen=True)
class Look:
    """Users who got their statement in time, and users who got a page that keeps nothing."""

    statements: int
    starts: int
    memory: int  # that the shop may use, in bytes


@dataclass(frozen=True)
class Inspection:
    """The share of the heap that the last full collection left; 0 before the first one."""

    left: float


def look(stack: Stack) -> Look:
    """Let as many customers come as in days, one after the other, and count those served after it.

    First those of the busiest minute come. If their statements are gone a minute later, no more
    come at once: the shop holds what a minute brings, and forgets it before the next one.
    """
    user, first = stack.user(), stack.dice.randint(1, CUSTOMERS)
    if not _forgets(stack, first):
        for group in range(GROUPS):
            _come(user, first + MINUTE + group * VISITS, VISITS, 5)
            if curl.get(user, START, 5).exit_code:
                break  # the shop has stopped already
    statements = curl.arriving(user, PAGE, tries=USERS, max_time=8)
    starts = curl.arriving(user, START, tries=USERS, max_time=8)
    return Look(statements, starts, cgroup.read(stack.sidecar("tomcat")).limit or sys.maxsize)


def _come(user: Shell, first: int, count: int, seconds: int) -> None:
    """Let so many customers look at their statements, four at a time."""
    command = GROUP.format(seconds=seconds, first=first, last=first + count - 1)
    user.run(command, timeout=seconds + 15)


def _forgets(stack: Stack, first: int) -> bool:
    """Let the customers of the busiest minute come; return whether the heap then forgets them.

    If it has a largest number of them, it grows no more with the last ones. It forgets them at once
    then, and not after a time.
    """
    user, tomcat = stack.user(), stack.sidecar("tomcat")
    empty = jvm.live(tomcat)
    _come(user, first, KEPT, 10)
    before = jvm.live(tomcat)
    _come(user, first + KEPT, MINUTE - KEPT, 10)
    after = jvm.live(tomcat)
    if not (empty and before and after) or after - before < NOISE or _released(tomcat):
        return False
    until = time.monotonic() + FORGOTTEN
    while time.monotonic() < until:
        time.sleep(4)
        now = jvm.live(tomcat)
        if now is None or now - empty < (after - empty) / 4:
            return now is not None
    return False


def _released(tomcat: Shell) -> bool:
    page = f"{tomcat.root}/var/lib/tomcat10/webapps/ROOT/statement.jsp"
    return tomcat.run(f"sha256sum <{page}").out.startswith(RELEASED)


def inspect(stack: Stack) -> Inspection:
    """Read Java's log."""
    tomcat = stack.sidecar("tomcat")
    last = re.search(r">(\d+)M\((\d+)M", tomcat.run(LOG.format(tomcat.root)).out)
    return Inspection(int(last[1]) / int(last[2]) if last else 0.0)


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        share(
            "users without their statement", lambda now: 1 - now.statements / USERS, good=5, bad=30
        ).says("Users get their statement.", "Some users do not get their statement."),
        share(
            "users without the start page", lambda now: 1 - now.starts / USERS, good=5, bad=30
        ).says("The start page comes.", "Some users do not get the start page."),
        steady(
            "memory of the shop", lambda now: now.memory >> 20, at_most(MEMORY >> 20), "MB"
        ).says(
            "The shop takes no more memory than it may have.",
            "The shop takes more memory than it may have.",
        ),
    ),
    evidence=(
        ends(
            "heap that the last full collection left", lambda now: 100 * now.left, at_least(85), "%"
        ).seen("app", "grep 'Pause Full' /var/log/tomcat10/gc.log | tail -n 1"),
    ),
    asks=(
        page(PAGE + "?customer={n}", changes="file=[0-9a-f-]+", seconds=10, times=10),
        page(START),
        said("the file of a statement, ten statements later", FILE, seconds=30),
        said("the files of readers, up to twenty seconds later", READERS, seconds=40),
    ),
)
