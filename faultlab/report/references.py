"""References: figures of recorded runs beside those of the sources, and beside the limits."""

from collections.abc import Sequence
from contextlib import suppress
from operator import attrgetter
from typing import Any

from faultlab.core.errors import BadInput, CannotRun
from faultlab.core.text import number
from faultlab.lab import checks
from faultlab.lab import load as labs
from faultlab.lab.check import Check, Measure
from faultlab.lab.model import Figure, Lab
from faultlab.report.comparison import Compared, Limited
from faultlab.run.phase import FAULTY, FIXED, HEALTHY, PHASES, only
from faultlab.run.readings import Measured
from faultlab.run.record import Record


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
        limits += [_limit(ran, measure) for measure in _telling(check)]
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
