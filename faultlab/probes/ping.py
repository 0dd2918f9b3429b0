"""Probe: echo requests, by ping. Source: ping(8). Lost ones are lost below TCP."""

import re
from dataclasses import dataclass

from faultlab.core.errors import CannotRun
from faultlab.engine.shell import Shell

_SUMMARY = re.compile(r"(\d+) packets transmitted, (\d+) received")


@dataclass(frozen=True)
class Echoes:
    """Echo requests sent and answered."""

    sent: int
    answered: int

    @property
    def loss(self) -> float:
        """Return the share without an answer, 0 to 1."""
        return (self.sent - self.answered) / self.sent


def echoes(
    machine: Shell, host: str, *, count: int, gap: float = 0.01, payload: int = 16
) -> Echoes:
    """Send `count` requests of `payload` bytes, `gap` seconds apart."""
    command = f"ping -n -q -c {count} -i {gap:g} -W 1 -s {payload} {host} 2>&1"
    return parse(machine.run(command, timeout=count * gap * 3 + 30).out)


def parse(out: str) -> Echoes:
    """Parse ping's summary. Raises CannotRun if it sent nothing."""
    found = _SUMMARY.search(out)
    if not found or int(found[1]) == 0:
        last = (out.strip().splitlines() or ["nothing"])[-1]
        raise CannotRun(f"ping sent nothing: {last}")
    return Echoes(int(found[1]), int(found[2]))
