"""Page: the report of one run, in one self-contained HTML file.

Its content comes from `run.json`, the timeline and the pictures in the run's folder.
"""

import base64
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from faultlab.core import paths
from faultlab.core.errors import BadInput, CannotRun
from faultlab.core.terminal import Terminal
from faultlab.lab.numbers import names
from faultlab.report import history, judge, plot
from faultlab.report.history import Line
from faultlab.run import judge_error, series
from faultlab.run.phase import CHECK, FIXED, LATER, PHASES, Phase
from faultlab.run.readings import Measured, sentences
from faultlab.run.record import READY, Record, span
from faultlab.run.series import Chart
from faultlab.run.timeline import FILE as TIMELINE

FILE = "report.html"
_FOLDER = Path(__file__).parent
_ROOM = 700_000  # bytes of pictures that a page embeds; the rest are only named


@dataclass(frozen=True)
class Band:
    """A part of the run: `well`, `ill`, or `tried` for what came after the main walk."""

    begin: float
    end: float
    kind: str


@dataclass(frozen=True)
class Mark:
    """A moment that is drawn in every chart."""

    t: float
    text: str


@dataclass(frozen=True)
class PageOfRun:
    """The page of a run."""

    run: str
    file: str
    bytes: int


def show(term: Terminal, run_id: str | None) -> PageOfRun:
    """Write the report of a run, or of the newest one. Raises BadInput if it cannot be read."""
    if run_id is None:
        newest = [i for name in names() for i in Record.ids(name)[:1]]
        if not newest:
            raise BadInput("No run is recorded yet.", "make lab-mtu")
        run_id = max(newest)
    ran = judge.measured(run_id)
    file = ran.record.folder / FILE
    with term.step("report", f"writing {run_id}") as step:
        file.write_text(html(ran))
        step.done(f"{paths.show(file)} ({file.stat().st_size / 1000:.0f} kB)")
    term.say("Open it in a browser; it needs no network.")
    return PageOfRun(run_id, str(file), file.stat().st_size)


def html(ran: Measured) -> str:
    """Return the page of a run."""
    samples = series.read(ran.record.folder / TIMELINE)
    looks = _looks_of_learner(ran.record)
    grid = series.seconds(samples, looks)
    charts = [*met(ran, grid), *series.charts(samples, looks)] if grid else []
    stretches = bands(ran.record, ran.lab.control, grid[-1] if grid else 0.0)
    lines = history.lines(ran)
    pictures, left_out = _pictures(ran)
    phases = _shown(ran)
    return render(
        "page.html",
        lab=ran.lab,
        ran=ran,
        facts=ran.record.facts,
        came_to=history.came_to(ran.record),
        where=history.where(ran.record.facts),
        phases=phases,
        last=phases[-1] if phases and phases[-1].of_examinee else None,
        works={phase: all(found.holds for found in ran.good(phase)) for phase in phases},
        says={phase: sentences(ran.good(phase)) for phase in phases},
        lead=lead(lines),
        measures=[line for line in lines if line.kind == "measure"],
        evidence=_evidence(ran, lines),
        broke=_steps(ran.record, "inject"),
        mended=_steps(ran.record, "fix"),
        moments=list(history.moments(ran.record.events)),
        bands=stretches,
        end=stretches[-1].end if stretches else 0,
        learner=ran.record.happened(READY),
        charts=[(chart, numbers(chart, grid, stretches)) for chart in charts],
        pictures=pictures,
        left_out=left_out,
        data=_data(grid, charts, stretches, marks(ran.record, ran.lab.control)),
    )


def render(template: str, **facts: Any) -> str:
    """Return a page from a template in this folder, with the assets embedded."""
    import jinja2  # slow to import
    from markdown_it import MarkdownIt
    from markupsafe import Markup

    loader = jinja2.FileSystemLoader(_FOLDER)
    made = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined)
    made.globals["asset"] = lambda name: (_FOLDER / name).read_text()
    made.globals["judge_error"] = judge_error.said()
    made.filters["markdown"] = lambda text: Markup(MarkdownIt("commonmark").render(text))
    return str(made.get_template(template).render(**facts))


