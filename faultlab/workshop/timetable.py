"""Timetable: which block of a class is open, and the clock of that block.

All of it follows from the events of the journal. Before the trainer opens the first block, none is
open. The clock does not run while the class is paused or has no server.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from faultlab.workshop.plan import Block


@dataclass
class Clock:
    """Seconds that the class has run, since this clock began: `ran` until `since`."""

    ran: float = 0.0
    since: float | None = None

    def seconds(self, now: float) -> float:
        """Return the seconds on the clock."""
        return self.ran + (max(0.0, now - self.since) if self.since is not None else 0.0)

    def stop(self, now: float) -> None:
        """Stop the clock."""
        self.ran, self.since = self.seconds(now), None

    def go_on(self, now: float) -> None:
        """Let the clock run, or run again."""
        self.since = now if self.since is None else self.since

    def skip(self, seconds: float) -> None:
        """Leave out some seconds, in which there was no server."""
        if self.since is not None:
            self.since += seconds


@dataclass
class Timetable(Clock):
    """The blocks of a class. `at`: the number of the open one, from 1; 0 before the first."""

    blocks: Sequence[Block] = ()
    at: int = 0

    @property
    def now(self) -> Block | None:
        """Return the block that is open."""
        return self.blocks[self.at - 1] if self.at else None

    @property
    def next(self) -> Block | None:
        """Return the block that can be opened."""
        return self.blocks[self.at] if self.at < len(self.blocks) else None

    def has_opened(self, block: int) -> bool:
        """Return whether a block was opened; 0, of a class without blocks, always was."""
        return block <= self.at

    def open(self, block: int, now: float, paused: bool) -> None:
        """Open a block: its clock begins."""
        self.at, self.ran, self.since = block, 0.0, None if paused else now

    def left(self, now: float) -> float | None:
        """Return the seconds that are left of the open block, less than 0 if it is late."""
        return 60 * self.now.minutes - self.seconds(now) if self.now else None

    def go_on(self, now: float) -> None:
        """Let the clock run again."""
        if self.at:
            super().go_on(now)


def clock(minutes: float) -> str:
    """Return minutes since the begin of the day as a timetable has them: `1:15`."""
    whole = round(minutes)
    return f"{whole // 60}:{whole % 60:02}"


def begins(blocks: Sequence[Block]) -> list[float]:
    """Return when each block begins, in minutes since the first one does."""
    return [sum(each.minutes for each in blocks[:number]) for number in range(len(blocks))]
