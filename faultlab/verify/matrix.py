"""Matrix: the evidence of every lab, looked for while every other lab runs.

A diagnosis rests on all evidence of a lab together, so a cell fires if every piece of it does. That
must happen in its own lab, and elsewhere only where `twins` says so. A composite lab names its
parts there.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from faultlab.core import document, lock, paths
from faultlab.core.errors import BadInput, CannotRun, SaidNo
from faultlab.core.naming import stack_name, verify_namespace
from faultlab.core.terminal import Terminal
from faultlab.engine.contract import Engine
from faultlab.engine.stack import Stack
from faultlab.lab import checks
from faultlab.lab import loader as labs
from faultlab.lab.check import Check
from faultlab.lab.finding import Finding
from faultlab.lab.model import Lab
from faultlab.lab.reading import Reading
from faultlab.run.phase import FAULTY, HEALTHY
from faultlab.run.placement import engines_of
from faultlab.run.readings import shows
from faultlab.run.record import Record
from faultlab.run.stack_in_phase import stack_in_phase

SCHEMA = 1  # of the file that `collect` writes
Mark = Literal["own", "missing", "twin", "alarm", "silent", "absent"]
LETTERS: dict[Mark, str] = {
    "own": "X",
    "missing": "?",
    "twin": "t",
    "alarm": "!",
    "silent": ".",
    "absent": " ",
}
_LOUD = ("own", "twin", "alarm")  # the evidence fires
_QUIET = ("missing", "silent")
LEGEND = (
    "X its own fault   t a declared twin   . silent   blank: no such machine here",
    "! fires where it must not   ? silent in its own lab",
)


@dataclass(frozen=True)
class Cell:
    """The evidence of lab `of`, while lab `running` is up with its fault and its load."""

    running: str
    of: str
    mark: Mark
    evidence: list[Finding]


@dataclass(frozen=True)
class Collected:
    """A row of a file of `collect`: the labs whose evidence fires in a run, and the silent ones."""

    run: str
    fires: list[str]
    silent: list[str]


@dataclass(frozen=True)
class Document:
    """The file of `collect`: a row for each lab."""

    rows: dict[str, Collected]
    schema: int = SCHEMA


@dataclass(frozen=True)
class Matrix:
    """The cells, row by row."""

    cells: list[Cell]


def show(term: Terminal, lab_ids: Sequence[str], everything: bool, wanted: str) -> Matrix:
    """Run the labs one by one and print the matrix. Raises SaidNo for a wrong cell.

    It looks for the evidence of these labs, or with `everything` of all in their collection. So the
    rows of the whole matrix can be made in pieces.
    """
    chosen = labs.chosen(lab_ids or (labs.ours() if everything else ()), False, "matrix")
    its = chosen[0].collection
    if others := [lab.id for lab in chosen if lab.collection != its]:
        what = f"{others[0]} and {chosen[0].id} have two stacks, so neither can show in the other."
        raise BadInput(what, "faultlab list")
    looked_for = [labs.load(lab_id) for lab_id in its.ids()] if everything else chosen
    check_of = {lab.id: checks.load(lab) for lab in looked_for}
    columns = [lab for lab in looked_for if check_of[lab.id].evidence]
    places, cannot = engines_of(term, chosen, wanted, parts=True)
    rows: dict[str, list[Cell]] = {}
    for lab in chosen:
        with term.step("run", lab.id) as step:
            if lab.id in cannot:
                step.done(f"{lab.id}: skipped, it needs the lab VM")
                continue
            rows[lab.id] = _row(places[lab.id], lab, columns, check_of)
            step.done(f"{lab.id}: {', '.join(_loud(rows[lab.id])) or 'silent'}")
    return _conclude(term, rows, [lab.id for lab in columns])


def again(term: Terminal, file: str | None, markdown: bool) -> Matrix:
    """Print the newest row of each lab in `runs/`, or the rows of a file. Runs nothing.

    Today's `twins` mark them. Raises CannotRun if no row is recorded, SaidNo for a wrong cell.
    `markdown`: as in docs/matrix.md.
    """
    rows = _kept(Path(file)) if file else recorded()
    if not rows:
        raise CannotRun("No row of the matrix is recorded yet.", "faultlab matrix --all")
    if markdown:
        term.say("```text")
    for lab_id, (run, row) in rows.items():
        term.say(f"{lab_id}: {', '.join(_loud(row)) or 'silent'} ({run})")
    cells = {lab_id: row for lab_id, (_, row) in rows.items()}
    matrix = _conclude(term, cells, sorted({cell.of for row in cells.values() for cell in row}))
    if markdown:
        term.say("```")
    return matrix


def collect(term: Terminal, into: str) -> Matrix:
    """Put the newest rows of `runs/` into a file, in place of its older ones, and print them all.

    The file has no values, only whose evidence fires. Raises as `again`.
    """
    file = Path(into)
    rows = (_kept(file) if file.exists() else {}) | recorded()
    facts = {
        "schema": SCHEMA,
        "rows": {
            lab_id: asdict(Collected(run, _loud(row), [c.of for c in row if c.mark in _QUIET]))
            for lab_id, (run, row) in sorted(rows.items())
        },
    }
    paths.write_whole(file, json.dumps(facts, indent=1) + "\n")
    return again(term, into, markdown=False)


def recorded() -> dict[str, tuple[str, list[Cell]]]:
    """Return the newest row of each lab that still exists, and its run."""
    rows: dict[str, tuple[str, list[Cell]]] = {}
    known = set(labs.ids())
    for lab_id in sorted(known):
        lab = labs.load(lab_id)
        found = (Record.open(run) for run in Record.ids(lab_id))
        newest = next((r for r in found if r is not None and "matrix" in r.facts), None)
        if newest is not None:
            cells = []
            for cell in newest.facts["matrix"]:
                if cell["of"] in known:
                    evidence = [Finding(**item) for item in cell["evidence"]]
                    cells.append(_cell(lab, labs.load(cell["of"]), evidence))
            rows[lab_id] = newest.id, cells
    return rows


def _kept(file: Path) -> dict[str, tuple[str, list[Cell]]]:
    """Return the rows of a file of `collect`, of labs that still exist, without their values."""
    missing = BadInput(f"There is no file {file}.", f"faultlab matrix --collect {file}")
    facts = document.read(file, SCHEMA, missing)
    rows = document.shaped(dict[str, Collected], facts.get("rows"), file)
    known = {lab_id: labs.load(lab_id) for lab_id in labs.ids()}
    return {
        lab_id: (
            row.run,
            [
                Cell(lab_id, of, mark(known[lab_id], known[of], of in row.fires, there=True), [])
                for of in sorted({*row.fires, *row.silent} & {*known})
            ],
        )
        for lab_id, row in rows.items()
        if lab_id in known
    }


def _loud(row: Sequence[Cell]) -> list[str]:
    return [cell.of for cell in row if cell.mark in _LOUD]


def _conclude(term: Terminal, rows: Mapping[str, Sequence[Cell]], columns: Sequence[str]) -> Matrix:
    _print(term, rows, columns)
    matrix = Matrix([cell for row in rows.values() for cell in row])
    wrong = [cell for cell in matrix.cells if cell.mark in ("alarm", "missing")]
    if wrong:
        words = ", ".join(f"{cell.of} in {cell.running}" for cell in wrong)
        raise SaidNo(f"Not as declared: {words}.", "see twins in docs/adding-a-lab.md", matrix)
    return matrix


def _row(
    engine: Engine, lab: Lab, columns: Sequence[Lab], check_of: Mapping[str, Check[Any, Any]]
) -> list[Cell]:
    """Bring one lab up, prove its symptom, and look for all evidence around its load.

    Some evidence is a rate over the time between two inspections. So the lab's own ones are those
    of the look that counts, which can have been taken again.
    """
    name = stack_name(lab.id, verify_namespace())
    others = [other.id for other in columns if other.id != lab.id]
    with lock.hold(name, f"matrix {lab.id}"), stack_in_phase(engine, lab, name, HEALTHY) as run:
        run.inject()
        before = {other: _inspect(check_of[other], run.stack) for other in others}
        run.inspects = True
        run.gate(FAULTY)
        after = {other: _inspect(check_of[other], run.stack) for other in reversed(others)}
        found = {other: _evident(check_of[other], before[other], after[other]) for other in others}
        found[lab.id] = run.evident(FAULTY)
        cells = [_cell(lab, other, found[other.id]) for other in columns]
        run.record.facts["matrix"] = [asdict(cell) for cell in cells]
    return cells


def _inspect(check: Check[Any, Any], stack: Stack) -> Any:
    """Return the inspection of a lab now; None if a machine that it reads is missing."""
    try:
        return check.inspect(stack)
    except CannotRun:
        return None


def _evident(check: Check[Any, Any], before: Any, after: Any) -> list[Finding]:
    if before is None or after is None:
        return []
    return check.evident(Reading(None, before, after))


def _cell(lab: Lab, other: Lab, evidence: list[Finding]) -> Cell:
    fires = bool(evidence) and shows(other, evidence)
    return Cell(lab.id, other.id, mark(lab, other, fires, bool(evidence)), evidence)


def mark(lab: Lab, other: Lab, fires: bool, there: bool) -> Mark:
    """Return the mark for evidence of `other` that fires or does not fire in `lab`."""
    if other.id == lab.id:
        return "own" if fires else "missing"
    if not there:
        return "absent"
    if not fires:
        return "silent"
    return "twin" if other.id in lab.twins or lab.id in other.twins else "alarm"


def _print(term: Terminal, rows: Mapping[str, Sequence[Cell]], columns: Sequence[str]) -> None:
    """Print a row for each lab that runs, and a numbered column for each lab's evidence."""
    numbers = {of: number for number, of in enumerate(columns, 1)}
    term.say()
    term.say(" " * 23 + "".join(f"{n // 10 or ' '}" for n in numbers.values()))
    term.say("evidence of lab".rjust(22) + " " + "".join(f"{n % 10}" for n in numbers.values()))
    for running, row in rows.items():
        number = f"{numbers[running]:>2}" if running in numbers else "  "
        marks = {cell.of: LETTERS[cell.mark] for cell in row}
        term.say(f"{number} {running:<19} " + "".join(marks.get(of, " ") for of in columns))
    term.say()
    for line in LEGEND:
        term.say(line)
