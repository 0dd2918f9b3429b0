"""Story: a recorded run as a person would tell it: what happened when, and what was measured."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from faultlab.core.errors import BadInput
from faultlab.core.terminal import Terminal
from faultlab.core.text import number
from faultlab.lab import loader as labs
from faultlab.lab.model import Limit, Truth
from faultlab.report import judge
from faultlab.run.phase import CHECK, LATER, PHASES
from faultlab.run.readings import Measured
from faultlab.run.record import READY, Record


@dataclass(frozen=True)
class Moment:
    """An event, and the seconds since the run began."""

    t: float
    event: str
    text: str


@dataclass(frozen=True)
class Line:
    """A measure or evidence in each phase, beside its limits; unmeasured values are empty.

    `kind`: `measure` or `evidence`. `well`: the limit that must hold while the stack is healthy,
    empty for evidence. `ill`: the limit that must hold while the fault is present.
    """

    kind: str
    name: str
    values: dict[str, str]
    well: str
    ill: str


@dataclass(frozen=True)
class Summary:
    """A recorded run in one line."""

    run: str
    engine: str
    came_to: str
    seconds: str


@dataclass(frozen=True)
class Runs:
    """The newest runs, and how many there are."""

    runs: list[Summary]
    recorded: int


@dataclass(frozen=True)
class Story:
    """A run: its moments, its measures, and its tests."""

    run: str
    lab: str
    came_to: str
    moments: list[Moment]
    lines: list[Line]
    tests: list[dict[str, str]]


def runs(term: Terminal, lab_id: str | None, most: int) -> Runs:
    """List the recorded runs, the newest first."""
    if lab_id is not None:
        labs.known(lab_id)
    if most < 1:
        raise BadInput("--last takes a number from 1 up.", "faultlab runs --help")
    found = Record.ids(lab_id or "")
    rows = [_summary(run_id) for run_id in found[:most]]
    if not rows:
        term.say("No run is recorded yet.")
    else:
        cells = [(row.run, row.engine, row.came_to, row.seconds) for row in rows]
        term.table(("run", "engine", "came to", "seconds"), cells)
        if len(found) > most:
            term.say(f"{len(found) - most} older ones: --last {len(found)}")
    return Runs(rows, len(found))


def _summary(run_id: str) -> Summary:
    try:
        record = Record.read(run_id)
    except BadInput as problem:
        return Summary(run_id, "", problem.message, "")
    events = record.events
    seconds = number(events[-1]["t"]) if events else ""
    return Summary(run_id, str(record.facts.get("engine", "")), came_to(record), seconds)


def came_to(record: Record) -> str:
    """Return how a run ended: its verdict, or the last phase that it reached."""
    if record.verdict:
        return record.verdict
    if record.happened(READY):
        return "started for a learner"
    phases = list(record.readings)
    return f"{phases[-1]}, not judged" if phases else "nothing measured"


def show(term: Terminal, run_id: str) -> Story:
    """Print the story of a run. Raises BadInput: lost, damaged, or its lab no longer exists."""
    ran = judge.measured(run_id)
    facts = ran.record.facts
    term.heading(f"{ran.lab.id}: {ran.lab.title}")
    term.say(f"{run_id}: {came_to(ran.record)}")
    term.say(where(facts))
    term.say()
    told = list(moments(facts["events"]))
    term.table(
        ("second", "", ""), [(f"{moment.t:6.1f}", moment.event, moment.text) for moment in told]
    )
    table = lines(ran)
    phases = [phase for phase in PHASES if phase in ran.phases] or ran.phases[:1]
    for kind, title in (("measure", "measured"), ("evidence", "evidence")):
        rows = [line for line in table if line.kind == kind]
        if rows:
            term.say()
            term.table((title, *phases, "good", "bad"), [_cells(row, phases) for row in rows])
    for test in facts["tests"]:
        if test["verdict"] != "pass":
            term.say(f"{test['verdict']}: {test['test']}: {test['text']}")
    return Story(run_id, ran.lab.id, came_to(ran.record), told, table, facts["tests"])


def _cells(line: Line, phases: Sequence[str]) -> list[str]:
    return [line.name, *(line.values.get(phase, "-") for phase in phases), line.well, line.ill]


def where(facts: dict[str, Any]) -> str:
    """Return when and where a run took place, in one line."""
    began, slot = datetime.fromisoformat(facts["started"]), facts.get("slot")
    parts = [
        f"{began:%Y-%m-%d %H:%M:%S} UTC",
        f"engine {facts.get('engine', '?')}",
        f"kernel {facts.get('kernel', '?')}",
        f"Docker {facts.get('docker', '?')}",
        f"cgroup v{facts.get('cgroup', '?')}",
        f"{facts.get('cpus', '?')} processors" + (f", slot {slot}" if slot else ""),
        f"commit {facts.get('commit') or '?'}",
    ]
    return ", ".join(parts)


def moments(events: Iterable[dict[str, Any]]) -> Iterator[Moment]:
    """Yield the moments of a run in the order of its events."""
    for event in events:
        name = event["event"]
        if name == "measured":
            yield Moment(event["t"], event.get("phase", ""), "measured")
        elif name == "undecided":
            text = f"looked again: {event.get('text', '')}"
            yield Moment(event["t"], event.get("phase", ""), text)
        elif name in (CHECK, LATER, "hint", "answer"):
            yield Moment(event["t"], name, result(event))
        else:
            steps = event.get("steps", [])
            yield Moment(event["t"], name, "; ".join(typed(step) for step in steps))


def result(event: dict[str, Any]) -> str:
    """Return what came of a learner's check, hint or answer."""
    match event["event"]:
        case "hint":
            return f"hint {event.get('number', '?')}"
        case "answer":
            sure = [f"{event['sure']}% sure"] if "sure" in event else []
            return ", ".join([*(str(event.get(part, "?")) for part in Truth.model_fields), *sure])
    if not event.get("fixed"):
        return "did not last" if event["event"] == LATER else "not fixed"
    return "fixed, looked at again later" if event.get(LATER) else "fixed"


def typed(step: dict[str, Any]) -> str:
    """Return a step of an injection or a repair as an engineer would type it."""
    at = step.get("at", "?")
    if step.get("run"):
        return f"{at}# {step['run']}"
    if step.get("limit"):
        return f"$ docker update {Limit(**step['limit']).flags} …-{at}"
    return f"$ docker restart …-{at}"


def lines(ran: Measured) -> list[Line]:
    """Return every measure and all evidence, with what each phase measured."""
    found: dict[tuple[str, str], Line] = {}
    for phase in ran.phases:
        for kind, findings, limit in (
            ("measure", ran.good(phase), "well"),
            ("measure", ran.bad(phase), "ill"),
            ("evidence", ran.evident(phase), "ill"),
        ):
            for finding in findings:
                line = found.setdefault((kind, finding.name), Line(kind, finding.name, {}, "", ""))
                line.values[phase] = number(finding.value, finding.unit)
                found[kind, finding.name] = Line(**{**vars(line), limit: finding.wanted})
    return list(found.values())
