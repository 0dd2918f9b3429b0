"""Rules: what a file of alert rules catches in a data set, and its false alarms."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from faultlab.core import document, paths
from faultlab.core.errors import BadInput, SaidNo
from faultlab.core.terminal import Terminal
from faultlab.core.text import markdown
from faultlab.data import evaluate, promql, rulefile, truth
from faultlab.data.evaluate import Fired
from faultlab.data.rulefile import Rule
from faultlab.data.truth import Truth

SCHEMA = 1
_NAMED = 6  # labs that a line names


@dataclass(frozen=True)
class Judged:
    """One alert. `caught`: the faults in which it fires, in every recording of them.

    `false`: a lab and a phase in which nothing is wrong, and where it fires in any recording.
    `counts`: false for severity info or none. `cut`: a range or a wait was longer than a recording.
    `lacking`: its metrics that no recording has. `untold`: why it was not tried; empty if it was.
    """

    alert: str
    caught: list[str]
    false: list[str]
    counts: bool = True
    cut: bool = False
    lacking: list[str] = field(default_factory=list)
    untold: str = ""


@dataclass(frozen=True)
class Change:
    """The differences from a baseline, among what both have seen."""

    lost: list[str]
    gained: list[str]
    new_false: list[str]
    ended_false: list[str]

    @property
    def worse(self) -> bool:
        """Return whether a fault is caught no more, or a false alarm is new."""
        return bool(self.lost or self.new_false)


@dataclass(frozen=True)
class Report:
    """All alerts of a file on a data set.

    `faults`: those that the data set has, `caught` those in which an alert fires. `sound`: each lab
    and phase in which nothing is wrong. `seconds`: that the trial took.
    """

    rules: list[Judged]
    faults: list[str]
    caught: list[str]
    sound: list[str]
    seconds: float
    schema: int = SCHEMA
    change: Change | None = None

    @property
    def false(self) -> list[str]:
        """Return each false alarm as its alert, lab and phase."""
        counted = (rule for rule in self.rules if rule.counts)
        return sorted({f"{rule.alert} in {where}" for rule in counted for where in rule.false})


def try_out(
    term: Terminal,
    file: Path,
    folder: Path,
    *,
    baseline: Path | None = None,
    json_file: Path | None = None,
    as_markdown: bool = False,
) -> Report:
    """Try the rules of a file on a data set, and print what they catch.

    Raises SaidNo if that is worse than a baseline, BadInput, CannotRun.
    """
    began = time.monotonic()
    rules, items = rulefile.read(file), truth.read(folder)
    if not items:
        raise BadInput(f"{folder} has no item.", f"faultlab dataset {folder}")
    before = read(baseline) if baseline else None
    doing = f"{len(rules)} rules on {len(items)} items"
    with nullcontext() if as_markdown else term.alive("rules", doing) as step:
        fired = evaluate.fire(folder, items, rules, step.note if step else lambda _: None)
    report = _report(rules, items, fired, round(time.monotonic() - began, 1))
    report = replace(report, change=compared(before, report) if before else None)
    if json_file:
        paths.write_whole(json_file, json.dumps(asdict(report), indent=1) + "\n")
    if as_markdown:
        term.markdown("\n".join(comment(report, file.name)))
    else:
        _show(term, report)
    if report.change and report.change.worse:
        again = f"faultlab rules {file} --dataset {folder} --json {baseline}"
        raise SaidNo(f"Worse than {baseline}: {_words(report.change)}.", f"to accept it: {again}")
    return report


def _report(rules: Sequence[Rule], items: Sequence[Truth], fired: Fired, seconds: float) -> Report:
    faults = sorted({each.lab for each in items if each.fault})
    sound = sorted({each.text for each in items if not each.fault})
    recorded = {rule.record for rule in rules}
    judged = []
    for place, rule in enumerate(rules):
        if not rule.alert:
            continue
        its = [evaluate.fitted(rule, item, 0.0) for item in items]
        where = {name for name, places in fired.items.items() if place in places}
        judged.append(
            Judged(
                rule.alert,
                caught=caught(items, where),
                false=sorted(
                    {each.text for each in items if not each.fault and each.item in where}
                ),
                counts=rule.counts,
                cut=any(fit.cut or new.wait < rule.wait for new, fit in its),
                lacking=sorted(promql.metrics(rule.text) - fired.metrics - recorded - {"*"}),
                untold=next((fit.untold for _, fit in its if fit.untold), ""),
            )
        )
    found = sorted({lab for rule in judged if rule.counts for lab in rule.caught})
    return Report(judged, faults, found, sound, seconds)


def caught(items: Iterable[Truth], where: set[str]) -> list[str]:
    """Return the faults of which every recording is among these items."""
    faulty = [each for each in items if each.fault]
    missed = {each.lab for each in faulty if each.item not in where}
    return sorted({each.lab for each in faulty} - missed)


def read(file: Path) -> Report:
    """Read the report of an earlier trial. Raises BadInput."""
    missing = BadInput(f"There is no file {file}.", f"faultlab rules RULES.yml --json {file}")
    found = document.read(file, SCHEMA, missing, "is no report of `faultlab rules`")
    return document.shaped(Report, found, file, "is no report of `faultlab rules`")


def compared(before: Report, now: Report) -> Change:
    """Return what differs, in the faults and the sound phases that both have seen."""
    faults = {*before.faults} & {*now.faults}
    sound = {*before.sound} & {*now.sound}

    def both(false: Iterable[str]) -> set[str]:
        return {each for each in false if each.partition(" in ")[2] in sound}

    old, new = both(before.false), both(now.false)
    return Change(
        lost=sorted(({*before.caught} - {*now.caught}) & faults),
        gained=sorted(({*now.caught} - {*before.caught}) & faults),
        new_false=sorted(new - old),
        ended_false=sorted(old - new),
    )


def _words(change: Change) -> str:
    lost = f"no longer caught: {_some(change.lost)}" if change.lost else ""
    new = f"new false alarms: {_some(change.new_false)}" if change.new_false else ""
    return "; ".join(filter(None, (lost, new)))


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _notes(report: Report) -> list[str]:
    """Return what limits the result, a sentence each."""
    cut = [rule.alert for rule in report.rules if rule.cut and not rule.untold]
    blind = [rule for rule in report.rules if rule.lacking]
    lacking = sorted({name for rule in blind for name in rule.lacking})
    untold = [f"{rule.alert} ({rule.untold})" for rule in report.rules if rule.untold]
    quiet = [rule.alert for rule in report.rules if not rule.counts]
    return [
        *([f"Waits or ranges cut to the length of a recording: {_some(cut)}."] if cut else []),
        *([f"No recording has the metrics of {len(blind)}: {_some(lacking)}."] if blind else []),
        *([f"Not tried: {_some(untold)}."] if untold else []),
        *([f"Severity info or none, so not counted: {_some(quiet)}."] if quiet else []),
    ]


def _sums(report: Report) -> list[str]:
    false = report.false
    labs = {each.partition(" in ")[2] for each in false}
    return [
        f"Caught: {len(report.caught)} of {len(report.faults)} faults.",
        f"False alarms: {len(false)}, in {len(labs)} of {len(report.sound)} sound phases.",
    ]


def _rows(report: Report) -> list[list[str]]:
    loud = [rule for rule in report.rules if rule.caught or rule.false]
    return [[rule.alert, _some(rule.caught) or "-", _some(rule.false) or "-"] for rule in loud]


def _show(term: Terminal, report: Report) -> None:
    rows = _rows(report)
    if rows:
        term.table(("alert", "catches", "false alarms"), rows, whole=(0,))
        term.say()
    silent = len(report.rules) - len(rows)
    term.say(f"{silent} of {len(report.rules)} alerts never fire. {report.seconds:g} s.")
    term.points([*_sums(report), *_notes(report), *_changes(report.change)])


def _changes(change: Change | None) -> list[str]:
    if change is None:
        return []
    parts = {
        "No longer caught": change.lost,
        "Caught now": change.gained,
        "New false alarms": change.new_false,
        "Ended false alarms": change.ended_false,
    }
    said = [f"{name}: {_some(its)}." for name, its in parts.items() if its]
    return said or ["Nothing differs from the baseline."]


def comment(report: Report, name: str) -> list[str]:
    """Return the report as Markdown, for a comment on a change."""
    verdict = "worse" if report.change and report.change.worse else "done"
    points = [*_changes(report.change), *_sums(report), *_notes(report)]
    rows = [[f"`{row[0]}`", *row[1:]] for row in _rows(report)]
    table = markdown(("alert", "catches", "false alarms"), rows) if rows else []
    return [
        f"**Alert rules `{name}`: {verdict}**",
        "",
        *(f"- {each}" for each in points),
        "",
        *table,
    ]
