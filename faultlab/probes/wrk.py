"""Probe: load from wrk, whose script prints the result as JSON. Source: wrk's SCRIPTING.

Scripts: `json` requests one page repeatedly; `booking` books a table with each request. A request
that takes longer than `timeout` counts as a timeout and not in the percentiles.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from faultlab.core.errors import CannotRun
from faultlab.engine.shell import Shell
from faultlab.probes import mysql

_SCRIPTS = "/usr/local/share/wrk"
# Seconds for the connection that wrk opens before its load: six SYNs, the last one after 31 s.
# Linux gives up after 127 s (tcp(7), tcp_syn_retries); no learner should wait that long, twice.
_FIRST_CONNECTION = 35
_LATE = 124  # what timeout(1) returns then
_NO_CONNECTION = "unable to connect"  # how wrk says it
_DRAWS = """dofile("/usr/local/share/wrk/json.lua")
local threads = 0
function setup(thread) threads = threads + 1; thread:set("number", threads) end
function init() math.randomseed(os.time() * 100 + number) end
"""
# Each URL ends with a random number, different in each load.
_NUMBERED = (
    _DRAWS + 'function request() return wrk.format("GET", wrk.path .. math.random(1, %d)) end'
)
# Each URL ends with one of some texts.
_ENDING = (
    _DRAWS
    + 'local ends = {"%s"}\n'
    + 'function request() return wrk.format("GET", wrk.path .. ends[math.random(#ends)]) end'
)
# wrk ends with responses unread, and Linux ends such a connection with an RST. Browsers do not, and
# a tool would see resets where nothing is wrong. So it reads what comes within 0.2 s, after it has
# printed its result. MSG_PEEK is 2, MSG_DONTWAIT 64 and EAGAIN 11: so its sockets are found.
_ENDS = """dofile("%s")
local report = done
function done(...)
  report(...)
  io.flush()
  local ffi = require("ffi")
  ffi.cdef("long recv(int, void *, size_t, int); int usleep(unsigned);")
  local buffer, answered = ffi.new("char[65536]"), {}
  for fd = 3, 1023 do
    local size = ffi.C.recv(fd, buffer, 1, 66)
    if size > 0 or (size < 0 and ffi.errno() == 11) then answered[fd] = false end
  end
  for _ = 1, 40 do
    local again = false
    for fd in pairs(answered) do
      local size = ffi.C.recv(fd, buffer, 65536, 64)
      answered[fd] = answered[fd] or size >= 0
      again = again or size > 0 or not answered[fd]
    end
    if not again then return end
    ffi.C.usleep(5000)
  end
end
"""
# So many connections the users' kernel keeps in TIME-WAIT (labs/stack.yaml). It resets others.
_ENDED = 100


@dataclass(frozen=True)
class Load:
    """A bounded load as its users experienced it. Latencies in seconds.

    `refused`: correct refusals, such as 409 for a table that is taken.
    """

    seconds: float
    requests: int
    non_2xx: int
    timeouts: int
    socket_errors: int
    p50: float
    p99: float
    max: float
    refused: int = 0

    @property
    def good(self) -> int:
        """Return the number of requests that succeeded."""
        return self.requests - self.non_2xx - self.refused

    @property
    def good_per_second(self) -> float:
        """Return the requests per second that succeeded."""
        return self.good / self.seconds

    @property
    def failed_share(self) -> float:
        """Return the share of requests that failed or timed out, 0 to 1."""
        failed = self.non_2xx + self.timeouts + self.socket_errors
        total = self.requests + self.socket_errors  # a timed-out request is among the requests
        return min(1, failed / total) if total else 1.0


@dataclass(frozen=True)
class Look:
    """A look of a lab whose users only make this load."""

    load: Load


@dataclass(frozen=True)
class Booked(Look):
    """A load of bookings. `kept`: orders in the book for each confirmed order."""

    kept: float = 1.0


def load(
    machine: Shell,
    url: str,
    *,
    connections: int,
    seconds: int,
    timeout: int = 2,
    script: str = "json",
) -> Load:
    """Send the requests of a script over `connections` for `seconds`."""
    limit = _FIRST_CONNECTION + seconds + timeout
    file = f"{Path(_SCRIPTS, script)}.lua"
    written = ""
    if connections <= _ENDED:
        ends = f"/tmp/{Path(script).name}-ends.lua"
        written = f"cat >{ends}.$$ <<'_end_'\n{_ENDS % file}_end_\nmv {ends}.$$ {ends}\n"
        file = ends
    command = (
        f"{written}timeout {limit} wrk -t{min(2, connections)} -c{connections} -d{seconds}s"
        f" --timeout {timeout}s -s {file} {url} 2>&1"
        f" || {{ [ $? = {_LATE} ] && echo {_NO_CONNECTION}; }}"
    )
    return parse(machine.run(command, timeout=limit + 10).out, connections)


def numbered(user: Shell, url: str, *, most: int, connections: int, seconds: int) -> Load:
    """Request pages at `url` plus a number of 1 to `most`, drawn for each request."""
    user.must(f"cat >/tmp/numbered.lua <<'_end_'\n{_NUMBERED % most}\n_end_")
    how = {"connections": connections, "seconds": seconds, "timeout": 20}
    return load(user, url, **how, script="/tmp/numbered")


def ending(
    user: Shell, url: str, ends: Sequence[str], *, connections: int, seconds: int, timeout: int
) -> Load:
    """Request pages at `url` plus one of these ends, drawn for each request."""
    script = _ENDING % '", "'.join(ends)
    user.must(f"cat >/tmp/ending.lua <<'_end_'\n{script}\n_end_")
    how = {"connections": connections, "seconds": seconds, "timeout": timeout}
    return load(user, url, **how, script="/tmp/ending")


def bookings(user: Shell, *, connections: int, seconds: int) -> Load:
    """Let `connections` partners book tables, one order after the other."""
    how = {"connections": connections, "seconds": seconds, "timeout": 10}
    return load(user, "http://web", **how, script="booking")


def booked(user: Shell, *, connections: int, seconds: int) -> Booked:
    """Let `connections` partners book tables, one order after the other, three times.

    The first round warms the workers up: each connects to the database with its first order. The
    better of the other two counts. All confirmed orders must be in the book.
    """
    before = mysql.orders(user)
    tries = [bookings(user, connections=connections, seconds=seconds) for _ in range(3)]
    confirmed = sum(each.good_per_second * each.seconds for each in tries)
    share = (mysql.orders(user) - before) / confirmed if confirmed else 1.0
    return Booked(max(tries[1:], key=lambda each: each.good_per_second), share)


def parse(out: str, connections: int) -> Load:
    """Parse the line of JSON. If wrk could not connect at all, every connection is an error.

    Raises CannotRun for anything else.
    """
    lines = out.strip().splitlines() or ["nothing"]
    if lines[-1].startswith(_NO_CONNECTION):
        return Load(1.0, 0, 0, 0, connections, 0.0, 0.0, 0.0)
    try:
        facts = json.loads(lines[-1])
    except ValueError as error:
        raise CannotRun(f"wrk gave no result: {lines[-1]}") from error
    return Load(
        seconds=facts["microseconds"] / 1e6,
        requests=facts["requests"],
        non_2xx=facts["status"],
        timeouts=facts["timeout"],
        socket_errors=facts["connect"] + facts["read"] + facts["write"],
        p50=facts["p50"] / 1e6,
        p99=facts["p99"] / 1e6,
        max=facts["max"] / 1e6,
        refused=facts.get("refused", 0),
    )
