"""Probe: visits over a new connection each, timed from the first SYN, by ab. Source: ab(1).

wrk starts its clock when a connection is open, so a SYN that is repeated after a second does not
show in its percentiles. ab's clock includes the connect.
"""

import re
from dataclasses import dataclass

from faultlab.core.errors import CannotRun
from faultlab.engine.shell import Shell
from faultlab.lab import browser

_SLOW = 500  # milliseconds
_SILENCE = 5  # seconds without any response, after which ab gives up

# By a reset or a refusal. Other errors can be ab's own, such as having no port left.
_TURNED_AWAY = re.compile(
    r"^apr_socket_connect\(\): Connection re\w+.* \((104|111)\)$", re.MULTILINE
)

# ab -g writes a line for each request, the fastest first; field 5 is its total time in ms.
_TAIL = r"""awk -F'\t' 'NR > 1 { t[++n] = $5; if ($5 >= %d) slow++ }
END { k = int(n / 100); if (k < 1) k = 1
  for (i = n - k + 1; i <= n; i++) sum += t[i]
  usual = t[int((n + 1) / 2)]
  for (i = n; i > 0 && t[i] > 3 * usual; i--) late++
  printf "tail %%d %%d %%d %%.1f %%d\n", usual, t[n], slow, sum / k, late }'"""


@dataclass(frozen=True)
class Visits:
    """Visits over a new connection each. Times are in seconds and include the connect.

    `slow`: over half a second. `slowest_percent`: the mean of the slowest 1%. `late`: over three
    times the median; 0 in records from before it was counted.
    """

    seconds: float
    requests: int
    failed: int
    slow: int
    median: float
    slowest_percent: float
    max: float
    late: int = 0

    @property
    def good_per_second(self) -> float:
        """Return the visits per second that got their page."""
        return (self.requests - self.failed) / self.seconds

    @property
    def slow_share(self) -> float:
        """Return the share of visits that were slow or failed, 0 to 1; 1 if there were none."""
        return min(1, (self.slow + self.failed) / self.requests) if self.requests else 1.0

    @property
    def late_share(self) -> float:
        """Return the share of visits that were late, 0 to 1; 1 if there were none."""
        return self.late / self.requests if self.requests else 1.0


@dataclass(frozen=True)
class Look:
    """A look of a lab whose users only make such visits."""

    visits: Visits


def visits(
    machine: Shell, url: str, *, visitors: int, seconds: int, most: int = 1_000_000
) -> Visits:
    """Make visits with `visitors` at a time for `seconds`, at most `most` visits.

    The visitors send the headers of a browser.
    """
    sent = " ".join(f"-H '{line}'" for line in browser.headers(visitors))
    command = (
        "cd $(mktemp -d) && "
        f"ab -q -r -s {_SILENCE} {sent} -c {visitors} -t {seconds} -n {most} -g times {url} 2>&1; "
        f"[ -s times ] && {_TAIL % _SLOW} times; rm -rf $PWD"
    )
    return parse(machine.run(command, timeout=seconds + 30).out, seconds)


def warm(machine: Shell, url: str, *, visitors: int, requests: int, seconds: int) -> None:
    """Make visits until there were `requests` or the time is over, without a measurement."""
    command = f"ab -q -r -s 10 -c {visitors} -t {seconds} -n {requests} {url}"
    machine.run(command, timeout=seconds + 30)


def parse(out: str, seconds: float) -> Visits:
    """Parse ab's report and the line about the tail.

    ab prints no report if it gets no response any more, or after ten refused visits. Then all
    visits before that count as slow and late, because their times are unknown. Raises CannotRun for
    any other output without a report.
    """
    if "apr_pollset_poll: The timeout" in out or _TURNED_AWAY.search(out):
        before = int(_number(r"Total of (\d+) requests completed", out))
        return Visits(seconds, before, 0, before, _SILENCE, _SILENCE, _SILENCE, before)
    tail = re.search(r"^tail (\d+) (\d+) (\d*) ([\d.]+)(?: (\d+))?$", out, re.MULTILINE)
    if not tail:
        last = (out.strip().splitlines() or ["nothing"])[-1]
        raise CannotRun(f"ab gave no result: {last}")
    requests = int(_number(r"Complete requests: +(\d+)", out))
    errors = _number(r"Failed requests: +(\d+)", out)  # one visit can have several
    refused = _number(r"Non-2xx responses: +(\d+)", out)
    return Visits(
        seconds=_number(r"Time taken for tests: +([\d.]+)", out),
        requests=requests,
        failed=min(requests, int(errors + refused)),
        slow=int(tail[3] or 0),
        median=int(tail[1]) / 1000,
        slowest_percent=float(tail[4]) / 1000,
        max=int(tail[2]) / 1000,
        late=int(tail[5] or 0),
    )


def _number(pattern: str, out: str) -> float:
    found = re.search(pattern, out)
    return float(found[1]) if found else 0.0
