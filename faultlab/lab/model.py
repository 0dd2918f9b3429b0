"""The facts of a lab as `lab.toml` gives them, its ticket and its lesson."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from faultlab.core import paths
from faultlab.core.defaults import MYSTERY
from faultlab.core.document import Strict
from faultlab.core.errors import BadInput
from faultlab.lab import services as compose_files

KERNEL = "kernel"  # `at = "kernel"`: the VM's own kernel
NO_FAULT = "none"  # `truth.cause` of a control


def bytes_of(memory: str) -> int:
    """Return the bytes of an amount such as "512m"; k, m and g are powers of 1024."""
    return int(memory[:-1]) << {"k": 10, "m": 20, "g": 30}[memory[-1]]


class Limit(Strict):
    """The limits that `docker update` sets on a running daemon.

    `cpus`: cores; `memory`: "512m"; `pids`: processes and threads, -1 for no limit.
    """

    cpus: Annotated[float, Field(gt=0, le=1024, strict=False)] | None = None
    memory: Annotated[str, Field(pattern=r"^[0-9]+[kmg]$")] | None = None
    pids: Annotated[int, Field(ge=-1)] | None = None

    @model_validator(mode="after")
    def _something(self) -> Limit:
        if self.cpus is None and self.memory is None and self.pids is None:
            raise ValueError("expected cpus, memory or pids")
        if self.pids == 0:
            raise ValueError("pids: expected a number from 1 up, or -1 for no limit")
        return self

    def beyond(self, most: Mapping[str, Any]) -> str:
        """Return which of them is more than a stack can have, or an empty text.

        `most`: its limits as services.limits has them.
        """
        if (self.cpus or 0) > most.get("cpus", math.inf):
            return f"At most {most['cpus']:g} CPUs are allowed here."
        memory = most.get("mem_limit")
        if self.memory and memory and bytes_of(self.memory) > bytes_of(memory):
            return f"At most {memory} of memory are allowed here."
        tasks = most.get("pids_limit", math.inf)
        if self.pids is not None and not 0 < self.pids <= tasks:
            some = f"at most {tasks}" if tasks < math.inf else "a number"
            return f"A container without a limit of processes can take the host: give it {some}."
        return ""

    @property
    def flags(self) -> str:
        """The limits as options of `docker update`."""
        cpus = f"--cpus {self.cpus:g}" if self.cpus is not None else ""
        memory = f"--memory {self.memory} --memory-swap {self.memory}" if self.memory else ""
        pids = f"--pids-limit {self.pids}" if self.pids is not None else ""
        return " ".join(filter(None, (cpus, memory, pids)))


class Step(Strict):
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


class Truth(Strict):
    """The facts that a diagnosis must name."""

    component: str
    resource: str
    cause: str


class Remedy(Strict):
    """An alternative or a cheat, with the reason why it works or does not."""

    why: str
    steps: Annotated[list[Step], Field(min_length=1)]


class Sign(Strict):
    """A command that only reads, and succeeds on a machine or daemon while something is so."""

    at: str
    run: str


class Hint(Strict):
    """One hint; `cost` in points. It applies while its `stage` is faulty and `when` succeeds.

    `half`: half a repair, after which `when` succeeds; a test tries it.
    """

    cost: Annotated[int, Field(ge=0)]
    text: str
    stage: Annotated[int, Field(gt=0)] | None = None
    when: Sign | None = None
    half: list[Step] = []

    @model_validator(mode="after")
    def _half_shows_when(self) -> Hint:
        if (self.when is None) != (not self.half):
            raise ValueError("expected when and half together")
        return self


class Figure(Strict):
    """A figure of the source, and the name of what measures the same here.

    `of`: a Measure or Evidence of the check, or a field of its look (`visits.max`). There are two
    where the source compares the slowest with the usual. `phases`: the two phases of a run that
    match those of the source; a lab with stages has more than two.
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


class Lab(Strict):
    """The facts of one lab, as `lab.toml` gives them.

    `track`: the part of the path that it is on; `needs`: the labs that teach what it builds on.
    `alias`: what its stack, labels and runs are called; not its `id` while that is secret.
    """

    id: str
    alias: Annotated[str, Field(exclude=True)]
    folder: Annotated[Path, Field(exclude=True)]
    title: str
    origin: str
    tier: Literal["web", "app", "data", "control"]
    track: Literal["packets", "queues", "memory", "queries", "bytes"]
    needs: list[str] = []
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

    @model_validator(mode="after")
    def _each_stage_has_a_hint(self) -> Lab:
        general = [rung.stage for rung in self.hint if rung.when is None]
        if unknown := [rung.stage for rung in self.hint if rung.stage not in (None, *self.stages)]:
            raise ValueError(f"hint: stage {unknown[0]} is in no step of the fix")
        if None not in general and not (self.stages and {*general} == {*self.stages}):
            raise ValueError("hint: expected one without when, or one for each stage")
        return self

    def called(self, other: str) -> Lab:
        """Return the same lab under a neutral name, for its stack, labels and runs."""
        return self.model_copy(update={"alias": other, "title": "an incident"})

    @property
    def to_start(self) -> str:
        """Return what a learner types to start it afresh."""
        return f"make {MYSTERY}" if self.alias == MYSTERY else f"make lab-{self.alias}"

    @property
    def to_examine(self) -> str:
        """Return what a learner types if it does not start as it should."""
        return "faultlab doctor" if self.alias != self.id else f"faultlab doctor {self.id}"

    @property
    def stages(self) -> list[int]:
        """The faults of a lab that has several, in the order of its fix; else empty."""
        found = list(dict.fromkeys(step.stage or 0 for step in self.fix))
        return [] if found == [0] else found

    def fix_of(self, stage: int) -> list[FixStep]:
        """Return the steps that remove one of several faults."""
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
        """True when nothing is wrong here: a check and a tool must stay silent."""
        return self.truth.cause == NO_FAULT

    @property
    def ticket(self) -> str:
        """The incident as a user reports it."""
        return _text(self.folder / "ticket.md")

    @property
    def lesson(self) -> str:
        """The lesson to learn from the lab, with the transcripts of a run."""
        return _text(self.folder / "README.md")

    @property
    def overlay(self) -> Path | None:
        """The lab's own addition to the stack's compose file, if it has one."""
        file = self.folder / "compose.yaml"
        return file if file.exists() else None

    @cached_property
    def services(self) -> compose_files.Plan:
        """The machines and daemons of its stack. Raises BadInput."""
        return compose_files.read(self.overlay)

    def steps(self) -> list[tuple[str, Step]]:
        """Return every step of the lab with its key in lab.toml."""
        found = [(f"inject[{i}]", s) for i, s in enumerate(self.inject)]
        found += [(f"fix[{i}]", s) for i, s in enumerate(self.fix)]
        for key, remedies in (("alternative", self.alternative), ("cheat", self.cheat)):
            for i, remedy in enumerate(remedies):
                found += [(f"{key}[{i}].steps[{j}]", s) for j, s in enumerate(remedy.steps)]
        for i, rung in enumerate(self.hint):
            found += [(f"hint[{i}].half[{j}]", s) for j, s in enumerate(rung.half)]
        return found


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except UnicodeDecodeError as error:
        raise BadInput(
            f"{paths.show(file)}: not valid UTF-8", f"edit {paths.show(file)}"
        ) from error
