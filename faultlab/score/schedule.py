"""Schedule: the trials that are missing, and which of them to make next.

Without a budget they are made in the order of the looks. With one, the look is next whose trials
belong to the widest intervals, and in a look the tool with the widest one.
"""

import math
import random
import time
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

from faultlab.core.errors import BadInput
from faultlab.core.statistics import Share
from faultlab.run import digest
from faultlab.run.phase import FAULTY, HEALTHY
from faultlab.score.results import ALONE, Key, Results, Way
from faultlab.score.setups import FLOORS, Setup
from faultlab.score.tool import Tool

STACK_SECONDS = 60.0  # for a stack and the proof of its phase
TRIAL_SECONDS = 15.0  # of a trial beyond the tool's window: its container, and the check

Group = tuple[str, str, bool]  # a tool, its floor or nothing, and if something is wrong


def deadline(hours: float | None) -> float:
    """Return when so many hours are over, by time.monotonic; never for None. Raises BadInput."""
    if hours is None:
        return math.inf
    if not 0 < hours < math.inf:
        raise BadInput("--hours takes a number above 0, such as 0.5.", "faultlab score --help")
    return time.monotonic() + hours * 3600


@dataclass(frozen=True)
class Schedule:
    """The looks that are wanted, the tools that are examined, and the trials that were made."""

    looks: list[Setup]
    tools: list[Tool]
    kept: Results
    way: Way = ALONE
    seed: int = 0
    until: float = math.inf

    def allows(self, seconds: float) -> bool:
        """Return whether so many seconds are left."""
        return time.monotonic() + seconds < self.until

    def missing(self, look: Setup) -> list[Tool]:
        """Return the tools whose trial in a look is missing, in a random order of their own."""
        lacking = [tool for tool in self.tools if not self._has(tool, look)]
        random.Random(f"{self.seed} {look.text}").shuffle(lacking)
        if self.until < math.inf:
            wide = self._widths()
            lacking.sort(key=lambda tool: -wide.get(_group(tool.id, look), 1.0))
        return lacking

    def next(self, tried: Collection[int]) -> int | None:
        """Return the index of the look to make now; None if none is left, or no time."""
        left = [i for i, look in enumerate(self.looks) if i not in tried and self.missing(look)]
        if not left or not self.allows(STACK_SECONDS):
            return None
        if self.until == math.inf:
            return left[0]
        wide = self._widths()
        return max(left, key=lambda i: (self._gain(self.looks[i], wide), -i))

    def forget_the_silent(self) -> None:
        """Drop its trials without a diagnosis, so that they are missing: Docker can have failed."""
        wanted = {self._key(tool, look) for tool in self.tools for look in self.looks}
        self.kept.trials = self.kept.only(
            lambda trial: trial.kind != "unknown" or trial.key not in wanted
        ).trials

    def left(self) -> int:
        """Return how many trials are missing."""
        return sum(len(self.missing(look)) for look in self.looks)

    def complete(self) -> int:
        """Return how many looks have all their trials."""
        return sum(not self.missing(look) for look in self.looks)

    def _key(self, tool: Tool, look: Setup) -> Key:
        return tool.id, look.lab.id, look.phase, look.number, self.way

    def _has(self, tool: Tool, look: Setup) -> bool:
        return self.kept.has(
            self._key(tool, look), (self._digests[tool.id], self._digests[f"lab {look.lab.id}"])
        )

    @cached_property
    def _digests(self) -> dict[str, str]:
        """Return the digest of each tool and each lab, which take milliseconds to make."""
        chosen = {f"lab {look.lab.id}": look.lab for look in self.looks}
        made = {tool.id: tool.digest for tool in self.tools}
        return made | {name: digest.fault(lab) for name, lab in chosen.items()}

    def _gain(self, look: Setup, wide: dict[Group, float]) -> tuple[float, bool]:
        """Return the widths that its trials narrow, and whether a faulty look waits for it."""
        widths = sum(wide.get(_group(tool.id, look), 1.0) for tool in self.missing(look))
        waits = look.phase == HEALTHY and any(
            key[1] == look.lab.id and key[2] == FAULTY and key[3] == look.number
            for key in self.kept.trials
        )
        return round(widths, 6), waits

    def _widths(self) -> dict[Group, float]:
        """Return the width of the interval of each tool's alarms, on faults and without."""
        controls = {look.lab.id for look in self.looks if look.lab.control}
        counts: dict[Group, list[bool]] = {}
        for trial in self.kept.trials.values():
            if trial.way == self.way and trial.kind == "diagnosis":
                ill = trial.phase == FAULTY and trial.lab not in controls
                floor = trial.phase if trial.phase in FLOORS else ""
                counts.setdefault((trial.tool, floor, ill), []).append(trial.alarm)
        return {group: _width(alarms) for group, alarms in counts.items()}


def _group(tool: str, look: Setup) -> Group:
    floor = look.phase if look.phase in FLOORS else ""
    return tool, floor, look.phase == FAULTY and not look.lab.control


def _width(alarms: list[bool]) -> float:
    """Return the width of the interval of a share, from 0 to 1."""
    low, high = Share(len(alarms), sum(alarms)).interval
    return (high - low) / 100
