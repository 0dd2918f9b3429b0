"""Plot: the sweep of a run as a picture, one self-contained SVG, drawn by matplotlib.

A sweep is the field `sweep` of a lab's look: a list of points, all of them numbers, the first of
which is the load. Each other number becomes a panel, and each phase of the run a line in it. So any
lab that measures a sweep has a picture.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from io import StringIO
from typing import Any, TypeAlias, TypeVar

from pydantic import TypeAdapter, ValidationError

from faultlab.core import extra, paths
from faultlab.core.errors import BadInput
from faultlab.core.terminal import Terminal
from faultlab.lab import loader as labs
from faultlab.run.phase import Phase
from faultlab.run.record import Record

FILE = "sweep.svg"
_INK = "#24292f"
# The reader's browser says whether the page is dark; the background is transparent.
_STYLE = (
    "<style>svg {{ color: {ink} }}"
    " @media (prefers-color-scheme: dark) {{ svg {{ color: #e6edf3 }} }}</style>"
)
# Different in colour and in shape; each colour is readable on white and on black.
LINES = (("#1a9a6c", "o-"), ("#d9602b", "s-"), ("#3d85d1", "^--"), ("#a05cc0", "D:"))
_PERCENT = "_percent"
_UNITS = (("_per_second", "/s"), (_PERCENT, " (%)"), ("_seconds", " (s)"), ("_", " "))

Points = list[dict[str, float]]
Axes: TypeAlias = Any  # of matplotlib, which is slow to import, so it is imported only to draw
P = TypeVar("P")


@dataclass(frozen=True)
class Sweep:
    """The measurements of a run under a growing load, for each phase."""

    run: str
    lab: str
    phases: dict[str, Points]

    @property
    def load(self) -> str:
        """Return the name of the number that grows from point to point."""
        return next(iter(self._first))

    @property
    def panels(self) -> list[str]:
        """Return the names of the numbers that depend on it and are not 0 everywhere."""
        points = [point for phase in self.phases.values() for point in phase]
        return [n for n in self._first if n != self.load and any(point[n] for point in points)]

    @property
    def loads(self) -> list[float]:
        """Return the loads at which it was measured."""
        return sorted({p[self.load] for phase in self.phases.values() for p in phase})

    @property
    def _first(self) -> dict[str, float]:
        return next(iter(self.phases.values()))[0]


@dataclass(frozen=True)
class Drawn:
    """The picture of a sweep."""

    run: str
    file: str
    phases: list[str]


def draw(term: Terminal, what: str, to: str | None) -> Drawn:
    """Draw the sweep of a run, or of the newest run of a lab that has one.

    Raises BadInput if there is no such run or lab, or if the run has no sweep or is damaged, and
    CannotRun without matplotlib.
    """
    _can_draw()
    sweep = find(what)
    file = paths.in_a_folder(to or str(paths.runs() / sweep.run / FILE))
    with term.step("plot", f"drawing {sweep.run}") as step:
        file.write_text(svg(sweep))
        step.done(paths.show(file))
    return Drawn(sweep.run, str(file), list(sweep.phases))


def find(what: str) -> Sweep:
    """Return the sweep of a run by its id, or the newest one of a lab. Raises BadInput."""
    if what in Record.ids():
        return _of_run(what)
    if not labs.here(what):
        raise BadInput(f"There is no run and no lab called {what!r}.", "faultlab runs")
    for run in Record.ids(what):
        found = Record.open(run)
        if found and sweeps(found):
            return _of_run(run)
    raise BadInput(f"No run of {what} holds a sweep.", f"make lab-{what}, if its check has one")


def _of_run(run: str) -> Sweep:
    found = Record.read(run)
    try:
        phases = TypeAdapter(dict[str, Points]).validate_python(sweeps(found))
        sweep = Sweep(run, found.lab, phases)
        names = {tuple(point) for points in phases.values() for point in points}
    except ValidationError as error:
        raise _damaged(run) from error
    if not phases:
        raise BadInput(f"The run {run} holds no sweep.", f"faultlab plot {sweep.lab}")
    if not all(phases.values()) or len(names) != 1 or not sweep.panels:
        raise _damaged(run)
    return sweep


def sweeps(found: Record) -> dict[str, Any]:
    """Return the `sweep` of each look in a record, of any type."""
    looks = {phase: reading.get("look") for phase, reading in found.readings.items()}
    return {
        phase: look["sweep"]
        for phase, look in looks.items()
        if isinstance(look, dict) and "sweep" in look and not Phase(phase).again
    }


def _damaged(run: str) -> BadInput:
    file = paths.show(paths.runs() / run / "run.json")
    return BadInput(f"The record of the run {run} is damaged.", f"less {file}")


def svg(sweep: Sweep) -> str:
    """Return the picture of a sweep, with a panel for each number. Raises CannotRun."""
    _can_draw()
    from matplotlib import ticker

    def draw(panel: Axes, name: str) -> None:
        for i, (phase, points) in enumerate(sweep.phases.items()):
            colour, line = LINES[i % len(LINES)]
            loads = [point[sweep.load] for point in points]
            panel.plot(loads, [point[name] for point in points], line, color=colour, label=phase)
        panel.set_title(words(name), loc="left", fontsize="medium")
        panel.set_ylim(bottom=0, top=105 if name.endswith(_PERCENT) else None)
        panel.yaxis.set_major_formatter(ticker.StrMethodFormatter("{x:,g}"))
        if sweep.loads[0] > 0:
            panel.set_xscale("log", base=2)
        panel.set_xticks(sweep.loads)
        panel.xaxis.set_major_formatter(ticker.StrMethodFormatter("{x:,g}"))
        if name == sweep.panels[-1]:
            panel.set_xlabel(f"{words(sweep.load)}   (run {sweep.run})")

    title = f"{sweep.lab}: {', '.join(map(words, sweep.panels))}"
    return picture(title, sweep.panels, draw, height=1.7)


def picture(
    title: str,
    panels: Sequence[P],
    draw: Callable[[Axes, P], None],
    *,
    height: float,
    share: bool = True,
) -> str:
    """Draw one panel below the other, each `height` inches; with `share` they share the x-axis.

    Text stays text and is readable on light and on dark. The same input gives the same SVG. Raises
    CannotRun.
    """
    _can_draw()
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # it reports on its font cache
    inked = "text.color axes.edgecolor axes.labelcolor grid.color xtick.color ytick.color"
    settings: Any = dict.fromkeys(inked.split(), _INK)
    settings |= {"svg.fonttype": "none", "svg.hashsalt": "faultlab", "font.family": "sans-serif"}
    with rc_context(settings):
        figure = Figure(figsize=(7, 0.9 + height * len(panels)), layout="constrained")
        axes = figure.subplots(len(panels), 1, sharex=share, squeeze=False)[:, 0]
        for axis, panel in zip(axes, panels, strict=True):
            draw(axis, panel)
            axis.grid(alpha=0.2)
            axis.spines[["top", "right"]].set_visible(False)
        lines, labels = axes[0].get_legend_handles_labels()
        figure.legend(lines, labels, loc="outside upper left", ncols=4, frameon=False)
        drawn = StringIO()
        figure.savefig(drawn, format="svg", transparent=True, metadata={"Date": None})
    return _open(drawn.getvalue(), title)


def _can_draw() -> None:
    extra.require("matplotlib", of="plot", what="Pictures need")


def words(name: str) -> str:
    """Return a name for people, such as `operations/s` for `operations_per_second`."""
    for short, text in _UNITS:
        name = name.replace(short, text)
    return name


def _open(drawn: str, title: str) -> str:
    """Add a title for screen readers, and let the ink follow the reader's colours."""
    head = drawn.index(">", drawn.index("<svg")) + 1
    named = f"\n <title>{escape(title)}</title>\n {_STYLE.format(ink=_INK)}"
    return drawn[:head] + named + drawn[head:].replace(_INK, "currentColor")
