"""Origins: measured figures beside those of the documents, and beside the limits of the checks.

Both tables are made from the newest whole run of each lab in `runs/`; nothing is measured here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from operator import attrgetter
from typing import Any

from faultlab.core.errors import BadInput, CannotRun
from faultlab.core.terminal import Terminal
from faultlab.core.text import number
from faultlab.lab import check
from faultlab.lab import load as labs
from faultlab.lab.check import Check, Measure
from faultlab.lab.model import Figure, Lab
from faultlab.report import plot
from faultlab.report.ladder import Ladder, ladders, svg
from faultlab.run.contract import ill_in
from faultlab.run.readings import FIXED, HEALTHY, PHASES, Measured
from faultlab.run.record import Record

_ABOUT_FIGURES = """\
# The documents of origin, and what is measured here

Written by `faultlab origins --markdown` from the newest whole run of each lab; not edited by hand.

Each row: the figures of the document (faulty → fixed), ours, and both ratios. A row holds when the
direction is the same and our ratio is at least half of the document's. `-`: the document gives one
value only, or 0.
"""
_ABOUT_LIMITS = """
## Measured values beside the limits

`good` must hold in the healthy and in the fixed phase, `bad` in the faulty one. `gaps`: the smaller
distance between the faulty phase and the others, in gaps between the two limits; two or more are
wanted, so that chance does not decide. Exit codes have no distance and are left out.
"""
_ABOUT_LADDERS = """
## Ladders

Where one case of a document begins with the value that another has ended with. Each lab has a stack
of its own, so the ratios are multiplied: what all steps up to here gain. Drawn by
`faultlab origins --picture docs/ladder.svg`:

