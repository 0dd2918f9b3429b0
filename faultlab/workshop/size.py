"""Size: what a class needs of its machine, and how long its checks and starts wait for each other.

The memory of a lab was measured (the top of its page). The seconds of a look are those of recorded
walks: the median of a walk's seconds by its looks. They contain the starts of the walk's stacks, so
a check is rather quicker. All else is computed from these.
"""

from __future__ import annotations

import math
import os
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from faultlab.core import paths
from faultlab.core.text import number
from faultlab.engine import cpu_slots
from faultlab.lab import loader as labs
from faultlab.lab.collection import bare
from faultlab.lab.model import Lab
from faultlab.verify import walks
from faultlab.workshop.plan import ClassPlan

AT_ONCE = 2  # starts and checks of a class; more of them only delay each other
SPARE = 2048  # MB for the system, Docker and the server of the class
LATE = 120.0  # seconds after which the last check of a block is worth a warning
_WALKS = "docs/reliability.json"
_USUAL = 512  # MB, of a lab whose page does not tell
_TO_START = 2  # looks: before the fault, and with it
_SIZE = re.compile(r"\| (?:a VM of )?(\d+) MB\b|\| as ([a-z0-9-]+) \|")


@cache
def memory(lab_id: str) -> int:
    """Return the MB of memory that a lab takes, as the top of its page says."""
    lab = labs.loaded(lab_id)
    if lab.of:
        return sum(memory(each) for each in lab.of)
    found = _SIZE.search(lab.lesson.partition("## Symptom")[0])
    if found is None:
        return _USUAL
    return int(found[1]) if found[1] else memory(found[2])


def machine() -> int:
    """Return the MB of memory of this machine."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20


def parts(plan: ClassPlan) -> int:
    """Return how many loads a class can have at a time: one for each slot of this machine."""
    return len(cpu_slots.of_machine()) if plan.engine == "local" else 1


@cache
def _looks() -> dict[str, list[float]]:
    """Return the seconds of a look in each recorded walk that passed, by lab."""
    file = paths.root() / _WALKS
    found: dict[str, list[float]] = {}
    if file.exists():  # an installed package has no documents
        for walk in walks.read(file).walks.values():
            if walk.looks and walk.verdict == "pass":
                found.setdefault(walk.lab, []).append(walk.seconds / walk.looks)
    return found


def seconds(lab: Lab) -> float | None:
    """Return the seconds of a check of a lab, from recorded walks; None if none is recorded."""
    parts = [_looks().get(bare(each)) for each in lab.of or [lab.id]]
    return sum(statistics.median(each) for each in parts if each) if all(parts) else None


@dataclass(frozen=True)
class Queue:
    """Seats that check a lab that makes load at the same time, one after the other.

    `block`: from 1, 0 without blocks. `lab`: empty if each seat has its own. `last`: seconds until
    the last of these checks is done, None if no walk of such a lab is recorded. `at_once`: how many
    are made at a time.
    """

    block: int
    lab: str
    seats: int
    last: float | None
    at_once: int = 1

    @property
    def text(self) -> str:
        """Return the queue in a sentence for the trainer."""
        what = f"check {self.lab}, which sends load" if self.lab else "check labs that send load"
        how = "no recorded walk says how long"
        if self.last is not None:
            each = number(round(self.last / math.ceil(self.seats / self.at_once)), "s")
            how = f"{self.seats} checks of {each}, so {in_minutes(self.last)} for the last"
        few = "one" if self.at_once == 1 else str(self.at_once)
        return f"{self.seats} seats {what}, {few} at a time: {how}."

    def says(self, plan: ClassPlan) -> str:
        """Return the same with the block."""
        where = f'block {self.block} ("{plan.block[self.block - 1].title}"): ' if self.block else ""
        return where + self.text


def queues(plan: ClassPlan, chosen: Sequence[Sequence[str]]) -> list[Queue]:
    """Return where a class waits for checks of load. `chosen`: the labs of each seat."""
    found = []
    blocks = plan.blocks_of_turns or [0] * min(map(len, chosen))
    for place, block in enumerate(blocks):
        its = [labs.loaded(plan.stacked(seat[place])) for seat in chosen]
        loads = [lab for lab in its if lab.load]
        known = [each for lab in loads if (each := seconds(lab)) is not None]
        turns = math.ceil(len(loads) / parts(plan))
        last = statistics.mean(known) * turns if known else None
        name = loads[0].id if len({lab.id for lab in its}) == 1 and loads else ""
        if len(loads) > 1 and (last is None or last >= LATE):
            found.append(Queue(block, name, len(loads), last, parts(plan)))
    return found


@dataclass(frozen=True)
class Size:
    """The needs of a class of so many seats. `memory`: MB, one stack for each seat and the spare.

    `prepared`: MB with a second stack for each seat, which is prepared for the next block.
    `ready`: seconds until each seat has its first lab. `queues`: sentences about checks of load,
    of which the longest lasts `last` seconds; 0 if none is worth a warning.
    """

    seats: int
    memory: int
    prepared: int
    ready: float
    last: float
    queues: list[str]


def of(plan: ClassPlan, chosen: Sequence[Sequence[str]]) -> Size:
    """Return the size of a class. `chosen`: the labs of each seat."""
    stacks = [[*map(plan.stacked, each)] for each in chosen]
    largest = [max(map(memory, each)) for each in stacks]
    pairs = [[memory(a) + memory(b) for a, b in pairwise(each)] for each in stacks]
    both = [max(two, default=one) for two, one in zip(pairs, largest, strict=True)]
    first = [labs.loaded(each[0]) for each in stacks]
    many = parts(plan)
    starts = [(lab.load, _TO_START * (seconds(lab) or 0)) for lab in first]
    ready = sum(each if load else each / AT_ONCE for load, each in starts) / many
    found = queues(plan, chosen)
    said, last = [each.says(plan) for each in found], max((q.last or 0 for q in found), default=0)
    whole, two = sum(largest) + SPARE, (sum(both) if plan.block else sum(largest)) + SPARE
    return Size(len(chosen), whole, two, ready, last, said)


def in_minutes(count: float) -> str:
    """Return seconds as people say them."""
    return number(round(count), "s") if count < 90 else number(round(count / 6) / 10, "minutes")
