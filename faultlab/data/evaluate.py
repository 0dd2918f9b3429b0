"""Evaluate: which rules fire at any time in each item of a data set, as Prometheus says.

Each item is a test of `promtool test rules`: its samples at their places, and every alert expected
to be silent at every step. What Prometheus then reports as different is what fires.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import yaml

from faultlab.core import scratch
from faultlab.data import promql, promtool, rulefile, truth
from faultlab.data.openmetrics import UP, Metrics, Points, label, name_of, number
from faultlab.data.promql import Fitted
from faultlab.data.rulefile import Rule
from faultlab.data.truth import Truth

_GAP, _STALE = "_", "stale"
_ONE_LINE = 1 << 30  # columns
_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


@dataclass(frozen=True)
class Fired:
    """The places of the rules that fired in each item, and the metrics that any item has."""

    items: dict[str, frozenset[int]]
    metrics: frozenset[str]


def longest(item: Truth) -> tuple[float, float]:
    """Return the longest range and the longest wait that tell something in an item."""
    return item.seconds / 2, item.seconds / 3


def fitted(rule: Rule, item: Truth, began: float) -> tuple[Rule, Fitted]:
    """Return a rule for an item, and what became of its expression."""
    most, wait = longest(item)
    its = promql.fitted(rule.text, most, began)
    return replace(rule, text=its.text, wait=min(rule.wait, wait)), its


def untold(text: str, item: Truth) -> str:
    """Return why an expression tells nothing in an item; empty if it does."""
    return promql.fitted(text, longest(item)[0], 0.0).untold


def fire(
    folder: Path,
    items: Sequence[Truth],
    rules: Sequence[Rule],
    note: Callable[[str], None],
    concerns: Callable[[Rule, Truth], bool] = lambda _rule, _item: True,
) -> Fired:
    """Return what fires in each item, of the rules that it concerns. Raises BadInput, CannotRun."""
    wanted = {name for rule in rules for name in promql.metrics(rule.text)}
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        found, there = {}, set[str]()
        every = pool.map(partial(_one, folder, rules, wanted, concerns), items)
        for number, (item, (fired, names)) in enumerate(zip(items, every, strict=True), 1):
            note(f"{number} of {len(items)} items")
            found[item.item] = fired
            there |= names
    return Fired(found, frozenset(there))


def _one(
    folder: Path,
    rules: Sequence[Rule],
    wanted: Collection[str],
    concerns: Callable[[Rule, Truth], bool],
    item: Truth,
) -> tuple[frozenset[int], set[str]]:
    metrics = truth.metrics(folder, item)
    names = {name_of(series) for series in metrics.series}
    times = [time for points in metrics.series.values() for time, _ in points]
    began, ended = min(times, default=0.0), max(times, default=0.0)
    steps = _Steps(began, item.every, 1 + round((ended - began) / item.every))
    pairs = [fitted(rule, item, began) for rule in rules]
    told = [n for n, (_, its) in enumerate(pairs) if not its.untold and concerns(rules[n], item)]
    alerts = [f"r{place}" for place in told if rules[place].alert]
    if not alerts:
        return frozenset(), names
    chosen = [rule if place in told else _silent(rule) for place, (rule, _) in enumerate(pairs)]
    with scratch.folder() as scratchpad:
        (scratchpad / "rules.yml").write_text(rulefile.written(chosen))
        test = scratchpad / "test.yml"
        test.write_text(_test(metrics, wanted, steps, alerts))
        return frozenset(int(name[1:]) for name in promtool.firing(test)), names


def _silent(rule: Rule) -> Rule:
    return replace(rule, text="vector(0) > 1")


@dataclass(frozen=True)
class _Steps:
    """The steps of a test: the first at a time, and how many, with so many seconds between."""

    began: float
    every: float
    count: int

    def of(self, points: Points) -> dict[int, float]:
        """Return the values by step; the last one counts where a step has two."""
        return {round((time - self.began) / self.every): value for time, value in points}


def _test(metrics: Metrics, wanted: Collection[str], steps: _Steps, alerts: Sequence[str]) -> str:
    """Return the test of an item: what was recorded, and that no alert fires at any step."""
    targets = {
        _target(series): {*steps.of(points)}
        for series, points in metrics.series.items()
        if name_of(series) == UP
    }
    series = [
        {
            "series": name,
            "values": " ".join(_values(steps, points, targets.get(_target(name), set()))),
        }
        for name, points in metrics.series.items()
        if name_of(name) in wanted or "*" in wanted
    ]
    pause = f"{steps.every * 1000:.0f}ms"
    test = {
        "interval": pause,
        "input_series": series,
        "alert_rule_test": [
            {"eval_time": f"{step * steps.every * 1000:.0f}ms", "alertname": name, "exp_alerts": []}
            for name in alerts
            for step in range(steps.count)
        ],
    }
    document = {"rule_files": ["rules.yml"], "evaluation_interval": pause, "tests": [test]}
    return str(yaml.dump(document, Dumper=_DUMPER, sort_keys=False, width=_ONE_LINE))


def _target(series: str) -> tuple[str, str]:
    return label(series, "job"), label(series, "instance")


def _values(steps: _Steps, points: Points, asked: Collection[int]) -> Iterator[str]:
    """Yield the value at each step. A series that a scrape has no more is stale from there."""
    values, there = steps.of(points), False
    for step in range(steps.count):
        gone = there and step in asked and step not in values
        there = (there or step in values) and not gone
        yield number(values[step]) if step in values else _STALE if gone else _GAP
