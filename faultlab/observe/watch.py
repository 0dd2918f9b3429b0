"""Watch: the few numbers that matter for a lab, live, from the machines of its stack.

They were found when the lab was started: the lines of its timeline that differ most between the
healthy and the faulty phase.
"""

import math
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from rich.live import Live
from rich.table import Table

from faultlab.core.errors import BadInput, CannotRun
from faultlab.core.naming import stack_name
from faultlab.core.terminal import Terminal
from faultlab.core.text import number
from faultlab.engine.stack import Stack
from faultlab.run import placement, series
from faultlab.run.background_load import traffic
from faultlab.run.phase import FAULTY, HEALTHY
from faultlab.run.record import Record, span
from faultlab.run.run import Run
from faultlab.run.series import Samples
from faultlab.run.timeline import FILE, Timeline

_MOST = 8  # lines on the screen
_KEPT = 60.0  # seconds in a spark line
_EVERY = 1.0
_PLAIN_EVERY = 2.0  # seconds between lines of plain output
_BARS = "▁▂▃▄▅▆▇█"
_WIDTH = 28
_LEAST = 8


@dataclass(frozen=True)
class Number:
    """One line: its value now, and its earlier values, the oldest first."""

    chart: str
    name: str
    unit: str
    value: float | None
    before: list[float | None]

    @property
    def title(self) -> str:
        """Return a title such as `Network: web out`."""
        return f"{self.chart}: {self.name}"

    @property
    def text(self) -> str:
        """Return the value with its unit."""
        return "-" if self.value is None else number(float(f"{self.value:.3g}"), self.unit)


@dataclass(frozen=True)
class Watched:
    """The last numbers of a lab that was watched."""

    lab: str
    numbers: list[Number]


def watch(term: Terminal, lab_id: str, seconds: float | None, load: bool) -> Watched:
    """Show the numbers until Ctrl-C or for some seconds. Raises CannotRun if the lab goes away."""
    if seconds is not None and not 1 <= seconds <= 3600:
        raise BadInput(f"--seconds takes 1 to 3600, not {seconds:g}.", f"faultlab watch {lab_id}")
    lab = placement.standing(lab_id)
    run = Run.attach(placement.up(lab.alias), lab)
    chosen = telling(run.record)
    samples = _Live()
    end = time.monotonic() + (seconds if seconds is not None else math.inf)
    timeline = Timeline(run.stack, lab.services, run.record, samples.hear)
    try:
        timeline.start()
        made = traffic(lambda: run.check.look(run.stack), end) if load else nullcontext()
        with made, _screen(term) as draw:
            pause = _EVERY if term.console.is_terminal else _PLAIN_EVERY
            while time.monotonic() < end:
                time.sleep(max(0.0, min(pause, end - time.monotonic())))
                if not Stack(run.engine, stack_name(lab.alias)):
                    raise CannotRun(f"{lab.alias} is not up any more.", lab.to_start)
                draw(numbers(samples.now(), chosen))
    except KeyboardInterrupt:
        pass  # the usual way to end it
    finally:
        timeline.stop()
        run.stack.release()
    return Watched(lab.alias, list(numbers(samples.now(), chosen)))


class _Live:
    """The samples of the last minute, written by one thread and read by another."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._samples: Samples = {}

    def hear(self, sample: dict[str, Any]) -> None:
        """Store a sample, and drop those that are too old for the screen."""
        with self._guard:
            kept = [
                s for s in self._samples.get(sample["machine"], []) if s["t"] > sample["t"] - _KEPT
            ]
            self._samples[sample["machine"]] = [*kept, sample]

    def now(self) -> Samples:
        """Return all stored samples."""
        with self._guard:
            return {machine: list(each) for machine, each in self._samples.items()}


def telling(record: Record) -> list[tuple[str, str]]:
    """Return chart and name of the lines that differ most between the first two phases.

    If the run has no timeline of both phases, all lines count alike.
    """
    samples = series.read(record.folder / FILE)
    grid, charts = series.seconds(samples), series.charts(samples)
    spans = [_span(record, phase) for phase in (HEALTHY, FAULTY)]
    found: list[tuple[float, str, str]] = []
    for chart in charts:
        for name, line in chart.lines.items():
            if name.partition(" ")[0] == "client" or chart.title.startswith("Processors of"):
                continue  # the load, and what is not this lab's own
            well, ill = (series.between(grid, line, *span) if span else None for span in spans)
            found.append((_difference(well, ill), chart.title, name))
    found.sort(key=lambda each: -each[0])
    return [(title, name) for _, title, name in found[:_MOST]]


def _span(record: Record, phase: str) -> tuple[float, float] | None:
    for event in record.events:
        if event["event"] == "measured" and event.get("phase") == phase:
            return span(event)
    return None


def _difference(well: float | None, ill: float | None) -> float:
    """Return their ratio as a logarithm; 1 is added, because a counter at rest is 0."""
    if well is None or ill is None:
        return 0.0
    return abs(math.log((ill + 1) / (well + 1)))


def numbers(samples: Samples, chosen: Sequence[tuple[str, str]]) -> list[Number]:
    """Return the chosen lines as they are now; all lines if none was chosen."""
    charts = {chart.title: chart for chart in series.charts(samples)}
    if not chosen:
        chosen = [(c.title, name) for c in charts.values() for name in c.lines][:_MOST]
    found = []
    for title, name in chosen:
        chart = charts.get(title)
        line = chart.lines.get(name, []) if chart else []
        known = [value for value in line if value is not None]
        unit = series.unit(title)
        resting = 0.0 if samples else None  # a line that is always 0 is not in its chart
        found.append(Number(title, name, unit, known[-1] if known else resting, line))
    return found


def spark(line: Sequence[float | None], width: int = _WIDTH) -> str:
    """Return bars for the last values, from 0 to the largest of them."""
    shown = list(line)[-width:]
    high = max((value for value in shown if value is not None), default=0.0)
    if high <= 0:
        return ("".join(" " if value is None else _BARS[0] for value in shown)).rjust(width)
    top = len(_BARS) - 1
    bars = [" " if v is None else _BARS[max(0, min(top, round(top * v / high)))] for v in shown]
    return "".join(bars).rjust(width)


@contextmanager
def _screen(term: Terminal) -> Iterator[Any]:
    """Show a table that stays in its place, or plain lines where the cursor cannot move."""
    if term.as_json:
        yield lambda _found: None
    elif term.console.is_terminal:
        with Live(console=term.console, auto_refresh=False) as live:
            width = term.console.width
            yield lambda found: live.update(_table(found, width), refresh=True)
    else:
        began = time.monotonic()

        def lines(found: Sequence[Number]) -> None:
            for each in found:
                term.say(f"{time.monotonic() - began:5.0f} s  {each.title:<50} {each.text:>18}")

        yield lines


def _table(found: Sequence[Number], width: int) -> Table:
    """Return the table of the screen. Values are whole; a title is cut where it must be."""
    value = max((len(each.text) for each in found), default=0)
    title = max((len(each.title) for each in found), default=0)
    bars = max(_LEAST, min(_WIDTH, width - value - title - 2))  # 1 between two columns
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="bold")
    table.add_column("now", no_wrap=True, max_width=width - value - bars - 2)
    table.add_column("", justify="right", no_wrap=True, min_width=value)
    table.add_column("the last seconds"[:bars], no_wrap=True, min_width=bars)
    for each in found:
        table.add_row(each.title, each.text, spark(each.before, bars))
    return table
