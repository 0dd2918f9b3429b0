"""Curve: what users of a lab meet at each dose of its fault, by several looks at each.

All doses are tried on one stack. Between two of them the fault is mended, and users must be served
again. `docs/curves.json` keeps the last curve of each lab.
"""

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from faultlab.core import document, lock, paths, text
from faultlab.core.errors import BadInput, CannotRun, Problem, SaidNo
from faultlab.core.naming import stack_name, verify_namespace
from faultlab.core.terminal import Terminal
from faultlab.engine.contract import Engine
from faultlab.lab import checks
from faultlab.lab import loader as labs
from faultlab.lab.model import Lab
from faultlab.run.phase import FAULTY, HEALTHY
from faultlab.run.placement import engines_of
from faultlab.run.readings import shows
from faultlab.run.run import Run
from faultlab.run.stack_in_phase import stack_in_phase

SCHEMA = 1
LOOKS = 5  # at each dose; their range holds the true median with 1 - 2**-4, which is 94%
_FEW = 2  # doses, which have no shape
_PART = 0.1  # a dose between this and 0.9 of the worst effect makes a slope
_SHAPES = {"slope": "The harm grows step by step.", "cliff": "The harm sets in all at once."}


@dataclass(frozen=True)
class Points:
    """One measure at one dose: its values, look by look."""

    measure: str
    unit: str
    values: list[float]

    @property
    def median(self) -> float:
        """Return the median of the looks."""
        return statistics.median(self.values)

    @property
    def words(self) -> str:
        """Return the median with the range of the looks, as `41 (38-44) %`; one value alone."""
        if len(self.values) == 1:
            return text.number(self.median, self.unit)
        low, high = (text.number(end(self.values)) for end in (min, max))
        return f"{text.number(self.median)} ({low}-{high}) {self.unit}".strip()


@dataclass(frozen=True)
class Dose:
    """One severity: in how many looks users felt the fault, and in how many its evidence showed."""

    severity: str
    numbers: dict[str, float]
    silent: bool
    felt: int
    evident: int
    looks: int
    measures: list[Points]

    @property
    def always(self) -> bool:
        """Return whether each look met it."""
        return self.felt == self.looks


@dataclass(frozen=True)
class Curve:
    """The doses of one lab, the weakest first, and what its users meet without a fault."""

    lab: str
    run: str
    engine: str
    kernel: str
    cpus: int
    healthy: list[Points]
    doses: list[Dose]

    @property
    def smallest(self) -> str:
        """Return the weakest dose that users felt in each look; else an empty text."""
        return next((dose.severity for dose in self.doses if dose.always), "")

    @property
    def shape(self) -> str:
        """Return `slope` if a dose has a part of the worst effect on the first measure."""
        base = self.healthy[0].median
        effects = [abs(dose.measures[0].median - base) for dose in self.doses]
        worst = max(effects)
        parts = [_PART * worst < effect < (1 - _PART) * worst for effect in effects]
        return "slope" if any(parts) else "cliff"

    @property
    def out_of_order(self) -> list[str]:
        """Return the doses of which each look was better than each of the weaker dose."""
        base = self.healthy[0].median
        ranges = [sorted(abs(v - base) for v in dose.measures[0].values) for dose in self.doses]
        pairs = zip(ranges, ranges[1:], self.doses[1:], strict=False)
        return [dose.severity for weaker, its, dose in pairs if its[-1] < weaker[0]]


@dataclass(frozen=True)
class Curves:
    """The content of docs/curves.json."""

    curves: list[Curve]
    schema: int = SCHEMA


def show(
    term: Terminal,
    lab_ids: Sequence[str],
    *,
    everything: bool,
    looks: int,
    json_file: str | None,
    wanted: str,
) -> Curves:
    """Measure labs at each of their doses. Raises SaidNo where a dose is not what its row says.

    `looks`: at each dose. `json_file`: keeps the last curve of each lab.
    """
    if looks < 1:
        raise BadInput("--looks takes a number from 1 up.", "faultlab curve --help")
    named = [lab for lab in labs.chosen(lab_ids, everything, "curve") if lab.severity]
    chosen = [*{main.id: main for main in (labs.rows(lab)[0] for lab in named)}.values()]
    if alone := [lab for lab in map(labs.load, lab_ids) if not lab.severity]:
        raise BadInput(f"{alone[0].id} has only one strength.", "faultlab list --severities")
    file = paths.in_a_folder(json_file) if json_file else None
    kept = {its.lab: its for its in read(file)} if file and file.exists() else {}
    places, cannot = engines_of(term, chosen, wanted, parts=True)
    found, troubles = [], list[str]()
    for lab in chosen:
        if lab.id in cannot:
            term.say(f"{'skip':<9} {lab.id}: {cannot[lab.id].partition(':')[0]}")
            continue
        try:
            curve = _measured(term, places[lab.id], lab, looks)
        except Problem as problem:  # the others have their curves
            term.say(f"{lab.id}: {problem.message}")
            troubles.append(f"{lab.id}: {problem.message}")
            continue
        found.append(curve)
        print_one(term, curve)
        if file:
            kept[lab.id] = curve
            _write(file, kept.values())
    if troubles:
        again = f"faultlab curve {troubles[0].partition(':')[0]}"
        raise CannotRun(f"{len(troubles)} labs have no curve: {troubles[0]}", again)
    if not found:
        raise CannotRun("None of these labs runs here.", "faultlab doctor")
    told = Curves(found)
    if amiss := [line for curve in found for line in wrong(curve)]:
        raise SaidNo(f"{len(amiss)} doses are not what their rows say: {amiss[0]}.", "", told)
    return told