![what the steps gain, in the document and here](ladder.svg)
"""
_ABOUT_RUNS = """
## The runs
"""
_HALF = 0.5  # of the ratio of origin, at least: machines and versions differ
_TWICE = 2.0  # the distance between the phases, in gaps between the limits, at least


@dataclass(frozen=True)
class Compared:
    """A figure of a document of origin, and the same thing measured: faulty, then fixed."""

    lab: str
    run: str
    what: str
    unit: str
    origin: tuple[float | None, float | None]
    ours: tuple[float, float]

    @property
    def name(self) -> str:
        """`bookings [/s]`."""
        return _named(self.what, self.unit)

    @property
    def rises(self) -> bool:
        """Does the fix make it more in the document?"""
        faulty, fixed = self.origin
        return (fixed or 0) > (faulty or 0)

    @property
    def origin_ratio(self) -> float | None:
        """Fixed to faulty in the document; None where it gives one of them only, or 0."""
        faulty, fixed = self.origin
        return fixed / faulty if faulty and fixed else None

    @property
    def our_ratio(self) -> float:
        """Fixed to faulty, as measured."""
        return _ratio(*self.ours)

    @property
    def holds(self) -> bool:
        """The same direction, and at least half of the ratio."""
        ours = self.our_ratio if self.rises else _ratio(*reversed(self.ours))
        if self.origin_ratio is None:
            return ours > 1
        wanted = self.origin_ratio if self.rises else 1 / self.origin_ratio
        return ours > 1 and ours >= _HALF * wanted


@dataclass(frozen=True)
class Limited:
    """A measure of a check: its values in three phases beside its two limits."""

    lab: str
    run: str
    what: str
    unit: str
    healthy: float
    faulty: float
    fixed: float
    good: str
    bad: str
    gap: float

    @property
    def distance(self) -> float:
        """The distance between the phases, in gaps; infinite where the limits leave none."""
        apart = min(abs(self.faulty - self.healthy), abs(self.faulty - self.fixed))
        return apart / self.gap if self.gap else math.inf

    @property
    def holds(self) -> bool:
        """Far enough apart for chance not to decide."""
        return self.distance >= _TWICE


def show(term: Terminal, lab_ids: Sequence[str], markdown: bool, picture: str | None) -> None:
    """Print the tables, and draw the ladders to a file if asked.

    Raises CannotRun when no lab has a whole run, and for a picture without a ladder.
    """
    figures, limits, without = collect(lab_ids)
    if not (figures or limits):
        raise CannotRun("No lab has a whole run yet.", "faultlab verify --all")
    if markdown:
        term.console.width = 240
        term.say(_ABOUT_FIGURES)
    _print(term, FIGURES, [figure_row(row) for row in figures], markdown)
    found = ladders(figures)
    if found:
        term.say(_ABOUT_LADDERS if markdown else "")
        _print(term, _LADDERS, [row for ladder in found for row in _ladder_rows(ladder)], markdown)
    if picture:
        _draw(found, picture)
    term.say(_ABOUT_LIMITS if markdown else "")
    _print(term, _LIMITS, [_limit_row(row) for row in limits], markdown)
    if markdown:
        rows: list[Compared | Limited] = [*figures, *limits]
        term.say(_ABOUT_RUNS)
        for run in dict.fromkeys(row.run for row in rows):
            term.say(f"- {run}: {_where(run)}")
    if without:
        term.say()
        term.say(f"No whole run yet: {', '.join(without)}")
    term.json(
        {
            "figures": [{**asdict(row), "holds": row.holds} for row in figures],
            "limits": [
                {**asdict(row), "distance": row.distance, "holds": row.holds} for row in limits
            ],
            "ladders": [
                {
                    "figure": ladder.name,
                    "labs": [step.lab for step in ladder.steps],
                    "document": ladder.documents_gain,
                    "measured": ladder.our_gain,
                }
                for ladder in found
            ],
            "without": without,
        }
    )


def collect(lab_ids: Sequence[str]) -> tuple[list[Compared], list[Limited], list[str]]:
    """Figures and limits of these labs (of none: of all), and the labs without a whole run."""
    figures: list[Compared] = []
    limits: list[Limited] = []
    without: list[str] = []
    for lab in (labs.load(i) for i in (dict.fromkeys(lab_ids) or labs.ids())):
        judge = check.load(lab.id)
        ran = newest(lab, judge)
        if ran is None:
            without.append(lab.id)
            continue
        figures += [_compare(ran, figure) for figure in lab.figure]
        limits += [_limit(ran, measure) for measure in _telling(judge)]
    return figures, limits, without


def _draw(found: Sequence[Ladder], picture: str) -> None:
    if not found:
        raise CannotRun("No two figures follow each other.", "faultlab origins")
    plot.target(picture).write_text(svg(found))


def newest(lab: Lab, judge: Check[Any, Any]) -> Measured | None:
    """The newest run that came to its fixed phase, with traces, and that its check can read."""
    for run in Record.ids(lab.id):
        with suppress(BadInput, CannotRun):
            ran = Measured(lab, judge, Record.read(run))
            phases = [ran.reading(phase) for phase in PHASES]
            if all(reading.before is not None for reading in phases):
                return ran
    return None


def _telling(judge: Check[Any, Any]) -> list[Measure[Any]]:
    """The measures that tell the phases apart by more or less, not by an exit code."""
    return [m for m in judge.symptom if m.bad and not m.steady and m.good.op != "exactly"]


def _compare(ran: Measured, figure: Figure) -> Compared:
    names = [figure.of] * 2 if isinstance(figure.of, str) else figure.of
    faulty, fixed = (_value(ran, of, phase) for of, phase in zip(names, figure.phases, strict=True))
    return Compared(
        lab=ran.lab.id,
        run=ran.record.id,
        what=figure.what,
        unit=figure.unit,
        origin=(figure.faulty, figure.fixed),
        ours=(faulty, fixed),
    )


def _value(ran: Measured, of: str, phase: str) -> float:
    """What goes by this name in a phase of a run. Raises CannotRun when nothing does."""
    reading = ran.reading(phase)
    for measure in ran.check.symptom:
        if measure.name == of:
            return float(measure.of(reading.look))
    for sign in ran.check.evidence:
        if sign.name == of:
            return float(sign.of(reading.before, reading.after))
    try:
        return float(attrgetter(of)(reading.look))
    except AttributeError as error:
        raise CannotRun(
            f"labs/{ran.lab.id}/lab.toml: figure.of: nothing measured is called {of!r}",
            f"edit labs/{ran.lab.id}/lab.toml",
        ) from error


def _limit(ran: Measured, measure: Measure[Any]) -> Limited:
    phases = (HEALTHY, ill_in(ran.lab, measure.stage), FIXED)
    healthy, faulty, fixed = (float(measure.of(ran.reading(phase).look)) for phase in phases)
    assert measure.bad is not None
    good, bad = measure.good.threshold(healthy), measure.bad.threshold(healthy)
    return Limited(
        lab=ran.lab.id,
        run=ran.record.id,
        what=measure.name,
        unit=measure.unit,
        healthy=healthy,
        faulty=faulty,
        fixed=fixed,
        good=f"{measure.good.op} {number(good)}",
        bad=f"{measure.bad.op} {number(bad)}",
        gap=abs(good - bad),
    )


def _where(run: str) -> str:
    """Where a run took place."""
    facts = Record.read(run).facts
    return f"engine {facts['engine']}, kernel {facts['kernel']}, {facts['cpus']} processors"


def _ratio(faulty: float, fixed: float) -> float:
    if fixed == faulty:
        return 1.0
    return fixed / faulty if faulty else math.inf


def _times(ratio: float | None) -> str:
    """`x 28.5`, `/ 1010`."""
    if ratio is None:
        return "-"
    if ratio in (0, math.inf):
        return "to 0" if ratio == 0 else "from 0"
    return f"x {number(ratio)}" if ratio >= 1 else f"/ {number(1 / ratio)}"


def _named(what: str, unit: str) -> str:
    return f"{what} [{unit}]" if unit else what


def _arrow(pair: Sequence[float | None]) -> str:
    return " → ".join("-" if value is None else number(value) for value in pair)


FIGURES = ("lab", "figure", "origin", "ratio", "measured", "ratio", "holds")
_LADDERS = ("figure", "step", "origin", "gain", "measured", "ratio", "gain")
_LIMITS = ("lab", "measure", "healthy", "faulty", "fixed", "good", "bad", "gaps", "holds")


def figure_row(row: Compared) -> list[str]:
    """The cells of a row, below FIGURES."""
    return [
        row.lab,
        row.name,
        _arrow(row.origin),
        _times(row.origin_ratio),
        _arrow(row.ours),
        _times(row.our_ratio),
        "yes" if row.holds else "NO",
    ]


def _ladder_rows(ladder: Ladder) -> list[list[str]]:
    gains = zip(ladder.document, ladder.documents_gain, ladder.our_gain, strict=True)
    (value, _, _), *gained = gains
    rows = [[ladder.name, "all faults", number(value), "", "", "", ""]]
    for step, (value, theirs, ours) in zip(ladder.steps, gained, strict=True):
        measured = [_arrow(step.ours), _times(step.our_ratio), _times(ours)]
        rows.append(["", f"{step.lab} fixed", number(value), _times(theirs), *measured])
    return rows


def _limit_row(row: Limited) -> list[str]:
    return [
        row.lab,
        _named(row.what, row.unit),
        *(number(value) for value in (row.healthy, row.faulty, row.fixed)),
        row.good,
        row.bad,
        number(row.distance),
        "yes" if row.holds else "NO",
    ]


def _print(
    term: Terminal, columns: Sequence[str], rows: Sequence[Sequence[str]], markdown: bool
) -> None:
    if not markdown:
        term.table(columns, rows)
        return
    for cells in (columns, ["---"] * len(columns), *rows):
        term.say(f"| {' | '.join(cells)} |")
