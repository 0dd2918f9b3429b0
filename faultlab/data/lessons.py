"""Lessons: the alert expressions that they advise, as Prometheus reads them and on a data set."""

from __future__ import annotations

import json
import re
import textwrap
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from faultlab.core import paths
from faultlab.core.errors import SaidNo
from faultlab.core.terminal import Terminal
from faultlab.data import evaluate, promql, rulefile, truth
from faultlab.data.evaluate import Fired
from faultlab.data.rulefile import Rule
from faultlab.data.truth import Truth
from faultlab.lab import loader as labs
from faultlab.lab.collection import bare

_BLOCK = re.compile(r"^ *```promql\n(.*?)^ *```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Advised:
    """One expression of a lesson. `mistake`: what Prometheus says of it; empty if it is right.

    `fires`: in its own fault; None if that was not tried. `false`: the phases of its own lab in
    which nothing is wrong, and where it fires. `twins`: labs that look alike and where it fires.
    `lacking`: its metrics that no recording has. `untold`: why it was not tried.
    """

    lab: str
    expression: str
    mistake: str = ""
    fires: bool | None = None
    false: list[str] = field(default_factory=list)
    twins: list[str] = field(default_factory=list)
    lacking: list[str] = field(default_factory=list)
    untold: str = ""

    @property
    def tried(self) -> bool:
        """Return whether its own fault was recorded, with all of its metrics."""
        return self.fires is not None and not self.lacking


@dataclass(frozen=True)
class Lessons:
    """The expressions of all lessons. `tried`: on a data set, too."""

    expressions: list[Advised]
    tried: bool
    seconds: float

    @property
    def wrong(self) -> list[tuple[Advised, str]]:
        """Return what is wrong, and why: a mistake, a false alarm, a lesson that misses its fault.

        A lesson with several expressions misses it if none of those that were tried fires.
        """
        found = [(each, each.mistake) for each in self.expressions if each.mistake]
        for each in self.expressions:
            if each.false:
                found.append((each, f"it fires in {' and '.join(each.false)}"))
        by_lab: dict[str, list[Advised]] = {}
        for each in filter(lambda one: one.tried, self.expressions):
            by_lab.setdefault(each.lab, []).append(each)
        silent = [its[0] for its in by_lab.values() if not any(each.fires for each in its)]
        return [*found, *((each, "its fault raises no alert") for each in silent)]


def advised() -> list[tuple[str, str]]:
    """Return each expression with its lab."""
    return [
        (lab_id, expression)
        for lab_id in labs.ours()
        for block in _BLOCK.findall(labs.load(lab_id).lesson)
        for expression in promql.expressions(textwrap.dedent(block))
    ]


def try_out(term: Terminal, folder: Path | None, json_file: Path | None = None) -> Lessons:
    """Let Prometheus read the expressions, and try them on a data set if one is given.

    Raises SaidNo if one is wrong, BadInput, CannotRun.
    """
    began = time.monotonic()
    every = advised()
    rules = [Rule(lab, text) for lab, text in every]
    with term.alive("lessons", f"{len(rules)} expressions") as step:
        mistakes = rulefile.wrong(rules)
        found = [
            Advised(lab, text, mistakes.get(place, "")) for place, (lab, text) in enumerate(every)
        ]
        if folder and not mistakes:
            found = _tried(folder, found, rules, step.note)
    tried = bool(folder and not mistakes)
    said = Lessons(found, tried, round(time.monotonic() - began, 1))
    if json_file:
        paths.write_whole(json_file, json.dumps(asdict(said), indent=1) + "\n")
    _show(term, said)
    if said.wrong:
        first, why = said.wrong[0]
        count = len({each.expression for each, _ in said.wrong})
        what = f"{count} of {len(found)} expressions are wrong, the first one in {first.lab}: {why}"
        raise SaidNo(f"{what}.", f"edit labs/{first.lab}/README.md", said)
    return said


def _tried(
    folder: Path, found: Sequence[Advised], rules: Sequence[Rule], note: Callable[[str], None]
) -> list[Advised]:
    items = truth.read(folder)
    fired = evaluate.fire(folder, items, rules, note, _concerns)
    return [_judged(each, place, items, fired) for place, each in enumerate(found)]


def _concerns(rule: Rule, item: Truth) -> bool:
    """Return whether an item is of the lab of an expression, or of one that looks alike."""
    return bare(item.lab) == rule.alert or item.lab in labs.loaded(rule.alert).twins


def _judged(each: Advised, place: int, items: Sequence[Truth], fired: Fired) -> Advised:
    """Return an expression with what it did in its own lab, if the data set has that."""
    loud = {name for name, places in fired.items.items() if place in places}
    own = [item for item in items if bare(item.lab) == each.lab]
    faulty = [item.item in loud for item in own if item.fault]
    if not own:
        return replace(each, untold="the data set has no recording of its lab")
    untold = [evaluate.untold(each.expression, item) for item in own]
    if any(untold):
        return replace(each, untold=next(filter(None, untold)))
    twins = labs.load(each.lab).twins
    return replace(
        each,
        fires=all(faulty) if faulty else None,
        false=sorted({item.phase for item in own if not item.fault and item.item in loud}),
        twins=sorted({i.lab for i in items if i.fault and i.lab in twins and i.item in loud}),
        lacking=sorted(promql.metrics(each.expression) - fired.metrics - {"*"}),
    )


def _show(term: Terminal, said: Lessons) -> None:
    every = said.expressions
    right = [each for each in every if not each.mistake]
    count = len({each.lab for each in every})
    term.say(f"{len(every)} expressions of {count} lessons: Prometheus reads {len(right)}.")
    if said.tried:
        asked = [each for each in every if each.tried]
        fire = [each for each in asked if each.fires]
        lacking = [each for each in every if each.lacking]
        untold = [each for each in every if each.untold]
        term.say(f"Tried in their own faults: {len(asked)}; {len(fire)} fire there.")
        term.say(f"Not recorded: the metrics of {len(lacking)}. Not tried: {len(untold)}.")
    if said.wrong:
        rows = [[each.lab, each.expression.split("\n")[0], why] for each, why in said.wrong]
        term.table(("lab", "expression", "what is wrong"), rows, whole=(0,))