def wrong(curve: Curve) -> list[str]:
    """Return what contradicts the rows of a curve."""
    felt = [
        f"{curve.lab}@{d.severity} is silent, but users felt it"
        for d in curve.doses
        if d.silent and d.felt
    ]
    not_felt = [
        f"{curve.lab}@{d.severity} was felt in {d.felt} of {d.looks} looks"
        for d in curve.doses
        if not d.silent and not d.always
    ]
    hidden = [
        f"{curve.lab}@{d.severity} had its evidence in {d.evident} of {d.looks} looks"
        for d in curve.doses
        if d.evident < d.looks
    ]
    order = [f"{curve.lab}@{name} harms less than a weaker dose" for name in curve.out_of_order]
    return [*felt, *not_felt, *hidden, *order]


def read(file: Path) -> list[Curve]:
    """Return the curves of a file. Raises BadInput."""
    missing = BadInput(f"There is no file {file}.", "faultlab curve --help")
    return document.shaped(Curves, document.read(file, SCHEMA, missing), file).curves


def _write(file: Path, curves: Iterable[Curve]) -> None:
    found = Curves(sorted(curves, key=lambda curve: curve.lab))
    paths.write_whole(file, json.dumps(asdict(found), indent=1) + "\n")


def _measured(term: Terminal, engine: Engine, lab: Lab, looks: int) -> Curve:
    name = stack_name(lab.id, verify_namespace())
    rows = labs.rows(lab)[::-1]
    with (
        term.step("curve", lab.id) as step,
        lock.hold(name, f"curve {lab.id}"),
        stack_in_phase(engine, lab, name, HEALTHY) as run,
    ):
        healthy = _points(run, HEALTHY)
        doses = []
        for row in rows:
            step.note(f"{row.id}, {looks} looks")
            doses.append(_at(run, row, looks))
        facts = run.record.facts
        step.done(f"{len(doses)} doses, {looks} looks each")
    where = (engine.name, str(facts["kernel"]), int(facts["cpus"]))
    return Curve(lab.id, run.record.id, *where, healthy, doses)


def _at(run: Run, row: Lab, looks: int) -> Dose:
    """Look at one dose on a healthy stack, and mend it. Raises SaidNo if the fix does not help."""
    assert row.dose is not None
    run.lab, run.check, run.inspects = row, checks.load(row), True
    if checks.follows_dose(row):
        run.measure(HEALTHY)  # its looks are others than those of the row before
    run.inject()
    felt = evident = 0
    values: dict[tuple[str, str], list[float]] = {}
    for _ in range(looks):
        run.measure(FAULTY)
        felt += all(finding.holds for finding in run.ill(FAULTY))
        evident += shows(row, run.evident(FAULTY))
        for points in _points(run, FAULTY):
            values.setdefault((points.measure, points.unit), []).extend(points.values)
    run.apply("fix", row.fix)
    run.fixed()
    measures = [Points(*key, its) for key, its in values.items()]
    return Dose(row.dose.name, row.dose.numbers, row.silent, felt, evident, looks, measures)


def _points(run: Run, phase: str) -> list[Points]:
    """Return what the users of one look met, apart from what must hold in each phase."""
    names = {measure.name for measure in run.check.symptom if not measure.steady}
    found = [finding for finding in run.good(phase) if finding.name in names]
    return [Points(finding.name, finding.unit, [finding.value]) for finding in found]


def print_one(term: Terminal, curve: Curve) -> None:
    """Print a curve, the weakest dose first."""
    term.heading(curve.lab)
    term.table(*table(curve))
    term.say(said(curve))
    term.say()


def table(curve: Curve) -> tuple[list[str], list[list[str]]]:
    """Return the columns and the rows: healthy first, then each dose with both of its counts."""
    columns = ["dose", "felt", "evidence", *(points.measure for points in curve.healthy)]
    rows = [["healthy", "", "", *(points.words for points in curve.healthy)]]
    for dose in curve.doses:
        counts = [f"{count} of {dose.looks}" for count in (dose.felt, dose.evident)]
        rows.append([dose.severity, *counts, *(points.words for points in dose.measures)])
    return columns, rows


def said(curve: Curve) -> str:
    """Return the sentence about a curve."""
    if not curve.smallest:
        return "No setting was felt in every look."
    shape = f" {_SHAPES[curve.shape]}" if len(curve.doses) > _FEW else ""
    if curve.doses[0].always:
        return f"Users felt even the weakest setting tried, {curve.smallest}, every time.{shape}"
    return f"The weakest setting tried that users felt every time is {curve.smallest}.{shape}"
