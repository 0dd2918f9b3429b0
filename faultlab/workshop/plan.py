"""Plan: the content of `class.toml`: the names of the seats, their labs and the time limits.

A mistake is reported in one line with the file, the key and the expected value.
"""

from __future__ import annotations

import math
import os
import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from faultlab.core import document
from faultlab.core.defaults import CLASS_FILE
from faultlab.core.document import Strict
from faultlab.core.errors import BadInput
from faultlab.core.naming import JUDGE, VERIFY
from faultlab.lab import loader as labs
from faultlab.lab import services
from faultlab.lab.model import Lab
from faultlab.learn import mystery
from faultlab.run import late

MOST_SEATS = 64
_MANUAL = "docs/workshop.md"
_TAKEN = {VERIFY: "verify", JUDGE: "judge-error"}  # the ends of namespaces
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,19}")


Time = Annotated[float, Field(gt=0, allow_inf_nan=False)]


def _cpus() -> str:
    """Return three quarters of the CPUs as a limit; less would change what some labs measure."""
    return f"cpus={0.75 * (os.cpu_count() or 1):g}"


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


class ClassPlan(Strict):
    """The facts about one class.

    `engine`: where its stacks run. `blind`: labs are not named, and a diagnosis is asked for.
    `minutes`: for each lab; without it there is no limit. `hints`: the most for a lab; `hint_cost`:
    points for each, instead of the labs' own. `later`: minutes after which a repair is looked at
    again, which counts; 0 for never. `hours`: how long the links are valid. `limits`: of
    each container; `seat_limits`: of a whole seat; `seat_disk`: of all its containers and volumes.
    """

    id: str
    title: Annotated[str, Field(min_length=1)]
    seats: Annotated[list[str], Field(min_length=1, max_length=MOST_SEATS)]
    labs: list[str] = []
    draw: Draw | None = None
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
    def _labs_or_draw(self) -> ClassPlan:
        if bool(self.labs) == bool(self.draw):
            raise ValueError("expected either labs or [draw]")
        return self

    def turns(self, seat: int, running: set[str]) -> list[str]:
        """Return the labs of a seat (from 1), in order, of those that run here. Raises BadInput.

        A seat that is not blind has their numbers, which tell as little.
        """
        if self.draw is None:
            return [self._called(labs.load(lab_id)) for lab_id in self.labs]
        here = [lab for lab in self.draw.candidates() if lab.id in running]
        drawn = [*mystery.order(here, self.draw.seed + seat - 1)]
        if len(drawn) < self.draw.count:
            raise BadInput(
                f"draw.count: expected at most {len(drawn)}: only so many such labs run here.",
                f"edit {CLASS_FILE}",
            )
        return [self._called(self.draw.made(lab, seat)) for lab in drawn[: self.draw.count]]

    def _called(self, lab: Lab) -> str:
        return lab.id if self.blind else lab.code

    def wanted(self) -> list[Lab]:
        """Return every lab that a seat can get."""
        if self.draw is None:
            return [labs.load(lab_id) for lab_id in self.labs]
        return self.draw.candidates()


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
        found.wanted()
    except BadInput as error:
        raise BadInput(f"{name}: {error.message}", f"edit {name}; see {_MANUAL}") from error
    return found
