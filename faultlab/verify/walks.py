"""Walks: the part of a campaign that is about the labs, in a compact file that can grow.

It has a line for each walk: its verdict, and the values of every measure in every phase. For each
lab it has the limits of the day on which the file was written. That is enough to judge them again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from faultlab.core import document, paths
from faultlab.core.errors import BadInput
from faultlab.lab import checks
from faultlab.lab import loader as labs
from faultlab.lab.asks import RIGHT
from faultlab.lab.check import Measure
from faultlab.lab.limits import Bound, exactly
from faultlab.lab.model import Lab
from faultlab.run import digest
from faultlab.run.phase import FAULTY, FIXED, HEALTHY, Phase, alternative, cheat, only
from faultlab.run.record import Record
from faultlab.verify import campaign
from faultlab.verify.case import PLACE, Case, Made

SCHEMA = 1
BURDENS = ("stolen", "others", "delay", "pressure")  # of the machine, as events record them

Kind = Literal["well", "ill", "cheat"]


@dataclass(frozen=True)
class Limit:
    """The limit of a measure in a phase of a lab; after a cheat one of them must fail."""

    phase: str
    kind: Kind
    measure: str
    unit: str
    op: Literal["at least", "at most", "exactly"]
    limit: float
    times: bool

    @property
    def row(self) -> list[Any]:
        """Return the limit as a row of the compact file."""
        *first, limit, times = asdict(self).values()
        return [*first, _number(limit), times]

    @property
    def bound(self) -> Bound:
        """Return the limit as the check has it."""
        return Bound(self.op, self.limit, self.times)


@dataclass(frozen=True)
class Walk(Made):
    """One walk. `looks`: including repeated ones; `again`: why; `most`: of each burden.

    `values`: of each measure, in the order of `phases`, None where it was not measured; empty if
    its record is not here.
    """

    verdict: Literal["pass", "fail", "unknown"]
    looks: int = 0
    again: list[str] = field(default_factory=list)
    most: dict[str, float] = field(default_factory=dict)
    phases: list[str] = field(default_factory=list)
    values: dict[str, list[float | None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if any(len(each) != len(self.phases) for each in self.values.values()):
            raise ValueError("expected a value for each phase")

    @property
    def key(self) -> str:
        """Return a name that is unique among all walks, wherever they were made."""
        return self.run or f"{self.began} {self.lab} {self.number}"

    def value(self, measure: str, phase: str) -> float | None:
        """Return the value of a measure in a phase; None if it was not measured."""
        if measure not in self.values or phase not in self.phases:
            return None
        return self.values[measure][self.phases.index(phase)]


_Row = tuple[str, Kind, str, str, Literal["at least", "at most", "exactly"], float, bool]


@dataclass(frozen=True)
class Document:
    """The compact file: the limits of each lab, as rows without their names, and the walks."""

    limits: dict[str, list[_Row]]
    walks: list[Walk]
    schema: int = SCHEMA


@dataclass
class Walks:
    """Walks of some labs, and the limits of these labs."""

    limits: dict[str, list[Limit]] = field(default_factory=dict)
    walks: dict[str, Walk] = field(default_factory=dict)

    def add(self, other: Walks) -> None:
        """Add other walks, each once, and their limits. Values are never replaced by nothing."""
        self.limits |= other.limits
        for key, walk in other.walks.items():
            if walk.values or key not in self.walks:
                self.walks[key] = walk

    def of(self, lab_id: str) -> list[Walk]:
        """Return the walks of a lab by the check, and with the fault, that it has today."""
        now = digest.walk(lab_id) if labs.here(lab_id) else ""
        found = [
            walk for walk in self.walks.values() if (walk.lab, walk.lab_digest) == (lab_id, now)
        ]
        return sorted(found, key=lambda walk: walk.began)

    def write(self, file: Path) -> None:
        """Write the whole file, a line for each walk. Raises CannotRun."""
        limits = [
            f"{json.dumps(lab_id)}: {_line([one.row for one in each])}"
            for lab_id, each in sorted(self.limits.items())
        ]
        order = sorted(self.walks.values(), key=lambda walk: (walk.lab, walk.began, walk.number))
        walks = [
            _line({k: v for k, v in _portable(walk).items() if v or k == "number"})
            for walk in order
        ]
        text = (
            f'{{"schema": {SCHEMA}, "limits": {{\n' + ",\n".join(limits) + "\n},\n"
            '"walks": [\n' + ",\n".join(walks) + "\n]}\n"
        )
        paths.write_whole(file, text)


def _portable(walk: Walk) -> dict[str, Any]:
    """Return a walk in a form that JSON can hold: infinity becomes a word."""
    values = {
        name: [None if value is None else _number(value) for value in each]
        for name, each in walk.values.items()
    }
    return {**asdict(walk), "values": values}


def _number(value: float) -> float | int | str:
    if not math.isfinite(value):
        return str(value)
    return int(value) if value == int(value) else value


def _line(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def together(files: Iterable[Path]) -> Walks:
    """Return the walks of campaigns and of compact files. Raises BadInput."""
    found = Walks()
    for file in files:
        found.add(read(file))
    return found


def read(file: Path) -> Walks:
    """Return the walks in a file of either kind. Raises BadInput."""
    missing = BadInput(f"There is no file {file}.", "faultlab reliability --help")
    found = document.read(file, SCHEMA, missing, "holds no walks")
    if "walks" not in found:
        return of_cases(campaign.read(file).cases)
    its = document.shaped(Document, found, file)
    limits = {lab_id: [Limit(*row) for row in each] for lab_id, each in its.limits.items()}
    return Walks(limits, {walk.key: walk for walk in its.walks})


def of_cases(cases: Iterable[Case]) -> Walks:
    """Return the finished cases as walks, with the values of their records and today's limits."""
    walked = [walk for case in cases if (walk := _walk(case)) is not None]
    found = Walks(walks={walk.key: walk for walk in walked})
    for lab_id in sorted({walk.lab for walk in walked} & {*labs.ids()}):
        found.limits[lab_id] = list(limits(labs.load(lab_id)))
    return found


