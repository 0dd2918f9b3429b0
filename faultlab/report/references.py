"""References: figures of recorded runs beside those of the sources, and beside the limits."""

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from operator import attrgetter, mul
from typing import Any

from pydantic import computed_field

from faultlab.core.errors import BadInput, CannotRun
from faultlab.core.text import number
from faultlab.lab import checks
from faultlab.lab import loader as labs
from faultlab.lab.check import Check, Measure
from faultlab.lab.model import Figure, Lab
from faultlab.report import plot
from faultlab.run.phase import FAULTY, FIXED, HEALTHY, PHASES, only
from faultlab.run.readings import Measured
from faultlab.run.record import Record

_HALF = 0.5  # of the source's ratio, at least, because machines and versions differ
_TWICE = 2.0  # times the gap between the limits: the least distance between the phases


@dataclass(frozen=True)
class _Figure:
    """A figure that was measured in a run of a lab."""

    lab: str
    run: str
    what: str
    unit: str

    @property
    def name(self) -> str:
        """Return the figure and its unit, such as `bookings [/s]`."""
        return f"{self.what} [{self.unit}]" if self.unit else self.what


@dataclass(frozen=True)
class Compared(_Figure):
    """A figure of a source, and the same thing measured: faulty, then fixed."""

    origin: tuple[float | None, float | None]
    ours: tuple[float, float]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def holds(self) -> bool:
        """Return whether it has the direction of the source, and half of its ratio at least."""
        ours = self.our_ratio if self.rises else _ratio(*reversed(self.ours))
        least = 1.0
        if self.origin_ratio is not None:
            least = _HALF * (self.origin_ratio if self.rises else 1 / self.origin_ratio)
        return ours > 1 and ours >= least

    @property
    def rises(self) -> bool:
        """Return whether the fix increases the figure in the source."""
        faulty, fixed = self.origin
        return (fixed or 0) > (faulty or 0)

    @property
    def origin_ratio(self) -> float | None:
        """Return fixed to faulty in the source; None if it gives one of them only, or 0."""
        faulty, fixed = self.origin
        return fixed / faulty if faulty and fixed else None

    @property
    def our_ratio(self) -> float:
        """Return fixed to faulty, as measured."""
        return _ratio(*self.ours)


@dataclass(frozen=True)
class Limited(_Figure):
    """A measure of a check: its values in three phases beside its two limits."""

    healthy: float
    faulty: float
    fixed: float
    good: str
    bad: str
    gap: float

    @computed_field  # type: ignore[prop-decorator]
    @property
    def distance(self) -> float:
        """Return the distance between the phases in gaps; infinite if the limits leave none."""
        apart = min(abs(self.faulty - self.healthy), abs(self.faulty - self.fixed))
        return apart / self.gap if self.gap else math.inf

    @computed_field  # type: ignore[prop-decorator]
    @property
    def holds(self) -> bool:
        """Return whether the phases are so far apart that chance does not decide."""
        return self.distance >= _TWICE


def _ratio(faulty: float, fixed: float) -> float:
    if fixed == faulty:
        return 1.0
    return fixed / faulty if faulty else math.inf


def collect(lab_ids: Sequence[str]) -> tuple[list[Compared], list[Limited], list[str]]:
    """Return figures and limits of these labs (default: all), and the labs without a whole run.

    They come from the newest whole run of each lab in `runs/`; nothing is measured here.
    """
    figures: list[Compared] = []
    limits: list[Limited] = []
    without: list[str] = []
    for lab in (labs.load(i) for i in (dict.fromkeys(lab_ids) or labs.ours())):
        check = checks.load(lab)
        ran = newest(lab, check)
        if ran is None:
            without.append(lab.id)
            continue
        figures += [_compare(ran, figure) for figure in lab.figure]
        # A quick walk has proven only some of several faults alone.
        proven = [m for m in _telling(check) if not m.fault or only(m.fault) in ran.phases]
        limits += [_limit(ran, measure) for measure in proven]
    return figures, limits, without


def newest(lab: Lab, check: Check[Any, Any]) -> Measured | None:
    """Return the newest run with a fixed phase and inspections that its check can read."""
    for run in Record.ids(lab.id):
        with suppress(BadInput, CannotRun):
            ran = Measured(lab, check, Record.read(run))
            phases = [ran.reading(phase) for phase in PHASES]
            for phase in {phase for figure in lab.figure for phase in figure.phases}:
                ran.reading(phase)  # a quick walk has proven only some of several faults alone
            if all(reading.before is not None for reading in phases):
                return ran
    return None


def _telling(check: Check[Any, Any]) -> list[Measure[Any]]:
    """Return the measures that tell the phases apart by size, not by an exit code."""
    return [m for m in check.symptom if m.bad and not m.steady and m.good.op != "exactly"]


