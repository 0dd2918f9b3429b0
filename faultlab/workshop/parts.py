"""Parts: the blocks of a class that have labs, with the labs of each seat, for the papers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from faultlab.lab import loader as labs
from faultlab.lab.model import Lab
from faultlab.workshop import size
from faultlab.workshop.folder import Folder
from faultlab.workshop.plan import Block, ClassPlan
from faultlab.workshop.timetable import begins, clock


@dataclass(frozen=True)
class Part:
    """A block of a class, or all of a class without blocks. `labs`: those of each seat in it."""

    number: int
    title: str
    begin: float
    minutes: float
    blind: bool
    drawn: bool
    note: str
    labs: Sequence[Sequence[str]]

    @property
    def each(self) -> list[Lab]:
        """Return its labs, each once, and those that were put together as their parts."""
        ids = dict.fromkeys(lab_id for seat in self.labs for lab_id in seat)
        parts = [part for lab_id in ids for part in labs.loaded(lab_id).of or [lab_id]]
        return [labs.loaded(part) for part in dict.fromkeys(parts)]

    @property
    def file(self) -> str:
        """Return the name of its page."""
        words = "".join(letter if letter.isalnum() else " " for letter in self.title.lower())
        return f"{self.number}-{'-'.join(words.split()[:4])}.md"

    @property
    def heading(self) -> str:
        """Return its number and its title."""
        return f"{self.number}. {self.title}"

    @property
    def time(self) -> str:
        """Return when it begins and ends."""
        return f"{clock(self.begin)} to {clock(self.begin + self.minutes)}"


def of_size(plan: ClassPlan, count: int) -> size.Size:
    """Return the size of the class with so many seats. Raises BadInput."""
    names = plan.seats if count == len(plan.seats) else [f"Seat {i + 1}" for i in range(count)]
    other = plan.model_copy(update={"seats": names})
    chosen = of_seats(plan)[0] if names == plan.seats else likely(other)
    return size.of(other, chosen)


def of_seats(plan: ClassPlan) -> tuple[list[list[str]], bool]:
    """Return the labs of each seat, and whether they are settled, because the class has begun.

    Before that, a lab that turns out not to run here can still give way to another one.
    """
    folder = Folder(plan.id)
    events = folder.journal().events if folder.path.is_dir() else []
    if events and ClassPlan.model_validate(events[0]["plan"]) == plan:
        return events[0]["labs"], True
    return likely(plan), False


def likely(plan: ClassPlan) -> list[list[str]]:
    """Return the labs that the seats get if each runs here that needs no VM. Raises BadInput."""
    run = {lab.id for lab in plan.wanted() if lab.scope == "machine"}
    return plan.turns_of_all(run)


def parts(plan: ClassPlan, chosen: Sequence[Sequence[str]]) -> list[Part]:
    """Return the blocks of a class that have labs; one for all of a class without blocks."""
    if not plan.block:
        whole = sum(labs.loaded(lab_id).minutes for lab_id in chosen[0])
        return [Part(1, plan.title, 0, whole, plan.blind, plan.draw is not None, "", chosen)]
    places = list(enumerate(plan.blocks_of_turns))
    found = []
    for block, its in groupby(places, key=lambda each: each[1]):
        at = [place for place, _ in its]
        facts: Block = plan.block[block - 1]
        found.append(
            Part(
                block,
                facts.title,
                begins(plan.block)[block - 1],
                facts.minutes,
                plan.is_blind(block),
                facts.draw is not None,
                facts.note,
                [[seat[place] for place in at] for seat in chosen],
            )
        )
    return found
