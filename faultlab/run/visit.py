"""Visit: one page that a user asked for, whether it was served, and what many of them come to."""

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median

from faultlab.core.text import number
from faultlab.lab import asks
from faultlab.lab.check import Check
from faultlab.lab.model import Lab

LATELY = 60  # visits of which the share is said
_MOST_SECONDS = 5.0  # for which a user waits
_URL = re.compile(r"https?://[^\s`)>,;]+")
# What curl could not do, by its exit code. Source: curl(1).
_WHY = {
    6: "name not found",
    7: "connection refused",
    18: "cut off",
    28: "no response in time",
    35: "no TLS connection",
    52: "empty response",
    56: "cut off",
    60: "certificate refused",
}


@dataclass(frozen=True)
class Page:
    """A page that users open. `seconds`: for which they wait. `below`: the status that is wrong."""

    url: str
    seconds: float
    below: int

    @property
    def name(self) -> str:
        """Return its address without the question in it."""
        return self.url.partition("?")[0]


@dataclass(frozen=True)
class Visit:
    """A visit. `at`: when it began, in seconds since 1970. `status`: 0 without a response."""

    at: float
    seconds: float
    served: bool
    status: int
    why: str
    url: str

    @property
    def words(self) -> str:
        """Return what came of it, in a few words."""
        how = "served" if self.served else f"failed: {self.why}"
        return f"{how}, {number(self.seconds, 's')}"


@dataclass(frozen=True)
class Share:
    """The result of some visits. `seconds`: the median of those served; None without one."""

    visits: int
    served: int
    seconds: float | None

    @property
    def percent(self) -> int | None:
        """Return the share that was served, which is 100 only if all were; None without a visit."""
        return 100 * self.served // self.visits if self.visits else None

    @property
    def words(self) -> str:
        """Return it as a sentence without an end, such as `98 % of 60 visits served, 0.2 s`."""
        if self.percent is None:
            return "no visit yet"
        took = "" if self.seconds is None else f", {number(float(f'{self.seconds:.2g}'), 's')}"
        s = "" if self.visits == 1 else "s"
        return f"{self.percent} % of {self.visits} visit{s} served{took}"


def pages(lab: Lab, check: Check[object, object]) -> list[Page]:
    """Return what a visitor of a lab opens, one after the other; empty if its users open no page.

    They are the pages that its check asks for, which come with status 200 from a healthy service.
    Without one they are those of the ticket: a page that takes orders alone refuses a visit, and
    so does a healthy one. So only an error of the server counts there.
    """
    asked = asks.limits(check.asks)
    if asked:
        return [Page(url, min(most, _MOST_SECONDS), 300) for url, most in asked.items()]
    named = dict.fromkeys(url.rstrip(".:") for url in _URL.findall(lab.ticket))
    return [Page(url, _MOST_SECONDS, 500) for url in named]


def parse(said: str, page: Page, at: float) -> Visit | None:
    """Return the visit that curl tells of: status, exit code, seconds. None if it was ended."""
    try:
        status, code, seconds = said.split()
        found, failed, took = int(status), int(code), float(seconds)
    except ValueError:
        return None
    why = _WHY.get(failed, f"curl's exit code {failed}") if failed else ""
    if not failed and not 0 < found < page.below:
        why = f"status {found}"
    return Visit(round(at, 3), round(took, 4), not why, found, why, page.url)


def share(visits: Sequence[Visit]) -> Share:
    """Return what these visits came to."""
    took = [visit.seconds for visit in visits if visit.served]
    return Share(len(visits), len(took), median(took) if took else None)


def line(visit: Visit) -> str:
    """Return a visit as a line of a file."""
    return json.dumps(asdict(visit), separators=(",", ":"))


def read(text: str) -> Visit | None:
    """Return the visit of a line; None for half a line, as a kill leaves one."""
    try:
        found = Visit(**json.loads(text))
        float(found.at), float(found.seconds)
    except (ValueError, TypeError, RecursionError):
        return None
    return found
