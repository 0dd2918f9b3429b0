"""Plan: the content of `class.toml`: the names of the seats, their labs or blocks, and the times.

A mistake is reported in one line with the file, the key and the expected value.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence, Set
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from faultlab.core import document
from faultlab.core.defaults import CLASS_FILE
from faultlab.core.document import Strict
from faultlab.core.errors import BadInput
from faultlab.core.naming import JUDGE, VERIFY
from faultlab.engine import cpu_slots
from faultlab.lab import decoys, numbers, services
from faultlab.lab import loader as labs
from faultlab.lab.collection import bare
from faultlab.lab.model import Lab
from faultlab.learn import mystery
from faultlab.run import harmless, joining, late
from faultlab.workshop.surprise import Surprise, Timed

MOST_SEATS = 64
_MANUAL = "docs/workshop.md"
_TAKEN = {VERIFY: "verify", JUDGE: "judge-error"}  # the ends of namespaces
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,19}")


Time = Annotated[float, Field(gt=0, allow_inf_nan=False)]


def _cpus() -> str:
    """Return three quarters of a stack's CPUs as a limit; less would change what labs measure."""
    return f"cpus={0.75 * cpu_slots.width():g}"


class Draw(Strict):
    """The number of labs to draw for each seat, as a mystery is drawn, from its own seed.

    `hard`: as weak as users still feel them. `faults`: so many at once in each, of labs that were
    proven together. `decoys`: so many false leads in each.
    """

    count: Annotated[int, Field(gt=0)]
    seed: int = 0
    tier: str | None = None
    level: Annotated[int, Field(ge=1, le=5)] | None = None
    hard: bool = False
    faults: Annotated[int, Field(ge=1, le=mystery.MOST_FAULTS)] = 1
    decoys: Annotated[int, Field(ge=0)] = 0

    @model_validator(mode="after")
    def _one_or_the_other(self) -> Draw:
        if self.hard and self.faults > 1:
            raise ValueError("expected either hard or several faults")
        return self

    def candidates(self) -> list[Lab]:
        """Return the labs to draw from. Raises BadInput without one."""
        return mystery.drawable(self.tier, self.level, faults=self.faults, decoys=self.decoys)

    def made(self, lab: Lab, seat: int) -> Lab:
        """Return a drawn lab as this seat gets it."""
        return mystery.made(lab, self.seed + seat, hard=self.hard, decoys=self.decoys)


class Block(Strict):
    """A part of the day: its labs, for all seats or drawn for each, or a pause without any.

    `minutes`: how long the block is, with its debrief. `blind`, `hints`: instead of the class's
    own. `note`: what the trainer wants to do in it, for the timetable and the trainer's pages.
    """

    title: Annotated[str, Field(min_length=1, max_length=60)]
    minutes: Time
    labs: list[str] = []
    draw: Draw | None = None
    blind: bool | None = None
    hints: Annotated[int, Field(ge=0)] | None = None
    pause: bool = False
    note: str = ""

    @model_validator(mode="after")
    def _labs_or_draw_or_pause(self) -> Block:
        keys = ("labs", "draw", "blind", "hints")
        own = [key for key in keys if getattr(self, key) not in ([], None)]
        if self.pause and own:
            raise ValueError(f"{own[0]}: expected no such key in a block with pause = true")
        if not self.pause and bool(self.labs) == bool(self.draw):
            raise ValueError("expected one of labs, [block.draw] and pause = true")
        if not self.title.strip() or not (self.title + self.note).isprintable():
            raise ValueError("title, note: expected printable text")
        return self

    @property
    def turns(self) -> int:
        """Return how many labs each seat has in it."""
        return self.draw.count if self.draw else len(self.labs)

    def wanted(self) -> list[Lab]:
        """Return every lab that a seat can get in it. Raises BadInput."""
        return self.draw.candidates() if self.draw else [labs.load(lab_id) for lab_id in self.labs]


