"""Index: one page about all labs and their runs: verdicts, flakes, figures, evidence."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from faultlab.core import paths
from faultlab.core.errors import BadInput, CannotRun
from faultlab.core.statistics import wilson
from faultlab.core.terminal import Terminal
from faultlab.core.text import number
from faultlab.lab import checks
from faultlab.lab import loader as labs
from faultlab.lab.check import Check
from faultlab.lab.finding import Finding
from faultlab.lab.model import Lab
from faultlab.report import history, judge, references, references_page
from faultlab.report.page import FILE as PAGE
from faultlab.report.page import lead, render
from faultlab.run.phase import FAULTY, FIXED
from faultlab.run.readings import Measured
from faultlab.run.record import Record
from faultlab.verify import matrix

FILE = "index.html"
_LAST = 30  # runs in a spark line


@dataclass(frozen=True)
class Spark:
    """The leading measure of a lab in the faulty phase of its last runs, the oldest first."""

    values: list[float]
    verdicts: list[str]
    text: str

    def points(self) -> list[tuple[float, float, str]]:
        """Return the position of each value in a picture of 120 x 24, with its run's verdict."""
        low, high = min(self.values), max(self.values)
        step = 120 / max(1, len(self.values) - 1)
        return [
            (
                round(i * step, 1),
                round(24 * (1 - (value - low) / (high - low)) if high > low else 12, 1),
                verdict,
            )
            for i, (value, verdict) in enumerate(zip(self.values, self.verdicts, strict=True))
        ]


@dataclass(frozen=True)
class LabRow:
    """A lab: its last verdict, how often it was verified and did not pass, and its spark line."""

    lab: Lab
    verdict: str
    run: str
    when: str
    page: str
    verified: int
    failed: int
    low: float
    high: float
    spark: Spark | None


@dataclass(frozen=True)
class Verified:
    """A lab with its last verdict. `interval`: of the true share that did not pass."""

    lab: str
    verdict: str
    run: str
    verified: int
    failed: int
    interval: tuple[float, float]


@dataclass(frozen=True)
class PageOfLabs:
    """The page about all labs."""

    file: str
    labs: list[Verified]


def show(term: Terminal) -> PageOfLabs:
    """Write `runs/index.html`. Raises CannotRun if nothing is recorded."""
    if not Record.ids():
        raise CannotRun("No run is recorded yet.", "make lab-mtu")
    file = paths.runs() / FILE
    with term.step("report", "reading the runs") as step:
        rows = []
        for lab_id in labs.ids():
            step.note(lab_id)
            rows.append(_row(lab := labs.load(lab_id), checks.load(lab)))
        step.note("figures and evidence")
        file.write_text(html(rows))
        step.done(f"{paths.show(file)}, {sum(row.verified for row in rows)} verified runs")
    term.say("Open it in a browser; it needs no network.")
    return PageOfLabs(
        str(file),
        [Verified(r.lab.id, r.verdict, r.run, r.verified, r.failed, (r.low, r.high)) for r in rows],
    )


def html(rows: Sequence[LabRow]) -> str:
    """Return the page."""
    figures, _, _ = references.collect([])
    columns, cells = _evidence()
    return render(
        "index.html",
        rows=rows,
        headings=references_page.FIGURES,
        figures=[references_page.figure_row(row) for row in figures],
        columns=columns,
        cells=cells,
        letters=matrix.LETTERS,
        legend=matrix.LEGEND,
    )


def _row(lab: Lab, judged_by: Check[Any, Any]) -> LabRow:
    found: list[tuple[Record, str, Finding | None]] = []
    for run_id in reversed(Record.ids(lab.id)):
        with suppress(BadInput, CannotRun):
            ran = Measured(lab, judged_by, Record.read(run_id))
            verdict = _verdict(ran)
            if verdict:
                found.append((ran.record, verdict, _leading(ran)))
    failed = sum(verdict in ("fail", "unknown") for _, verdict, _ in found)
    low, high = wilson(failed, len(found))
    run = page = when = verdict = ""
    if found:
        last, verdict, _ = found[-1]
        run, when = last.id, last.facts["started"][:16].replace("T", " ")
        page = f"{run}/{PAGE}" if (last.folder / PAGE).is_file() else ""
    spark = _spark(found[-_LAST:])
    return LabRow(lab, verdict, run, when, page, len(found), failed, low, high, spark)


def _verdict(ran: Measured) -> str:
    """Return the recorded verdict; a whole walk of an older version is judged now."""
    if ran.record.verdict or FIXED not in ran.phases:
        return ran.record.verdict
    if ran.reading(FIXED).before is None or not ran.record.happened("down"):
        return ""
    return judge.verdict(judge.verdicts(ran))


def _leading(ran: Measured) -> Finding | None:
    line = lead(history.lines(ran))
    if line is None or FAULTY not in ran.phases:
        return None
    return next(finding for finding in ran.good(FAULTY) if finding.name == line.name)


def _spark(found: Sequence[tuple[Record, str, Finding | None]]) -> Spark | None:
    known = [(finding, verdict) for _, verdict, finding in found if finding is not None]
    if len(known) < 2:
        return None
    values = [finding.value for finding, _ in known]
    newest = known[-1][0]
    text = (
        f"{newest.name} while faulty, last {len(values)} runs: "
        f"{number(min(values))} to {number(max(values), newest.unit)}"
    )
    return Spark(values, [verdict for _, verdict in known], text)


def _evidence() -> tuple[list[str], dict[str, dict[str, matrix.Mark]]]:
    """Return the columns of the matrix, and the newest recorded row of each lab."""
    rows = matrix.recorded().items()
    cells = {lab_id: {cell.of: cell.mark for cell in row} for lab_id, (_, row) in rows}
    return sorted({of for row in cells.values() for of in row}), cells
