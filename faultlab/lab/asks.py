"""Asks: what a user asks the service for, to see that it is the service that answers.

A fast answer is no proof: an error page is fast. So an ask is put while all is healthy, and again
when all should be; the answers must be the same.
"""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass

FAILED = "failed"  # what an answer begins with that is none
RIGHT = ": right answers"  # ends the name of the finding
_AGENT = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"
# Its free tables, on a day for which nobody books.
RESTAURANT = (
    "http://web/booking/restaurant.php"
    "?token=token-01&restaurant={n}&date=2045-05-05&time=18:00&guests=2"
)


@dataclass(frozen=True)
class Ask:
    """A question to the service: a command of a user's machine, which prints a line an answer.

    `command` makes it from `count` numbers of 1 to `most`, which are others in each run.
    """

    name: str
    command: Callable[[Sequence[int]], str]
    count: int = 1
    most: int = 1_000_000
    seconds: float = 10


def page(
    url: str, *, times: int = 20, most: int = 1_000_000, changes: str = "", seconds: float = 3
) -> Ask:
    """Return the ask for a page, so many times at once; `{n}` in `url` is a number.

    `changes`: a regular expression (sed -E) of what is another in each answer. With half of the
    packets lost, twenty pages do not all come within three seconds.
    """

    def command(numbers: Sequence[int]) -> str:
        asked = "next\n".join(
            f'url = "{url.replace("{n}", str(n))}"\noutput = "{i}"\nmax-time = {seconds:g}\n'
            f'write-out = "%{{filename_effective}} %{{http_code}} %{{exitcode}}\\n"\n'
            f"insecure\n{_headers(i, len(numbers))}"
            for i, n in enumerate(numbers)
        )
        mask = shlex.quote(f"s#{changes}##g" if changes else "")
        return (
            f"cd $(mktemp -d) && curl -s --parallel --parallel-immediate -K - <<'_end_' | sort -n |"
            f" while read -r i code end; do if [ \"$code $end\" = '200 0' ];"
            f" then sed -E {mask} $i | sha256sum | cut -c1-16; else echo {FAILED} $code $end; fi;"
            f" done\n{asked}_end_\n"
        )

    return Ask(url.split("?", maxsplit=1)[0], command, times, most, seconds)


def _headers(number: int, of: int) -> str:
    """Return the headers of a request: of any size that fits a tiny packet, or those of a browser.

    A packet that the sender's kernel will still cut up passes an MTU that is too small for it.
    """
    if number < of / 2:
        return f'user-agent = ""\nheader = "Accept:"\nheader = "X: {"x" * 8 * number}"\n'
    return f'user-agent = "{_AGENT}"\nheader = "Cookie: visitor={"0123456789abcdef" * 40}"\n'


def said(name: str, command: str, seconds: float = 10) -> Ask:
    """Return the ask for what a command prints; it is kept as a digest."""
    quoted = shlex.quote(f"set -o pipefail; ({command}) | sha256sum | cut -c1-16")
    return Ask(name, lambda _: f"bash -c {quoted} || echo {FAILED}", seconds=seconds)
