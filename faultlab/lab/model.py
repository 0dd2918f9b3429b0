"""The facts of a lab as `lab.toml` gives them, its ticket and its lesson."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, WithJsonSchema, model_validator

from faultlab.core import paths
from faultlab.core.defaults import EXAM, MYSTERY
from faultlab.core.document import Strict
from faultlab.core.errors import BadInput
from faultlab.lab import release
from faultlab.lab import services as compose_files
from faultlab.lab import severity as severities
from faultlab.lab.collection import WORD, Collection, bare
from faultlab.lab.severity import Severity

# A number, or that of a dose.
_CPUS = WithJsonSchema(
    {
        "anyOf": [
            {"type": "number", "exclusiveMinimum": 0, "maximum": 1024},
            {"type": "string", "pattern": r"^@\{[^{}]+\}$"},
        ]
    }
)
_DOSED = ("inject", "fix", "fault", "alternative", "cheat", "hint")  # can have `@{numbers}`
KERNEL = "kernel"  # `at = "kernel"`: the VM's own kernel
NO_FAULT = "none"  # `truth.cause` of a control


def bytes_of(memory: str) -> int:
    """Return the bytes of an amount such as "512m"; k, m and g are powers of 1024."""
    return int(memory[:-1]) << {"k": 10, "m": 20, "g": 30}[memory[-1]]


class Limit(Strict):
    """The limits that `docker update` sets on a running daemon.

    `cpus`: cores; `memory`: "512m"; `pids`: processes and threads, -1 for no limit.
    """

    cpus: Annotated[float, Field(gt=0, le=1024, strict=False), _CPUS] | None = None
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


class Truth(Strict):
    """The facts that a diagnosis must name."""

    component: str
    resource: str
    cause: str


class Decoy(Strict):
    """A thing that looks like a fault and harms no user, as `decoys/ID.toml` gives it.

    `kind`: a trace of what is over, a setting that only looks alarming, messages that are alerts
    and nothing else, or a fault that users do not feel. `why` it harms no user. `suggests`: the lab
    whose truth is the wrong answer. `daemons`: those that a lab must have. `not_with`: labs that it
    would change. `alerts`: what the ticket says besides.
    """

    id: str
    title: str
    kind: Literal["over", "alarming", "alerts", "silent"]
    why: str
    suggests: str
    daemons: Annotated[list[str], Field(min_length=1)]
    not_with: list[str] = []
    steps: list[Step] = []
    alerts: str = ""

    @model_validator(mode="after")
    def _something(self) -> Decoy:
        if not self.steps and not self.alerts:
            raise ValueError("expected steps or alerts")
        return self


class Fault(Strict):
    """One documented cause: how the stack breaks, and how it is mended.

    `id`: the name of its lab; in a lab with faults of its own, any short name.
    """

    id: Annotated[str, Field(pattern=WORD)]
    truth: Truth
    inject: Annotated[list[Step], Field(min_length=1)]
    fix: Annotated[list[Step], Field(min_length=1)]


@dataclass(frozen=True)
class Blind:
    """How a lab is shown to somebody who must not know which one it is.

    `examined`: a program is examined in it, so that the names of containers, volumes and networks
    do not name this product either. Learners type these names.
    """

    name: str
    title: str = "an incident"
    examined: bool = False


class Remedy(Strict):
    """An alternative or a cheat, with the reason why it works or does not."""

    why: str
    steps: Annotated[list[Step], Field(min_length=1)]


class Sign(Strict):
    """A command that only reads, and succeeds on a machine or daemon while something is so."""

    at: str
    run: str


class Hint(Strict):
    """One hint; `cost` in points. It applies while its `fault` is there and `when` succeeds.

    `half`: half a repair, after which `when` succeeds; a test tries it.
    """

    cost: Annotated[int, Field(ge=0)]
    text: str
    fault: str = ""
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
    match those of the source; a lab of several faults has more than two.
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

    `number`: what a learner calls it by, because its id names the cause; each of a collection has
    another one. `tier`, `track`: of its collection; `needs`: labs that teach what it builds on.
    `of`: the labs whose faults it has at once; `fault`: these faults, or several of its own. Then
    `inject` and `fix` are those of its faults. `blind`: how it is shown while it is secret.
    `severity`: the rows of its fault, `dose`: the one that its steps have now. `touches`: what its
    steps change, so that no other fault may change it at the same time. `folders`: of the labs that
    it was put together from, if it has no folder of its own. `decoys`: what is there besides and
    harms no user. `neutral`: its id, with numbers in place of what they stand for, if it has one.
    `by_number`: it was asked for by its number, so its stack has this name.
    """

    id: str
    number: Annotated[int, Field(ge=1)] | None = None
    neutral: Annotated[str, Field(exclude=True)] = ""
    by_number: Annotated[bool, Field(exclude=True)] = False
    blind: Annotated[Blind | None, Field(exclude=True)] = None
    folder: Annotated[Path, Field(exclude=True)]
    folders: Annotated[list[Path], Field(exclude=True)] = []
    collection: Annotated[Collection, Field(exclude=True)]
    title: str
    origin: str
    tier: str
    track: str
    needs: list[str] = []
    daemons: Annotated[list[str], Field(min_length=1)]
    scope: Literal["machine", "kernel"]
    requires: list[str] = []
    load: bool = False
    minutes: Annotated[int, Field(gt=0)]
    difficulty: Annotated[int, Field(ge=1, le=5)]
    twins: list[str] = []
    truth: Truth
    of: list[str] = []
    touches: list[str] = []
    decoys: Annotated[list[Decoy], Field(exclude=True)] = []
    severity: list[Severity] = []
    dose: Severity | None = None
    fault: list[Fault] = []
    inject: list[Step] = []
    fix: list[Step] = []
    alternative: Annotated[list[Remedy], Field(min_length=1)]
    cheat: Annotated[list[Remedy], Field(min_length=1)]
    hint: Annotated[list[Hint], Field(min_length=1)]
    figure: list[Figure] = []

    @model_validator(mode="before")
    @classmethod
    def _steps_of_its_dose(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        try:
            rows = severities.read(given.get("severity", []))
        except ValidationError:
            return given  # the field tells of it with its key
        wanted = given.get("dose", "")
        dose = next((row for row in rows if row.name == wanted), rows[0] if rows else None)
        numbers = dose.numbers if dose else {}
        steps = {key: severities.filled(given[key], numbers) for key in _DOSED if key in given}
        injects = [severities.filled(given.get("inject"), row.numbers) for row in rows]
        if same := [row.name for i, row in enumerate(rows) if injects[i] in injects[:i]]:
            raise ValueError(f"severity {same[0]}: its numbers change nothing in [[inject]]")
        return given | steps | {"severity": rows, "dose": dose}

    @model_validator(mode="before")
    @classmethod
    def _steps_of_its_faults(cls, given: Any) -> Any:
        faults = given.get("fault") if isinstance(given, dict) else None
        if not isinstance(faults, list):
            return given
        if own := [key for key in ("inject", "fix") if key in given]:
            raise ValueError(f"{own[0]}: unknown key (each [[fault]] has its own)")
        steps: dict[str, list[Any]] = {"inject": [], "fix": []}
        for fault in faults:
            facts = dict(fault) if isinstance(fault, Fault | dict) else {}
            for key in steps:
                found = facts.get(key)
                steps[key] += found if isinstance(found, list) else []
        return given | steps

    @model_validator(mode="after")
    def _a_fault_has_inject_and_fix(self) -> Lab:
        if not self.control and not (self.inject and self.fix):
            raise ValueError("expected [[inject]] and [[fix]] (only a control has none)")
        return self

    @model_validator(mode="after")
    def _faults_have_names(self) -> Lab:
        names = [fault.id for fault in self.fault]
        if len(names) == 1:
            raise ValueError("fault: expected several, or [[inject]] and [[fix]]")
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"fault: expected one of each id, got two of {twice[0]!r}")
        return self

    @model_validator(mode="after")
    def _each_fault_has_a_hint(self) -> Lab:
        names = [fault.id for fault in self.fault]
        general = {rung.fault for rung in self.hint if rung.when is None}
        if unknown := [rung.fault for rung in self.hint if rung.fault not in ("", *names)]:
            wanted = f"expected one of {', '.join(names)}" if names else "this lab has one fault"
            raise ValueError(f"hint: fault: {wanted}, got {unknown[0]!r}")
        if "" not in general and not (names and general == {*names}):
            raise ValueError("hint: expected one without when, or one for each fault")
        return self

    def called(self, other: str, *, examined: bool = False) -> Lab:
        """Return the same lab under a neutral name, for its stack, labels and runs."""
        blind = Blind(other, examined=examined)
        return self.model_copy(update={"blind": blind, "title": blind.title})

    def asked(self, *, by_number: bool) -> Lab:
        """Return the same lab, under its number or under its id."""
        return self.model_copy(update={"by_number": by_number})

    @property
    def code(self) -> str:
        """Its neutral name, such as `p02`, which tells nothing; its id without a number."""
        return self.neutral or self.id

    @property
    def both_names(self) -> str:
        """Its neutral name, and its id if that is another one."""
        return " ".join(dict.fromkeys((self.code, self.id)))

    @property
    def alias(self) -> str:
        """The name of its stack, labels and runs: not its `id` while that is secret."""
        if self.blind:
            return self.blind.name
        return self.code if self.by_number else self.id

    @property
    def unnamed(self) -> bool:
        """True when no measure may name the fault that it shows."""
        return self.blind is not None or self.by_number

    @property
    def to_start(self) -> str:
        """Return what a learner types to start it afresh."""
        if self.alias == EXAM:
            return f"faultlab {EXAM} --help"
        return f"make {MYSTERY}" if self.alias == MYSTERY else f"make lab-{self.alias}"

    @property
    def to_examine(self) -> str:
        """Return what a learner types if it does not start as it should."""
        return "faultlab doctor" if self.blind else f"faultlab doctor {self.alias}"

    @property
    def faults(self) -> list[Fault]:
        """Its faults: none in a control, one in most labs."""
        if self.fault or self.control:
            return self.fault
        return [Fault(id=bare(self.id), truth=self.truth, inject=self.inject, fix=self.fix)]

    @property
    def several(self) -> bool:
        """True when it has more than one fault."""
        return bool(self.fault)

    @property
    def silent(self) -> bool:
        """True at a severity that users do not feel: only evidence shows the fault."""
        return self.dose is not None and self.dose.silent

    @property
    def main(self) -> bool:
        """True at the severity that has the whole contract: the first one, or the only one."""
        return self.dose is None or self.dose == self.severity[0]

    @property
    def control(self) -> bool:
        """True when nothing is wrong here: a check and a tool must stay silent."""
        return self.truth.cause == NO_FAULT

    @property
    def sources(self) -> list[Path]:
        """Its folder, or those of the labs that it was put together from."""
        return self.folders or [self.folder]

    @property
    def ticket(self) -> str:
        """The incident as a user reports it; several if several labs were put together.

        A user reports the strongest dose. At a weaker one a line more says so.
        """
        first = ["Several reports came in within the hour."] if self.folders else []
        milder = [] if self.main else ["**Later:** it is not always as bad as that."]
        alerts = [decoy.alerts.strip() for decoy in self.decoys if decoy.alerts]
        return "\n\n".join([*first, self._texts("ticket.md"), *milder, *alerts])

    @property
    def lesson(self) -> str:
        """The lesson to learn from the lab, with the transcripts of a run."""
        return self._texts("README.md")

    @property
    def overlays(self) -> list[Path]:
        """The files that add to the stack's compose file: one at most of each lab that is in it."""
        files = [folder / "compose.yaml" for folder in self.sources]
        return [file for file in files if file.exists()]

    def _texts(self, name: str) -> str:
        return "\n\n".join(_text(folder / name) for folder in self.sources)

    @cached_property
    def services(self) -> compose_files.Plan:
        """The machines and daemons of its stack. Raises BadInput."""
        return compose_files.read(self.collection, *self.overlays)

    def steps(self) -> list[tuple[str, Step]]:
        """Return every step of the lab with its key in lab.toml."""
        found: list[tuple[str, Step]] = []
        for i, fault in enumerate(self.faults):
            of = f"fault[{i}]." if self.several else ""
            for key, steps in (("inject", fault.inject), ("fix", fault.fix)):
                found += [(f"{of}{key}[{j}]", step) for j, step in enumerate(steps)]
        if self.control:
            found = [(f"inject[{i}]", step) for i, step in enumerate(self.inject)]
        for key, remedies in (("alternative", self.alternative), ("cheat", self.cheat)):
            for i, remedy in enumerate(remedies):
                found += [(f"{key}[{i}].steps[{j}]", s) for j, s in enumerate(remedy.steps)]
        for i, rung in enumerate(self.hint):
            found += [(f"hint[{i}].half[{j}]", s) for j, s in enumerate(rung.half)]
        return found


def _text(file: Path) -> str:
    try:
        return release.text(file.read_text())
    except UnicodeDecodeError as error:
        raise BadInput(
            f"{paths.show(file)}: not valid UTF-8", f"edit {paths.show(file)}"
        ) from error