class ClassPlan(Strict):
    """The facts about one class. It has `labs`, a `draw`, or `block`s.

    `engine`: where its stacks run. `blind`: labs are not named, and a diagnosis is asked for.
    `minutes`: for each lab; without it there is no limit. `hints`: the most for a lab; `hint_cost`:
    points for each, instead of the labs' own. `later`: minutes after which a repair is looked at
    again, which counts; 0 for never. `hours`: how long the links are valid. `limits`: of
    each container; `seat_limits`: of a whole seat; `seat_disk`: of all its containers and volumes.
    `opens`: whether a block opens when the trainer says so, or when the one before it is over.
    `grace`: minutes for what seats still do in the block before. `event`: surprises at a time.
    `room`: labs whose faults can join as a second one by hand. `ranking`, `farewell`: what the
    projector shows at the end.
    """

    id: str
    title: Annotated[str, Field(min_length=1)]
    seats: Annotated[list[str], Field(min_length=1, max_length=MOST_SEATS)]
    labs: list[str] = []
    draw: Draw | None = None
    block: list[Block] = []
    opens: Literal["by hand", "by the clock"] = "by hand"
    grace: Annotated[float, Field(ge=0, le=60)] = 3
    event: list[Timed] = []
    room: list[str] = []
    ranking: bool = False
    farewell: Annotated[str, Field(max_length=200)] = ""
    engine: Literal["local", "kubernetes"] = "local"  # the lab VM has no limits for a seat
    blind: bool = True
    minutes: Time | None = None
    hints: Annotated[int, Field(ge=0)] | None = None
    hint_cost: Annotated[int, Field(ge=0)] | None = None
    later: Annotated[float, Field(ge=0, le=late.MOST)] = late.MINUTES
    hours: Time = 12
    # Factories, because the schema of the file must not differ between machines.
    limits: str = Field(default_factory=lambda: f"{_cpus()} memory=1g pids=512")
    seat_limits: str = Field(default_factory=lambda: f"{_cpus()} memory=4g pids=2048")
    seat_disk: Annotated[str, Field(pattern=r"^[1-9][0-9]*[kmg]$")] = "2g"

    @field_validator("seats")
    @classmethod
    def _named(cls, seats: list[str]) -> list[str]:
        bad = [
            name for name in seats if not name.strip() or len(name) > 40 or not name.isprintable()
        ]
        if bad or len(set(seats)) != len(seats):
            raise ValueError(
                f"expected names, each once, of 1 to 40 characters, got {bad or seats}"
            )
        return seats

    @model_validator(mode="after")
    def _labs_or_draw_or_blocks(self) -> ClassPlan:
        if [bool(self.labs), bool(self.draw), bool(self.block)].count(True) != 1:
            raise ValueError("expected one of labs, [draw] and [[block]]")
        if self.block and not any(block.turns for block in self.block):
            raise ValueError("block: expected one that has labs, got pauses only")
        if sum(block.minutes for block in self.block) > 60 * self.hours:
            raise ValueError("hours: expected as many as all blocks take, or more")
        return self

    @model_validator(mode="after")
    def _events_fit(self) -> ClassPlan:
        for number, one in enumerate(self.event):
            if unknown := [name for name in one.seats if name not in self.seats]:
                raise ValueError(f"event[{number}].seats: expected names of seats, got {unknown}")
            if one.block is None:
                continue
            if one.block > len(self.block):
                raise ValueError(
                    f"event[{number}].block: expected 1 to {len(self.block)}, got {one.block}"
                    if self.block
                    else f"event[{number}].block: this class has no [[block]]"
                )
            if one.seconds >= 60 * self.block[one.block - 1].minutes:
                raise ValueError(f"event[{number}].at: expected a time before its block ends")
        return self

    def room_for(self, lab_id: str) -> str:
        """Return the fault for which the stack of a lab has room; empty without one."""
        wanted = [one.fault for one in self.event if one.fault]
        wanted += map(numbers.real, self.room)
        lab = labs.loaded(lab_id) if wanted else None
        return next((name for name in wanted if lab and not joining.refusal(lab, name)), "")

    def stacked(self, lab_id: str) -> str:
        """Return the lab that a stack has the services of: it can have room for a second fault."""
        return joining.named(lab_id, fault=self.room_for(lab_id))

    @property
    def blocks_of_turns(self) -> list[int]:
        """Return the number of the block of each turn of a seat, from 1; empty without blocks."""
        return [number for number, each in enumerate(self.block, 1) for _ in range(each.turns)]

    @property
    def named(self) -> list[str]:
        """Return the labs that all seats get, and that have to run here."""
        return [*self.labs, *(lab_id for each in self.block for lab_id in each.labs)]

    def is_blind(self, block: int) -> bool:
        """Return whether the labs of a block are not named; `block` from 1, 0 without blocks."""
        its = self.block[block - 1].blind if block else None
        return self.blind if its is None else its

    def most_hints(self, block: int) -> int | None:
        """Return the most hints that a lab of a block gives; None for all that it has."""
        its = self.block[block - 1].hints if block else None
        return self.hints if its is None else its

    def turns_of_all(self, running: set[str]) -> list[list[str]]:
        """Return the labs of each seat, of those that run here. Raises BadInput."""
        pools: dict[str, list[Lab]] = {}
        return [self.turns(seat, running, pools) for seat in range(1, len(self.seats) + 1)]

    def turns(
        self, seat: int, running: set[str], pools: dict[str, list[Lab]] | None = None
    ) -> list[str]:
        """Return the labs of a seat (from 1), in order, of those that run here. Raises BadInput.

        A seat that is not blind has their numbers, which tell as little. A draw of a block leaves
        out what the seat has in an earlier one, except controls. `pools`: the labs to draw from,
        which are the same for all seats, by the key of the draw.
        """
        pools = {} if pools is None else pools
        if self.draw:
            drawn = _drawn(self.draw, "draw", seat, running, pools=pools)
            return [self._called(lab_id, 0) for lab_id in drawn]
        found = list(self.labs)
        for number, block in enumerate(self.block):
            if block.draw:
                where, had = f"block[{number}].draw", {bare(lab_id) for lab_id in found}
                found += _drawn(block.draw, where, seat, running, pools=pools, had=had)
            else:
                found += block.labs
        blocks = self.blocks_of_turns or [0] * len(found)
        return [self._called(*each) for each in zip(found, blocks, strict=True)]

    def _called(self, lab_id: str, block: int) -> str:
        lab = labs.load(lab_id)
        return lab.id if self.is_blind(block) else lab.code

    def wanted(self) -> list[Lab]:
        """Return every lab that a seat can get. Raises BadInput, with the key of a block."""
        if self.draw:
            return self.draw.candidates()
        found = [labs.load(lab_id) for lab_id in self.labs]
        for number, block in enumerate(self.block):
            key = "draw" if block.draw else "labs"
            try:
                found += block.wanted()
            except BadInput as error:
                raise BadInput(f"block[{number}].{key}: {error.message}", error.hint) from error
        return found


