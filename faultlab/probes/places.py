"""Probe: guests who ask for a place, and whether it is the one of the reservation book, by curl.

The labs that have this page write it in their compose.yaml.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from zlib import crc32

from faultlab.engine.shell import Shell

PAGE = "http://web/place.php"  # takes 200 ms, so that a rush is there all at once


@dataclass(frozen=True)
class Rush:
    """How many of the guests who came at once got their place, and of ten who came one by one."""

    crowd: int
    alone: int
    guests: int = 200

    @property
    def shown(self) -> float:
        """Return the share of the guests who came at once that got their place, 0 to 1."""
        return self.crowd / self.guests


def rush(user: Shell, dice: Random, guests: int) -> Rush:
    """Let ten guests come one by one, then `guests` at once; none of these waits over 5 seconds."""
    names = [f"{dice.getrandbits(40):x}" for _ in range(10 + guests)]
    alone = user.run(f"timeout 20 curl -s -m 5 {_urls(names[:10])}", timeout=40).out
    together = f"curl -s -m 5 -Z --parallel-immediate --parallel-max {guests}"
    crowd = user.run(f"{together} {_urls(names[10:])}", timeout=25).out
    return Rush(right(crowd, names[10:]), right(alone, names[:10]), guests)


def right(out: str, names: Sequence[str]) -> int:
    """Count the guests who were told their place in the reservation book."""
    return len({_line(name) for name in names} & set(out.splitlines()))


def _line(name: str) -> str:
    return f"Guest {name} has place {crc32(f'a place for {name}'.encode()):08x}."


def _urls(names: Sequence[str]) -> str:
    return f"'{PAGE}?{{{','.join(names)}}}'"
