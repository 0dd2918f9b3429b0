"""stale-upstream: the shop has a new address, and nginx keeps the one from its start."""

from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.asks import page
from faultlab.lab.check import Check, Evidence, Measure
from faultlab.lab.limits import at_least, at_most, exactly
from faultlab.lab.measures import steady
from faultlab.probes import curl, log

SHOP = "http://web:8000"
VISITS = 8
ADDRESS = "awk '{{ print $1; exit }}' {root}/etc/zone"
CONNECTING = "while connecting to upstream"
TRIED = f"""grep '{CONNECTING}' {{root}}{log.NGINX_ERROR} | grep -oE 'http://[0-9.]+' | tail -1"""


@dataclass(frozen=True)
class Look:
    """A page of the shop, how many of eight visits get it, and a page that nginx has itself.

    `arriving`: those that get it within a second.
    """

    page: curl.Page
    arriving: int
    start: curl.Page

    @property
    def prompt(self) -> int:
        """Return how many of all nine visits got the page within a second.

        The kernel gives up an address three seconds after the first attempt. So some visits can be
        lucky, but then the next one waits for two seconds.
        """
        return self.arriving + (self.page.status == 200 and self.page.total <= 1)


@dataclass(frozen=True)
class Inspection:
    """How often nginx could not connect, the address that it tried last, and that of the name."""

    failed: int
    tried: str
    address: str

    @property
    def stale(self) -> bool:
        """Return whether nginx tried another address than the name has now."""
        return bool(self.tried and self.address) and self.tried != self.address


def look(stack: Stack) -> Look:
    """Visit the shop; nginx gives up a connection after two seconds.

    The first page after a start of Tomcat takes longer, so it is asked for on app before.
    """
    user = stack.user()
    stack.sidecar("app").run("curl -s -m 5 -o /dev/null http://localhost:8080/")
    arriving = curl.prompt(user, f"{SHOP}/", tries=VISITS, within=1, max_time=5)
    return Look(curl.get(user, f"{SHOP}/", 5), arriving, curl.get(user, "http://web/"))


def inspect(stack: Stack) -> Inspection:
    """Read the error log of nginx, and the zone with the name."""
    web, ns1 = stack.sidecar("web"), stack.sidecar("ns1")
    failed = log.count(web, log.NGINX_ERROR, CONNECTING)
    tried = web.run(TRIED.format(root=web.root)).out.strip().removeprefix("http://")
    return Inspection(failed, tried, ns1.run(ADDRESS.format(root=ns1.root)).out.strip())


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        Measure("page of the shop: status", "page.status", exactly(200), at_least(500)).says(
            "The shop opens.", "The shop does not open."
        ),
        Measure(
            f"visits that get the page in a second, of {VISITS + 1}",
            "prompt",
            exactly(VISITS + 1),
            at_most(0),
        ).says("Every visit gets the page at once.", "Some visits do not get the page at once."),
        steady("start page: status", "start.status", exactly(200)).says(
            "The start page arrives.", "The start page does not arrive."
        ),
    ),
    evidence=(
        Evidence(
            "connections that nginx tried to an address that the name no longer has",
            lambda before, after: (after.failed - before.failed) * after.stale,
            at_least(4),
        ).seen("web", f"grep '{CONNECTING}' {log.NGINX_ERROR}; getent hosts shop.internal"),
    ),
    asks=(
        page(f"{SHOP}/", times=10, seconds=1.5),
        page(f"{SHOP}/basket.jsp?kb={{n}}", times=5, most=200, changes="and [0-9]+ articles"),
    ),
)