def _walk(case: Case) -> Walk | None:
    if case.interrupted or case.verdict not in ("pass", "fail", "unknown"):
        return None
    whole = {key: getattr(case, key) for key in Made.__dataclass_fields__}
    record = Record.open(case.run)
    if record is not None:
        facts = record.facts
        whole |= {key: facts[key] for key in (*PLACE, "engine") if facts.get(key)}
        whole["began"] = case.began or facts["started"]
        whole |= _looked(record) | _values(record)
    with suppress(ValidationError):
        return TypeAdapter(Walk).validate_python(whole)
    return None


def _looked(record: Record) -> dict[str, Any]:
    events = [e for e in record.events if e["event"] in ("measured", "undecided")]
    most = {
        key: max(found)
        for key in BURDENS
        if (found := [e[key] for e in events if isinstance(e.get(key), int | float)])
    }
    again = [str(e.get("text", "")) for e in events if e["event"] == "undecided"]
    return {"looks": len(events), "again": again, "most": most}


def _values(record: Record) -> dict[str, Any]:
    """Return the values of all measures as they were judged then, in six digits."""
    judged = {
        phase: {finding["name"]: float(f"{finding['value']:.6g}") for finding in found["good"]}
        for phase, found in record.judged.items()
        if found.get("good") and phase in record.readings
    }
    names = next(iter(judged.values()), {})  # a phase with a fault has no responses
    values = {name: [found.get(name) for found in judged.values()] for name in names}
    return {"phases": [*judged], "values": values}


def limits(lab: Lab) -> Iterator[Limit]:
    """Yield every limit that the contract checks for a lab, phase by phase."""
    check = checks.load(lab)
    symptom = check.symptom

    def well(phase: str, measures: Iterable[Measure[Any]] = symptom) -> Iterator[Limit]:
        yield from (_limit(phase, "well", m, m.good) for m in measures)
        if measures is symptom:
            yield from answered(phase, "well")

    def ill(phase: Phase) -> Iterator[Limit]:
        if lab.control:
            return well(phase)
        if lab.several and not phase.left:
            return iter(())  # one fault can hide another
        return (_limit(phase, "ill", m, m.bad) for m in symptom if m.bad and m.fault == phase.left)

    def answered(phase: str, kind: Kind) -> Iterator[Limit]:
        wanted = exactly(100)
        for ask in check.asks:
            yield Limit(phase, kind, ask.name + RIGHT, "%", wanted.op, wanted.limit, wanted.times)

    yield from well(HEALTHY)
    yield from ill(FAULTY)
    for fault in lab.fault:
        yield from ill(only(fault.id))
    yield from well(FIXED)
    for i, _ in enumerate(lab.alternative, 1):
        yield from ill(alternative(i).before)
        yield from well(alternative(i))
    for i, _ in enumerate(lab.cheat, 1):
        yield from (_limit(cheat(i), "cheat", m, m.good) for m in symptom)
        yield from answered(cheat(i), "cheat")


def _limit(phase: str, kind: Kind, measure: Measure[Any], bound: Bound) -> Limit:
    named = phase, kind, measure.name, measure.unit
    return Limit(*named, bound.op, bound.limit, bound.times)