def _drawn(
    draw: Draw,
    where: str,
    seat: int,
    running: set[str],
    *,
    pools: dict[str, list[Lab]],
    had: Set[str] = frozenset(),
) -> list[str]:
    """Return the labs that a seat draws. `where`: the key of the draw. Raises BadInput.

    `had`: what it does not draw again.
    """
    if where not in pools:
        pools[where] = draw.candidates()
    every = [lab for lab in pools[where] if lab.id in running]
    here = [lab for lab in every if lab.control or not had & {*map(bare, lab.of or [lab.id])}]
    drawn = [*mystery.order(here, draw.seed + seat - 1)]
    if len(drawn) < draw.count:
        raise BadInput(
            f"{where}.count: expected at most {len(drawn)}: only so many such labs run here.",
            f"edit {CLASS_FILE}",
        )
    return [draw.made(lab, seat).id for lab in drawn[: draw.count]]


def read(name: str) -> ClassPlan:
    """Read and validate a class file. Raises BadInput with the file, the key and the mistake."""
    file = Path(name)
    if not file.exists():
        raise BadInput(f"There is no {name}.", f"see {_MANUAL} for an example")
    found = document.strict(ClassPlan, file, name, _MANUAL, id=file.stem)
    if not _NAME.fullmatch(file.stem):
        raise BadInput(
            f"The file's name becomes one of containers: a-z, 0-9 and -, got {file.stem!r}.",
            f"mv {name} class.toml",
        )
    if verb := _TAKEN.get(file.stem):
        raise BadInput(
            f"Stacks of `faultlab {verb}` are called {file.stem}: give the class another name.",
            f"mv {name} class.toml",
        )
    try:
        most, whole = services.limits(found.limits), services.limits(found.seat_limits)
        if most.get("cpus", 0) > whole.get("cpus", math.inf):
            raise BadInput("limits: a container can use more CPUs than its seat.", "")
        every = found.wanted()
        for key, one in _surprises(found):
            if why := _never(every, one):
                raise BadInput(f"{key}: {why}", "faultlab list --together")
    except BadInput as error:
        raise BadInput(f"{name}: {error.message}", f"edit {name}; see {_MANUAL}") from error
    return found


def _surprises(plan: ClassPlan) -> Iterator[tuple[str, Surprise]]:
    """Yield each surprise that can come, with its key."""
    yield from ((f"event[{number}]", one) for number, one in enumerate(plan.event))
    yield from ((f"room[{number}]", Surprise(fault=lab)) for number, lab in enumerate(plan.room))


def _never(every: Sequence[Lab], one: Surprise) -> str:
    """Return why a surprise can come at no lab of a class; empty if it can. Raises BadInput."""
    if one.fault:
        labs.load(one.fault)
        whys = [joining.refusal(lab, one.fault) for lab in every]
    elif one.decoy:
        its = every[0].collection
        its_decoy = labs.decoy(its, one.decoy)
        if one.decoy not in [each.id for each in harmless.proven(its)]:
            return f"{one.decoy} was not proven to be harmless."
        whys = [decoys.clash(its_decoy, lab) for lab in every]
    else:
        return ""
    return f"{one.fault or one.decoy} cannot come at any lab: {whys[0]}." if all(whys) else ""
