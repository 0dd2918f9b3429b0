"""Probe: how long a daemon takes from its start to its first page, as users see a deployment.

This look changes the stack: it restarts the daemon, as each deployment does.
"""

from dataclasses import dataclass
from datetime import datetime

from faultlab.core.errors import CannotRun
from faultlab.engine.contract import Machine
from faultlab.engine.shell import Shell


@dataclass(frozen=True)
class Start:
    """Seconds from the start of the container to the first page; `served`: whether one came."""

    seconds: float
    served: bool


def measure(daemon: Machine, visitor: Shell, url: str, most: int) -> Start:
    """Restart the daemon, and request a page until it responds or `most` seconds are over."""
    daemon.restart()
    # Often at first, to measure a quick start well; then seldom, because requests are a load.
    wait = "n=$((n + 1)); [ $n -lt 40 ] && sleep 0.1 || sleep 1"
    ask = f"n=0; until curl -fsS -m 1 -o /dev/null {url}; do {wait}; done"
    done = visitor.run(f"timeout {most} sh -c '{ask}' 2>/dev/null; echo $?; date +%s.%N", most + 10)
    return parse(daemon.state.started, done.out)


def parse(started: str, out: str) -> Start:
    """Parse Docker's time of the start, then the exit code and the clock. Raises CannotRun."""
    try:
        code, clock = out.split()
        # Docker writes nanoseconds; Python reads only six digits.
        since = datetime.fromisoformat(f"{started[:26].rstrip('Z')}+00:00").timestamp()
    except ValueError as error:
        raise CannotRun(f"No times of the start: {started}, {out[:60]!r}") from error
    return Start(seconds=float(clock) - since, served=code == "0")
