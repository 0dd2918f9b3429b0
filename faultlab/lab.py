"""Lab: one folder with the facts (`lab.toml`), the ticket, the fault, the fix and the lesson.

A mistake in a folder is told in one line with file, key and what was expected, and exits with 2.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from faultlab import compose
from faultlab.abilities import ABILITIES
from faultlab.core import paths
from faultlab.core.defaults import MYSTERY
from faultlab.core.errors import BadInput

KERNEL = "kernel"  # `at = "kernel"`: the VM's own kernel
NO_FAULT = "none"  # `truth.cause` of a control


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Limit(_Strict):
    """What `docker update` sets on a running daemon. `cpus`: cores; `memory`: "512m"."""

    cpus: Annotated[float, Field(gt=0, strict=False)] | None = None
    memory: Annotated[str, Field(pattern=r"^[0-9]+[kmg]$")] | None = None

    @model_validator(mode="after")
    def _something(self) -> Limit:
        if self.cpus is None and self.memory is None:
            raise ValueError("expected cpus or memory")
        return self

    @property
    def flags(self) -> str:
        """As `docker update` takes them."""
        cpus = f"--cpus {self.cpus:g}" if self.cpus is not None else ""
        memory = f"--memory {self.memory} --memory-swap {self.memory}" if self.memory else ""
        return " ".join(filter(None, (cpus, memory)))


class Step(_Strict):
    """One thing that an engineer does: a command, a restart or a limit, on a machine or daemon."""

    at: str
    run: str | None = None
    restart: Literal[True] | None = None
    limit: Limit | None = None

    @model_validator(mode="after")
    def _one_action(self) -> Step:
        if sum(x is not None for x in (self.run, self.restart, self.limit)) != 1:
            raise ValueError("expected exactly one of run, restart, limit")
        return self


class FixStep(Step):
    """A step of the fix; in a lab of several faults `stage` says which of them it removes."""

    stage: Annotated[int, Field(gt=0)] | None = None


class Truth(_Strict):
    """What a diagnosis must name."""

    component: str
    resource: str
    cause: str


class Remedy(_Strict):
    """An alternative or a cheat, with the reason why it works or does not."""

    why: str
    steps: Annotated[list[Step], Field(min_length=1)]


class Hint(_Strict):
    """One rung of the ladder; `cost` in points."""

    cost: Annotated[int, Field(ge=0)]
    text: str


class Figure(_Strict):
    """What the document of origin measured, and what is the same here.

    `of`: a Measure or Sign of the check, or a field of its look (`visits.max`); two of them where
    the document sets the slowest against the usual. `phases`: those of a run that stand for the
    document's two; a lab of stages has more of them.
    """

    what: str
    of: str | Annotated[list[str], Field(min_length=2, max_length=2)]
    unit: str = ""
    faulty: float | None = None
    fixed: float | None = None
    phases: Annotated[list[str], Field(min_length=2, max_length=2)] = ["faulty", "fixed"]

    @model_validator(mode="after")
    def _something(self) -> Figure:
        if self.faulty is None and self.fixed is None:
            raise ValueError("expected faulty or fixed")
        return self


class Lab(_Strict):
    """The facts of one lab, as `lab.toml` gives them."""

    id: str
    folder: Path
    title: str
    origin: str
    tier: Literal["web", "app", "data", "control"]
    daemons: Annotated[list[str], Field(min_length=1)]
    scope: Literal["machine", "kernel"]
    requires: list[str] = []
    load: bool = False
    minutes: Annotated[int, Field(gt=0)]
    difficulty: Annotated[int, Field(ge=1, le=5)]
    twins: list[str] = []
    ordered: bool = False
    truth: Truth
    inject: list[Step] = []
    fix: list[FixStep] = []
    alternative: Annotated[list[Remedy], Field(min_length=1)]
    cheat: Annotated[list[Remedy], Field(min_length=1)]
    hint: Annotated[list[Hint], Field(min_length=1)]
    figure: list[Figure] = []

    @model_validator(mode="after")
    def _a_fault_has_inject_and_fix(self) -> Lab:
        if not self.control and not (self.inject and self.fix):
            raise ValueError("expected [[inject]] and [[fix]] (only a control has none)")
        return self

    @model_validator(mode="after")
    def _stages_are_counted(self) -> Lab:
        if self.stages and self.stages != list(range(1, len(self.stages) + 1)):
            raise ValueError("fix: expected stages 1, 2, … in order, in every step or in none")
        if self.ordered and not self.stages:
            raise ValueError("ordered: expected a stage in every step of the fix")
        return self

    @property
    def name(self) -> str:
        """What it is called in this project; its `id` may be another while nobody shall know."""
        return self.folder.name

    def called(self, other: str) -> Lab:
        """The same lab under a name that says nothing: its stack, labels and runs are called so."""
        return self.model_copy(update={"id": other, "title": "an incident"})

    @property
    def stages(self) -> list[int]:
        """The faults of a lab that has several, in the order of its fix; else empty."""
        found = list(dict.fromkeys(step.stage or 0 for step in self.fix))
        return [] if found == [0] else found

    def fix_of(self, stage: int) -> list[FixStep]:
        """What removes one of several faults."""
        return [step for step in self.fix if step.stage == stage]

    def showing(self, gone: Collection[int] = ()) -> list[int]:
        """The stages that show when these are fixed: all others, or if `ordered` the next one."""
        left = [stage for stage in self.stages if stage not in gone]
        return left[:1] if self.ordered else left

    @property
    def orders(self) -> list[list[int]]:
        """Orders to fix it in: each stage is once the first and once the last, unless `ordered`."""
        turns = range(1 if self.ordered else len(self.stages))
        return [self.stages[i:] + self.stages[:i] for i in turns]

    @property
    def control(self) -> bool:
        """Nothing is wrong here: a check and a tool must stay silent."""
        return self.truth.cause == NO_FAULT

    @property
    def ticket(self) -> str:
        """The incident as a user reports it."""
        return _text(self.folder / "ticket.md")

    @property
    def lesson(self) -> str:
        """What to learn from it, with the transcripts of a run."""
        return _text(self.folder / "README.md")

    @property
    def overlay(self) -> Path | None:
        """The lab's own addition to the stack's compose file, if it has one."""
        file = self.folder / "compose.yaml"
        return file if file.exists() else None

    def steps(self) -> list[tuple[str, Step]]:
        """Every step of the lab with the key it stands under."""
        found = [(f"inject[{i}]", s) for i, s in enumerate(self.inject)]
        found += [(f"fix[{i}]", s) for i, s in enumerate(self.fix)]
        for key, remedies in (("alternative", self.alternative), ("cheat", self.cheat)):
            for i, remedy in enumerate(remedies):
                found += [(f"{key}[{i}].steps[{j}]", s) for j, s in enumerate(remedy.steps)]
        return found


def ids() -> list[str]:
    """The labs of this project, by name. A folder that starts with `_` or `.` is none."""
    folder = paths.labs()
    if not folder.is_dir():
        raise BadInput(f"There is no folder {folder}.", "cd to the project, or unset FAULTLAB_ROOT")
    return sorted(p.name for p in folder.iterdir() if p.is_dir() and p.name[0] not in "_.")


def load(lab_id: str) -> Lab:
    """Read and validate one lab. Raises BadInput with the file, the key and what was expected."""
    known(lab_id)
    return load_folder(paths.labs() / lab_id)


def truths(lab: Lab) -> list[Truth]:
    """What a diagnosis may name: of several faults each one, as its own lab has it."""
    return [lab.truth, *(load(twin).truth for twin in lab.twins if lab.stages)]


def known(lab_id: str) -> None:
    """Raises BadInput, with the nearest name, when there is no such lab."""
    if lab_id not in (*ids(), MYSTERY):
        near = difflib.get_close_matches(lab_id, ids(), n=1, cutoff=0.5)
        raise BadInput(
            f"There is no lab called {lab_id!r}" + (f"; did you mean {near[0]}?" if near else "."),
            f"faultlab start {near[0]}" if near else "faultlab list",
        )


def load_folder(folder: Path) -> Lab:
    """Read and validate the lab in a folder, whatever it is called."""
    file = folder / "lab.toml"
    for needed in ("lab.toml", "ticket.md", "README.md"):
        if not (folder / needed).is_file():
            raise BadInput(
                f"{paths.show(folder / needed)}: missing file;"
                " a lab has lab.toml, ticket.md, README.md",
                "see docs/adding-a-lab.md",
            )
    try:
        facts: dict[str, Any] = tomllib.loads(file.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{paths.show(file)}: not valid TOML: {error}", _edit(file)) from error
    for key in ("id", "folder"):
        if key in facts:
            raise BadInput(
                f"{paths.show(file)}: {key}: unknown key (the folder's name is the id)", _edit(file)
            )
    try:
        lab = Lab(id=folder.name, folder=folder, **facts)
    except ValidationError as error:
        raise BadInput(f"{paths.show(file)}: {explain(error)}", _edit(file)) from error
    _check_places(lab, file)
    return lab


def _check_places(lab: Lab, file: Path) -> None:
    """Daemons, abilities and places must be known ones."""
    stack = compose.read(lab.overlay)
    named = [(f"daemons[{i}]", name, [*stack.daemons]) for i, name in enumerate(lab.daemons)]
    named += [(f"requires[{i}]", name, [*ABILITIES]) for i, name in enumerate(lab.requires)]
    _all_known(named, file)
    places = [*stack.needed(lab.daemons), *([KERNEL] if lab.scope == "kernel" else [])]
    steps = [(f"{key}.at", step) for key, step in lab.steps()]
    _all_known(
        [(key, s.at, places if s.run is not None else lab.daemons) for key, s in steps], file
    )


def _all_known(named: list[tuple[str, str, list[str]]], file: Path) -> None:
    for key, name, known in named:
        if name not in known:
            text = f"{key}: expected one of {', '.join(sorted(known))}, got {name!r}"
            raise BadInput(f"{paths.show(file)}: {text}", _edit(file))


def explain(error: ValidationError) -> str:
    """The first mistake as `key: what was expected`."""
    first = error.errors()[0]
    key = re.sub(r"\.(\d+)", r"[\1]", ".".join(str(part) for part in first["loc"]))
    match first["type"]:
        case "extra_forbidden":
            return f"{key}: unknown key"
        case "missing":
            return f"{key}: missing key"
        case "value_error":
            return f"{key + ': ' if key else ''}{first['ctx']['error']!s}"
    expected = first["msg"].replace("Input should be", "expected")
    return f"{key}: {expected}, got {first['input']!r}"


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except UnicodeDecodeError as error:
        raise BadInput(
            f"{paths.show(file)}: not valid UTF-8", f"edit {paths.show(file)}"
        ) from error


def _edit(file: Path) -> str:
    return f"edit {paths.show(file)}; docs/adding-a-lab.md lists the keys"
