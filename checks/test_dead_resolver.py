"""dead-resolver: the first resolver of web never answers, so each look-up takes five seconds."""

import time
from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.asks import booking
from faultlab.lab.check import Check, Measure
from faultlab.lab.limits import at_least, at_most, exactly
from faultlab.lab.measures import ends, grows, steady
from faultlab.probes import curl, mysql, nstat

PAGE = (
    "http://web/booking/restaurant.php"
    "?token=token-01&restaurant={}&date=2026-05-{:02}&time=18:00&guests=2&visit="
)
PAGES = 16
SENT, RECEIVED = "UdpOutDatagrams", "UdpInDatagrams"
LOOK_UP = "/usr/bin/timeout 2 /usr/bin/getent ahostsv4 db >/dev/null"


@dataclass(frozen=True)
class Look:
    """One booking page, sixteen at once, and a page that needs no database.

    `prompt`: how many of the sixteen arrive within 0.8 seconds.
    """

    page: curl.Page
    prompt: int
    start: curl.Page


@dataclass(frozen=True)
class Inspection:
    """The UDP counters of web, and whether web can look up the database within two seconds."""

    counters: dict[str, int]
    found: bool

    @property
    def unanswered(self) -> int:
        """Return the datagrams that web has sent and for which it got none."""
        return self.counters[SENT] - self.counters[RECEIVED]


def look(stack: Stack) -> Look:
    """Fetch the pages, one for at most four seconds. A copy of an earlier page does not count.

    Nor do connections that are open already, because they are ended.
    """
    user, dice = stack.user(), stack.dice
    url = f"{PAGE.format(dice.randint(1, 50), dice.randint(1, 28))}{time.time_ns()}"
    mysql.end_idle(stack.sidecar("mysql"))
    page = curl.get(user, f"'{url}'", max_time=4)
    prompt = curl.arriving(user, f"{url}-", tries=PAGES, max_time=0.8)
    return Look(page, prompt, curl.get(user, "http://web/"))


def inspect(stack: Stack) -> Inspection:
    """Read the counters of web, then look a name up there."""
    counters = nstat.read(stack.sidecar("web"), [SENT, RECEIVED])
    found = "db" not in stack or stack["web"].run(LOOK_UP).code == 0
    return Inspection(counters, found)


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        Measure("time of a booking page", "page.total", at_most(0.8), at_least(2), "s").says(
            "The response to a booking comes within a second.",
            "The response to a booking takes too long.",
        ),
        Measure("pages within 0.8 s, of 16", "prompt", at_least(15), at_most(8)).says(
            "Sixteen guests at once get their pages at once.",
            "Some of the guests wait for their pages, or do not get them.",
        ),
        steady("start page: status", "start.status", exactly(200)).says(
            "The start page arrives.", "The start page does not arrive."
        ),
    ),
    evidence=(
        grows("datagrams of web without an answer", "unanswered", at_least(20)).seen(
            "web", f"nstat -az {SENT} {RECEIVED}"
        ),
        ends("look-ups of the database within two seconds", "found", exactly(0)).seen(
            "web", "time getent hosts db"
        ),
    ),
    asks=booking(seconds=3),
)