def _data(
    grid: Sequence[float], charts: Sequence[Chart], stretches: Sequence[Band], at: Sequence[Mark]
) -> str:
    """Return the data of the page's script. It has no `<`, so no text can end the script."""
    document = {"seconds": grid, "charts": charts, "bands": stretches, "marks": at}
    text = json.dumps(document, default=asdict, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def _shown(ran: Measured) -> list[Phase]:
    """Return the phases of the main walk, and after a learner's run the last look of theirs."""
    found = [phase for phase in PHASES if phase in ran.phases]
    last = [phase for phase in (LATER, CHECK) if phase in ran.phases]
    return found if FIXED in found else [*found, *last[:1]]


def _looks_of_learner(record: Record) -> list[float]:
    """Return when each look of a learner began and ended; most often no counters were read then."""
    looks = [event for event in main_walk(record) if _is_look(event)]
    return [t for event in looks for t in span(event)]


def _is_look(event: Mapping[str, Any]) -> bool:
    return event["event"] == "measured" and event.get("phase") in (CHECK, LATER)


def _values(ran: Measured) -> Iterator[tuple[dict[str, Any], dict[str, float]]]:
    """Yield each event of a look, with what users met then.

    The reading of a phase that is measured again is that of its last look. What an earlier look of
    a learner found is in the event that follows it.
    """
    events = ran.record.events
    last = {event["phase"]: event for event in events if event["event"] == "measured"}
    for event, following in zip(events, [*events[1:], {}], strict=True):
        if event["event"] != "measured" or event["phase"] not in ran.phases:
            continue
        if "found" in following and _is_look(event):
            yield event, following["found"]
        elif not _is_look(event) or event is last[event["phase"]]:
            yield event, {finding.name: finding.value for finding in ran.good(event["phase"])}


def met(ran: Measured, grid: Sequence[float]) -> list[Chart]:
    """Return a chart for each measure that users met: its value while each phase was measured."""
    charts: dict[str, Chart] = {}
    about = "what users met, while it was measured"
    units = {finding.name: finding.unit for phase in ran.phases for finding in ran.good(phase)}
    for event, values in _values(ran):
        for name, value in values.items():
            chart = charts.setdefault(name, Chart(name, units.get(name, ""), about))
            line = chart.lines.setdefault("measured", [None] * len(grid))
            begin, end = span(event)
            within = [i for i, t in enumerate(grid) if begin <= t <= end]
            nearest = min(range(len(grid)), key=lambda i, end=end: abs(grid[i] - end))  # type: ignore[misc]
            for i in within or [nearest]:
                line[i] = float(f"{value:.4g}") if math.isfinite(value) else None
    return [chart for chart in charts.values() if any(chart.lines["measured"])]


def main_walk(record: Record) -> list[dict[str, Any]]:
    """Return the events until the fix; what was tried later began with a fresh stack."""
    events: list[dict[str, Any]] = record.events
    ends = [i for i, e in enumerate(events) if e["event"] == "measured" and e.get("phase") == FIXED]
    return events[: ends[0] + 1] if ends else [e for e in events if e["event"] != "down"]


def bands(record: Record, control: bool, watched: float = 0.0) -> list[Band]:
    """Divide a run: healthy until the fault came, faulty until the last repair, then healthy.

    What was tried later is the last band. A control is healthy all the time. `watched`: the second
    of the last sample, because a learner's run continues after its last event.
    """
    walk = main_walk(record)
    if not walk:
        return []
    end = walk[-1]["t"]
    broke = next((e["t"] for e in walk if e["event"] == "inject"), end)
    mended = next((e["t"] for e in reversed(walk) if e["event"] == "fix"), _repaired(walk) or end)
    during = "well" if control else "ill"
    found = [Band(0.0, broke, "well"), Band(broke, mended, during), Band(mended, end, "well")]
    last = max(record.events[-1]["t"], watched if record.happened(READY) else 0.0)
    later = len(record.events) > len(walk) + 1 or record.happened(READY)
    if last > end and later:
        found.append(Band(end, last, "tried"))
    return [band for band in found if band.end > band.begin]


def _repaired(walk: Iterable[dict[str, Any]]) -> float | None:
    """Return when the look began that found a learner's repair, unless a later one refuted it."""
    began = found = None
    for event in walk:
        if _is_look(event):
            began = span(event)[0]
        elif event["event"] in (CHECK, LATER):
            found = (began if found is None else found) if event.get("fixed") else None
    return found


def marks(record: Record, control: bool) -> list[Mark]:
    """Return the moments of the main walk; a control has no fault. Several repairs are numbered."""
    injected, proven, fixed = (
        ("set up", "still well", "put back") if control else ("injected", "symptom proven", "fixed")
    )
    found: list[Mark] = []
    walk = main_walk(record)
    several = sum(event["event"] == "fix" for event in walk) > 1
    for event in walk:
        match event["event"], event.get("phase"):
            case "measured", "healthy":
                found.append(Mark(span(event)[0], "healthy"))
            case "inject", _:
                found.append(Mark(event["t"], injected))
            case "measured", "faulty":
                found.append(Mark(event["t"], proven))
            case "fix", _:
                before = sum(mark.text.startswith(fixed) for mark in found)
                found.append(Mark(event["t"], f"{fixed} {before + 1}" if several else fixed))
            case (("check" | "later" | "hint"), _):
                found.append(Mark(event["t"], history.result(event)))
    return found


def lead(lines: Sequence[Line]) -> Line | None:
    """Return the first measure that tells the phases apart; a control's has one limit only."""
    telling = [line for line in lines if line.kind == "measure" and line.well != line.ill]
    return next(iter(telling), None)


def numbers(
    chart: Chart, grid: Sequence[float], stretches: Sequence[Band]
) -> list[tuple[str, list[str]]]:
    """Return the median of each line in each of the first three parts, as text."""
    rows = []
    for name, line in chart.lines.items():
        medians = [series.between(grid, line, band.begin, band.end) for band in stretches[:3]]
        rows.append((name, ["-" if value is None else f"{value:,.4g}" for value in medians]))
    return rows


def _evidence(ran: Measured, lines: Sequence[Line]) -> list[tuple[Line, Any]]:
    by_name = {item.name: item for item in ran.check.evidence}
    return [(line, by_name[line.name]) for line in lines if line.kind == "evidence"]


def _steps(record: Record, what: str) -> list[str]:
    """Return the commands of these events of the main walk, one by one."""
    made = [event for event in main_walk(record) if event["event"] == what]
    return [history.typed(step) for event in made for step in event.get("steps", [])]


def _pictures(ran: Measured) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the run's flame graphs and its sweep as title and data, and what is not shown."""
    drawn = [
        (f"flame graph: {event['file']}", ran.record.folder / event["file"])
        for event in ran.record.events
        if event["event"] == "flame" and event.get("file")
    ]
    texts = [(title, file.read_text()) for title, file in drawn if file.is_file()]
    kept: list[tuple[str, str]] = []
    left_out: list[str] = []
    if plot.sweeps(ran.record):
        try:
            texts.append(("sweep", plot.svg(plot.find(ran.record.id))))
        except CannotRun as problem:
            left_out.append(f"The sweep is not drawn: {problem.message} Next: {problem.hint}")
    room = _ROOM
    for title, text in texts:
        data = base64.b64encode(text.encode()).decode()
        if len(data) > room:
            left_out.append(f"Too large for this page: {title}, in the run's folder.")
            continue
        room -= len(data)
        kept.append((title, data))
    return kept, left_out
