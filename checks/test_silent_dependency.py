"""silent-dependency: a firewall drops what the shop sends to memcached, and the shop waits."""

from dataclasses import dataclass, replace

from faultlab.engine.shell import Shell
from faultlab.engine.stack import Stack
from faultlab.lab.asks import page, said
from faultlab.lab.check import Check
from faultlab.lab.limits import at_least
from faultlab.lab.measures import ends, grows, share
from faultlab.probes import curl, nstat, sockets

READERS = 60  # more than Tomcat has threads
BUYERS = 10
ARTICLE = "http://app:8080/article.jsp"
START = "http://app:8080/index.jsp"
WOODS = ["ash", "beech", "birch", "cherry", "elm", "larch", "maple", "oak", "pine", "walnut"]
RETRANSMITTED = "TcpRetransSegs"
# Nothing but the shop can use the cache: no machine at any address, nor one that has no part in
# this. Each tries three times, and says something.
CLOSED = """tried() { for _ in 1 2 3; do
printf 'version\\r\\nquit\\r\\n' | timeout 0.5 nc "$@" cache 11211 | grep -c . ; done; }
"""
OFFICE = f"{CLOSED}tried; true"
# The users' machine takes four addresses more: those below 20 belong to the stack.
ANYWHERE = f"""{CLOSED}
net=$(ip -4 -o addr show dev eth0 | sed -nE '1s/.* inet ([0-9.]+)[.].*/\\1/p')
for i in 3 71 129 187; do from=$net.$((20 + ({{n}} + i) % 230))
ip -4 addr add $from/24 dev eth0 2>/dev/null; tried -s $from & done; wait"""


@dataclass(frozen=True)
class Look:
    """Users who got an article, and users who got a page that needs nothing."""

    articles: int
    starts: int


@dataclass(frozen=True)
class Inspection:
    """The shop's connections by state, and the segments that were sent again."""

    sockets: sockets.Sockets
    counters: dict[str, int]

    @property
    def unanswered(self) -> int:
        """The connections for which the shop still waits."""
        return self.sockets.states.get("SYN-SENT", 0)


def look(stack: Stack) -> Look:
    """Let the readers come, then the buyers. A buyer needs a thread that no reader occupies."""
    user = stack.user()
    curl.get(user, ARTICLE, 3)  # a changed page is compiled at its first request
    return Look(
        _read(user, stack.dice.randint(1, 10**8)),
        curl.arriving(user, START, tries=BUYERS, max_time=2),
    )


def _read(user: Shell, first: int) -> int:
    """Count the readers, each of another article, who get its description within two seconds."""
    numbers = range(first, first + READERS)
    at_once = f"curl -s -m 2 -Z --parallel-immediate --parallel-max {READERS}"
    out = user.run(f"{at_once} '{ARTICLE}?number=[{first}-{numbers[-1]}]'").out
    return len({_described(number) for number in numbers} & {*out.splitlines()})


def _described(number: int) -> str:
    """Return what the catalogue has about an article."""
    its = f"{WOODS[number % 10]}, {number % 97} cm wide, number {number * 0x9E3779B1 % 2**32:x}"
    return f"<p>Made of {its}.</p>"


def inspect(stack: Stack) -> Inspection:
    """Ask the kernel of app."""
    app = stack.sidecar("app")
    return Inspection(sockets.read(app), nstat.read(app, [RETRANSMITTED]))


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        share(
            "readers without their article", lambda now: 1 - now.articles / READERS, good=1, bad=50
        ).says("Readers get their article.", "Some readers do not get their article."),
        share(
            "buyers without the start page", lambda now: 1 - now.starts / BUYERS, good=1, bad=50
        ).says("The start page comes.", "The start page does not come."),
    ),
    evidence=(
        ends("connections of the shop in SYN-SENT", "unanswered", at_least(40)).seen(
            "app", "ss -Htn state syn-sent | wc -l"
        ),
        grows(
            "segments that the shop sent again",
            lambda now: now.counters[RETRANSMITTED],
            at_least(50),
        ).seen("app", f"nstat -az {RETRANSMITTED}"),
    ),
    asks=(
        page(ARTICLE + "?number={n}"),
        page(START),
        said("the cache, for other machines", ANYWHERE),
        replace(said("the cache, for the office", OFFICE), at="office"),
    ),
)
