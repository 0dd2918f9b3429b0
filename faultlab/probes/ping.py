"""Probe: echo requests, by ping. Source: ping(8). Lost ones are lost below TCP."""

import re
from dataclasses import dataclass

from faultlab.core.errors import CannotRun
from faultlab.engine.shell import Shell

_SUMMARY = re.compile(r"(\d+) packets transmitted, (\d+) received")
_MEAN = re.compile(r"^rtt \S+ = [\d.]+/([\d.]+)/", re.MULTILINE)


@dataclass(frozen=True)
class Echoes:
    """Echo requests sent and answered."""

    sent: int
    answered: int

    @property
    def loss(self) -> float:
        """Return the share without an answer, 0 to 1."""
        return (self.sent - self.answered) / self.sent


def echoes(machine: Shell, host: str, *, count: int, gap: float) -> Echoes:
    """Send `count` requests of 16 bytes, `gap` seconds apart."""
    command = f"ping -n -q -c {count} -i {gap:g} -W 1 -s 16 {host} 2>&1"
    return parse(machine.run(command, timeout=count * gap * 3 + 30).out)


def round_trip(machine: Shell, host: str, *, count: int, gap: float, wait: int) -> float:
    """Return the mean time of a response, in milliseconds; a lost one counts as `wait` seconds."""
    command = f"ping -n -q -c {count} -i {gap:g} -W {wait} {host} 2>&1"
    return parse_round_trip(machine.run(command, timeout=count * gap + wait + 30).out, wait)


def parse_round_trip(out: str, wait: int) -> float:
    """Parse ping's summary and its line of times. Raises CannotRun if it sent nothing."""
    found, mean = parse(out), _MEAN.search(out)
    lost = found.sent - found.answered
    return (float(mean[1]) * found.answered if mean else 0.0) / found.sent + (
        1000 * wait * lost / found.sent
    )


def parse(out: str) -> Echoes:
    """Parse ping's summary. Raises CannotRun if it sent nothing."""
    found = _SUMMARY.search(out)
    if not found or int(found[1]) == 0:
        last = (out.strip().splitlines() or ["nothing"])[-1]
        raise CannotRun(f"ping sent nothing: {last}")
    return Echoes(int(found[1]), int(found[2]))
