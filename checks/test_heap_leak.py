"""heap-leak: a page keeps each statement that it has made, until the heap is full."""

import re
import secrets
import sys
from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.asks import page, said
from faultlab.lab.check import Check
from faultlab.lab.limits import at_least, at_most
from faultlab.lab.measures import ends, share, steady
from faultlab.probes import cgroup, curl

PAGE = "http://app:8080/statement.jsp"
START = "http://app:8080/index.jsp"
USERS = 20
MEMORY = 512 << 20  # of the container
# All of them together make statements of four times that. That fills the heap too if each statement
# takes a tenth of its memory. Each is another customer.
GROUPS, VISITS = 6, 250
CUSTOMERS = 900_000_000
GROUP = (
    "timeout 5 curl -s -o /dev/null -m 5 --parallel --parallel-max 4"
    f" '{PAGE}?months=24&customer=[{{first}}-{{last}}]'"
)
# Large statements of ten others do not cost a customer the file. Nor do usual ones, and 61 of these
# come one by one. So a map of fifty cannot be emptied at a moment when it does not matter.
FILE = (
    f"file=$(curl -sfm 5 '{PAGE}?customer={{n}}' | grep -oE 'file=[0-9a-f-]+') &&"
    f" timeout 15 curl -sfm 9 -o /dev/null '{PAGE}?months=50&customer=[1-10]' &&"
    f' curl -sfm 5 "{PAGE}?$file" || exit 1; for i in $(seq 61); do'
    f' files[i]=$(curl -sfm 5 "{PAGE}?customer=$(({{n}} + i))" | grep -oE "file=[0-9a-f-]+") &&'
    " { [ $i -le 10 ] ||"
    f' curl -sfm 5 "{PAGE}?${{files[i - 10]}}" || exit 1; }} || exit 1; done'
)
# The last collection of the whole heap, such as 156M->155M(156M); no line before the first one.
LOG = "grep 'Pause Full' /var/log/tomcat10/gc.log | grep -o '[0-9]*M->.*)' | tail -n 1"


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
    """Let users come, more than a leaking heap has room for; then count those who are served."""
    user = stack.user()
    first = secrets.randbelow(CUSTOMERS) + 1
    for group in range(GROUPS):
        start = first + group * VISITS
        user.run(GROUP.format(first=start, last=start + VISITS - 1), timeout=20)
        if curl.get(user, START, 5).exit_code:
            break  # the shop has stopped already
    statements = curl.arriving(user, PAGE, tries=USERS, max_time=8)
    starts = curl.arriving(user, START, tries=USERS, max_time=8)
    return Look(statements, starts, cgroup.read(stack["tomcat"]).limit or sys.maxsize)


def inspect(stack: Stack) -> Inspection:
    """Read Java's log."""
    last = re.search(r">(\d+)M\((\d+)M", stack["tomcat"].run(LOG).out)
    return Inspection(int(last[1]) / int(last[2]) if last else 0.0)


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        share(
            "users without their statement", lambda now: 1 - now.statements / USERS, good=5, bad=30
        ).says("Users get their statement.", "Users wait for their statement in vain."),
        share(
            "users without the start page", lambda now: 1 - now.starts / USERS, good=5, bad=30
        ).says("The start page comes.", "Users wait for the start page in vain."),
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
    ),
)
