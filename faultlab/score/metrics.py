"""Metrics: what each tool caught, named and missed in its trials, and its false alarms."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from faultlab.core.statistics import Share, median
from faultlab.lab import loader as labs
from faultlab.lab.model import Lab
from faultlab.run.phase import FAULTY, PHASES
from faultlab.score import tool as tools
from faultlab.score.diagnosis import Diagnosis
from faultlab.score.results import ALONE, CROWD, Results, Trial, Way
from faultlab.score.tool import Detects

ALWAYS, NEVER = "always-alarm", "never-alarm"
BASELINES = (ALWAYS, NEVER)
GUESSES = 3  # a tool that names more causes has named none

T = TypeVar("T")
Caught = Literal["named", "caught", "part", "missed", "unknown", "absent", "quiet", "cried"]
LETTERS: dict[Caught, str] = {
    "named": "N",
    "caught": "c",
    "part": "p",
    "missed": "·",
    "unknown": "?",
    "absent": " ",
    "quiet": "·",
    "cried": "!",
}
LEGEND = (
    "N caught every time, its cause named   c caught every time   p now and then",
    "· silent   ! alarm where nothing is wrong   ? no diagnosis   blank: not looked at",
)


@dataclass(frozen=True)
class ToolRow:
    """One tool over all trials: shares of those in which it gave a diagnosis.

    `false`: alarms on controls, before the fault and after the fix. `seconds`: the median time from
    the proof of the symptom to the first alarm; None if it caught nothing.
    """

    tool: str
    detects: Share
    cause: Share
    component: Share
    false: Share
    seconds: float | None
    unknown: int
    absent: int

    @property
    def informed(self) -> float | None:
        """Return detection less false alarms, in percent (Youden's J); a guess scores 0."""
        if self.detects.percent is None or self.false.percent is None:
            return None
        return self.detects.percent - self.false.percent


@dataclass(frozen=True)
class Cell:
    """One tool on one lab: its result in the faulty trials, and its false alarms."""

    tool: str
    lab: str
    caught: Caught
    detected: Share
    false: Share
    runs: tuple[str, ...]
    silent: int = 0  # looks at the fault that ended without a diagnosis

    @property
    def letters(self) -> str:
        """Return two characters: what it caught, and `!` for alarms without the fault."""
        cried = self.false.happened and self.caught != "cried"
        return LETTERS[self.caught] + ("!" if cried else " ")


@dataclass(frozen=True)
class Disagreement:
    """A tool did not do what its tool.toml expects."""

    tool: str
    lab: str
    expected: Detects
    found: Share
    why: str

    @property
    def text(self) -> str:
        """Return it as one line."""
        return f"{self.tool} on {self.lab}: {self.expected}, alarm {self.found.text}"


def of_way(results: Results, way: Way) -> Results:
    """Return the trials of today's tools that were made in one way, without floors and agents.

    Nor those at a severity that no user feels: there silence is right, and so is an alarm.
    """
    return results.only(
        lambda t: (
            t.way == way
            and t.phase in PHASES
            and t.agent is None
            and results.current(t)
            and not labs.loaded(t.lab).silent
        )
    )


def headline(results: Results) -> Way:
    """Return the way that the figures are about: alone, if each tool of a crowd also looked so."""
    alone, crowd = ({key[0] for key in of_way(results, way).trials} for way in (ALONE, CROWD))
    return ALONE if alone and crowd <= alone else CROWD


def rows(results: Results) -> list[ToolRow]:
    """Return a row for each tool, the best informed first and the baselines last."""
    by_tool = grouped(results.trials.values(), lambda trial: trial.tool)
    found = [_row(tool_id, trials) for tool_id, trials in by_tool.items()]
    return sorted(found, key=lambda row: (row.tool in BASELINES, -(row.informed or 0), row.tool))


def _row(tool_id: str, trials: Sequence[Trial]) -> ToolRow:
    _, faulty, detected, false = _split(trials)
    caught = [
        (trial, trial.diagnosis) for trial in faulty if trial.diagnosis and trial.diagnosis.alarm
    ]
    return ToolRow(
        tool=tool_id,
        detects=detected,
        cause=Share(len(caught), sum(names_cause(labs.loaded(t.lab), v) for t, v in caught)),
        component=Share(
            len(caught), sum(names_component(labs.loaded(t.lab), v) for t, v in caught)
        ),
        false=false,
        seconds=median([v.seconds for _, v in caught]),
        unknown=sum(trial.kind == "unknown" for trial in trials),
        absent=sum(trial.kind == "absent" for trial in trials),
    )


def names_cause(lab: Lab, diagnosis: Diagnosis) -> bool:
    """Return whether it names the lab's cause among its few; of several faults any one counts."""
    right = {truth.cause for truth in labs.truths(lab)}
    return len(diagnosis.causes) <= GUESSES and not right.isdisjoint(diagnosis.causes)


def names_component(lab: Lab, diagnosis: Diagnosis) -> bool:
    """Return whether it names the machine at fault, or a daemon on it."""
    on = lab.services.daemons
    named, true = diagnosis.component, lab.truth.component
    return on.get(named, named) == on.get(true, true)


def cells(results: Results) -> dict[str, dict[str, Cell]]:
    """Return the cells by lab and tool."""
    by_lab = grouped(results.trials.values(), lambda trial: trial.lab)
    return {
        lab_id: {
            tool_id: _cell(tool_id, lab_id, trials)
            for tool_id, trials in grouped(each, lambda trial: trial.tool).items()
        }
        for lab_id, each in sorted(by_lab.items())
    }


def _cell(tool_id: str, lab_id: str, trials: Sequence[Trial]) -> Cell:
    told, faulty, detected, false = _split(trials)
    caught: Caught
    if not told:
        caught = "absent" if all(trial.kind == "absent" for trial in trials) else "unknown"
    elif labs.loaded(lab_id).control:
        caught = "cried" if false.happened else "quiet"
    elif not faulty:  # no faulty trial yet, or none with a diagnosis
        caught = "unknown" if any(has_fault(trial) for trial in trials) else "absent"
    elif not detected.happened:
        caught = "missed"
    elif detected.happened < detected.of:
        caught = "part"
    else:
        named = sum(names_cause(labs.loaded(lab_id), t.diagnosis) for t in faulty if t.diagnosis)
        caught = "named" if 2 * named > len(faulty) else "caught"
    runs = tuple(dict.fromkeys(trial.run for trial in trials if trial.run))
    silent = sum(has_fault(trial) for trial in trials if trial.kind == "unknown")
    return Cell(tool_id, lab_id, caught, detected, false, runs, silent)


def disagreements(
    results: Results, examined: Sequence[tools.Tool] | None = None
) -> list[Disagreement]:
    """Return where a tool did not do what is expected of it. Default: each tool of this project."""
    every = [tools.load(tool_id) for tool_id in tools.ids()] if examined is None else examined
    known = {tool.id: tool for tool in every}
    found = []
    for lab_id, each in cells(results).items():
        for tool_id, cell in each.items():
            entry = known[tool_id].expected(lab_id) if tool_id in known else None
            if entry is None:
                continue
            share = cell.false if labs.loaded(lab_id).control else cell.detected
            if entry.detects == "must":  # a tool that does not start catches nothing
                share = Share(share.of + cell.silent, share.happened)
            if not share.of:
                continue
            must_fail = entry.detects == "must" and share.happened < share.of
            if must_fail or (entry.detects == "miss" and share.happened):
                found.append(Disagreement(tool_id, lab_id, entry.detects, share, entry.why))
    return found


def unknowns(results: Results) -> dict[tuple[str, str], int]:
    """Return why tools gave no diagnosis, and how often."""
    silent = [trial for trial in results.trials.values() if trial.kind == "unknown"]
    return Counter((trial.tool, trial.reason) for trial in silent)


def _split(trials: Iterable[Trial]) -> tuple[list[Trial], list[Trial], Share, Share]:
    """Return the diagnoses, those of faults, and the shares of alarms in these and the others."""
    told = [trial for trial in trials if trial.kind == "diagnosis"]
    faulty = [trial for trial in told if has_fault(trial)]
    return told, faulty, alarms(faulty), alarms(trial for trial in told if not has_fault(trial))


def alarms(trials: Iterable[Trial]) -> Share:
    """Return the share of trials with an alarm."""
    counted = [trial.alarm for trial in trials]
    return Share(len(counted), sum(counted))


def has_fault(trial: Trial) -> bool:
    """Return whether something was wrong while the tool looked."""
    return trial.phase == FAULTY and not labs.loaded(trial.lab).control


def grouped(things: Iterable[T], key: Callable[[T], str]) -> dict[str, list[T]]:
    """Return lists of things by their key, in the order in which the keys come."""
    found: dict[str, list[T]] = {}
    for thing in things:
        found.setdefault(key(thing), []).append(thing)
    return found