def _compare(ran: Measured, figure: Figure) -> Compared:
    names = [figure.of] * 2 if isinstance(figure.of, str) else figure.of
    faulty, fixed = (_value(ran, of, phase) for of, phase in zip(names, figure.phases, strict=True))
    origin = figure.faulty, figure.fixed
    return Compared(
        ran.lab.id, ran.record.id, figure.what, figure.unit, origin=origin, ours=(faulty, fixed)
    )


def _value(ran: Measured, of: str, phase: str) -> float:
    """Return the value of this name in a phase of a run. Raises CannotRun if it is unknown."""
    reading = ran.reading(phase)
    for measure in ran.check.symptom:
        if measure.name == of:
            return float(measure.value(reading.look))
    for item in ran.check.evidence:
        if item.name == of:
            return float(item.of(reading.before, reading.after))
    try:
        return float(attrgetter(of)(reading.look))
    except AttributeError as error:
        raise CannotRun(
            f"labs/{ran.lab.id}/lab.toml: figure.of: nothing measured is called {of!r}",
            f"edit labs/{ran.lab.id}/lab.toml",
        ) from error


def _limit(ran: Measured, measure: Measure[Any]) -> Limited:
    alone = only(measure.fault) if measure.fault else FAULTY
    phases = (HEALTHY, alone, FIXED)
    healthy, faulty, fixed = (float(measure.value(ran.reading(phase).look)) for phase in phases)
    assert measure.bad is not None
    good, bad = measure.good.threshold(healthy), measure.bad.threshold(healthy)
    words = f"{measure.good.op} {number(good)}", f"{measure.bad.op} {number(bad)}"
    named = ran.lab.id, ran.record.id, measure.name, measure.unit
    return Limited(*named, healthy, faulty, fixed, *words, gap=abs(good - bad))


@dataclass(frozen=True)
class Ladder:
    """Figures of the same thing, in the order of their cases."""

    steps: tuple[Compared, ...]

    @property
    def name(self) -> str:
        """Return the figure and its unit, such as `bookings [/s]`."""
        return self.steps[0].name

    @property
    def document(self) -> list[float]:
        """Return the source's values, from the first to the last."""
        first, *_ = self.steps
        return [first.origin[0] or 0.0, *(step.origin[1] or 0.0 for step in self.steps)]

    @property
    def documents_gain(self) -> list[float]:
        """Return the source's values divided by the first of them."""
        return [value / self.document[0] for value in self.document]

    @property
    def our_gain(self) -> list[float]:
        """Return our ratios, multiplied up to each step."""
        return list(accumulate((step.our_ratio for step in self.steps), mul, initial=1.0))


def ladders(figures: Sequence[Compared]) -> list[Ladder]:
    """Return figures of different labs that follow each other in their source, two or more."""
    ends = {(f.name, f.rises, f.origin[1]) for f in figures}
    firsts = [f for f in figures if f.origin[0] and (f.name, f.rises, f.origin[0]) not in ends]
    found = [Ladder(tuple(_up(first, figures))) for first in firsts]
    return [ladder for ladder in found if len(ladder.steps) > 1]


def _up(step: Compared, figures: Sequence[Compared]) -> Iterator[Compared]:
    """Yield this step and those above it. All rise or all fall, so this ends."""
    yield step
    for other in figures:
        above = other.name == step.name and other.origin[0] == step.origin[1]
        if above and other.origin_ratio not in (None, 1) and other.rises == step.rises:
            yield from _up(other, figures)
            return


def svg(found: Sequence[Ladder]) -> str:
    """Return a panel for each ladder with both gains, step by step."""

    def draw(panel: plot.Axes, ladder: Ladder) -> None:
        places = range(len(ladder.steps) + 1)
        gains = {"document": ladder.documents_gain, "measured": ladder.our_gain}
        look = dict(xytext=(0, 6), textcoords="offset points", ha="center", fontsize="small")
        for (whose, gain), (colour, line) in zip(gains.items(), plot.LINES, strict=False):
            panel.plot(places, gain, line, color=colour, label=whose)
            for place, value in zip(places, gain, strict=True):
                panel.annotate(number(value), (place, value), **look, color=colour)
        panel.set_title(f"{ladder.name}: times the first value", loc="left", fontsize="medium")
        panel.set_yscale("log", base=2)
        panel.margins(y=0.25)
        panel.set_xticks(places, ["all faults", *(f"{step.lab}\nfixed" for step in ladder.steps)])

    title = "; ".join(ladder.name for ladder in found)
    return plot.picture(title, found, draw, height=2.4, share=False)
