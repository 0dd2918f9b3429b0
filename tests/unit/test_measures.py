"""Measures: the short kinds are what they stand for, and every check file can read its own."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, cast

import pytest

from faultlab.engine.shell import Shell
from faultlab.lab import checks
from faultlab.lab import loader as labs
from faultlab.lab.check import Check, Evidence, Measure
from faultlab.lab.finding import Finding
from faultlab.lab.limits import at_least, at_least_times, at_most, at_most_times
from faultlab.lab.measures import (
    Nothing,
    ends,
    failing,
    grows,
    inspect_nothing,
    rate,
    share,
    steady,
)
from faultlab.lab.reading import Reading
from faultlab.probes import mysql, wrk
from faultlab.run.readings import sentences
from tests.unit.conftest import REPO, Project
from tests.unit.test_check import make, returned


@dataclass(frozen=True)
class Load:
    good_per_second: float = 80.0
    failed_share: float = 0.25


@dataclass(frozen=True)
class Look:
    load: Load = Load()


def test_a_value_is_at_a_path_or_a_function_of_the_look() -> None:
    assert rate("pages", "load.good_per_second", good=1).value(Look()) == 80
    assert rate("pages", lambda now: now.load.good_per_second / 2, good=1).value(Look()) == 40
    assert Measure[Look]("pages", "load.good_per_second", at_least(1)).value(Look()) == 80
    with pytest.raises(AttributeError):
        rate("pages", "load.bad_per_second", good=1).value(Look())


def test_a_share_is_in_percent() -> None:
    assert share("pages that fail", "load.failed_share", good=1).value(Look()) == 25
    assert share("pages that fail", lambda now: 1 - 0.5, good=1).value(Look()) == 50
    failed = failing("pages")
    assert (failed.name, failed.value(Look())) == ("pages that fail", 25)
    assert failing("pages", lambda now: 0.5).value(Look()) == 50


def test_a_sign_of_what_has_grown_or_is_there_in_the_end() -> None:
    before, after = Look(Load(80)), Look(Load(120))
    grown = grows("pages", "load.good_per_second", at_least(1), "pages")
    last = ends("pages", lambda now: now.load.good_per_second, at_most(9))
    assert (grown.of(before, after), last.of(before, after)) == (40, 120)
    assert (grown.fires, grown.unit, last.fires, last.unit) == (
        at_least(1),
        "pages",
        at_most(9),
        "",
    )
    assert grown.seen("web", "netstat -i") == replace(grown, machine="web", command="netstat -i")


def test_of_bookings_the_better_time_after_the_first_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = [wrk.Load(1.0, requests, 0, 0, 0, 0.1, 0.2, 0.3) for requests in (90, 50, 70)]
    left = iter(made)
    monkeypatch.setattr(wrk, "bookings", lambda *_, **__: next(left))
    counted = iter([100, 310])  # one order of the load's end was not confirmed
    monkeypatch.setattr(mysql, "orders", lambda _: next(counted))
    user = cast(Shell, None)
    assert wrk.booked(user, connections=8, seconds=1) == wrk.Booked(made[2], kept=1.0)
    assert next(left, None) is None


def test_a_control_has_no_traces() -> None:
    control = Check(look=lambda _: 1.0, inspect=inspect_nothing, symptom=())
    assert control.evidence == () and inspect_nothing(None) == Nothing()
    assert control.take({}, evidence=True) == Reading(1.0, Nothing(), Nothing())


TELLS = Check[float, int](
    look=lambda at: at["web"],
    inspect=lambda at: at["web"],
    symptom=(
        Measure[float]("latency", lambda now: now, at_most_times(2), at_least_times(5)).says(
            "It is quick.", "It is slow."
        ),
        steady("answers", lambda now: now, at_least(1)).says("It answers.", "It is silent."),
        Measure[float]("still", lambda now: now, at_most(100)),
    ),
    evidence=(
        Evidence("grows", lambda before, after: after - before, at_least(3), "web", "nstat"),
    ),
)


@pytest.mark.parametrize(
    ("now", "says"),
    [
        (15, ["It is quick.", "It answers."]),
        (30, ["It is slow.", "It answers."]),  # between the limits it is not well yet
        (60, ["It is slow.", "It answers."]),
        (0, ["It is quick.", "It is silent."]),
    ],
)
def test_a_finding_says_what_its_outcome_means(now: float, says: list[str]) -> None:
    """The same whichever limit it was judged by; without a sentence it is silent."""
    one, healthy = Reading[float, int](now, 1, 2), Reading[float, int](10)
    assert [found.says for found in TELLS.good(one, healthy)] == [*says, ""]
    assert [found.says for found in TELLS.bad(one, healthy)] == says
    assert [found.says for found in TELLS.evident(one)] == [""]


def test_each_sentence_is_said_once() -> None:
    def said(says: str) -> Finding:
        return Finding("name", 1, "", "at most 0", False, says=says)

    assert sentences(map(said, ["B.", "", "A.", "B."])) == ["B.", "A."]


def read(one: Check[Any, Any]) -> None:
    """Take every value from a look and a watch that are made up.

    A path or a function with a mistake would be an error in the middle of a walk.
    """
    look, inspection = returned(one.look), returned(one.inspect)
    for measure in one.symptom:
        assert isinstance(measure.value(make(look)), int | float)
    for item in one.evidence:
        with suppress(KeyError):  # a counter that was not made up
            assert isinstance(item.of(make(inspection), make(inspection, 5)), int | float)


@pytest.mark.parametrize("lab_id", labs.ids())
def test_every_value_is_where_its_measure_looks_for_it(lab_id: str) -> None:
    read(checks.load(labs.load(lab_id)))


def example() -> str:
    text = (REPO / "docs/adding-a-lab.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    return str(code)


def template() -> str:
    return (REPO / "labs/_template/check.py").read_text()


@pytest.mark.parametrize("code", [example(), template()], ids=["example", "template"])
def test_what_an_author_begins_with_is_a_check(code: str, project: Project) -> None:
    project.write("checks/test_few_connections.py", code)
    one = checks.load(labs.load("mtu").model_copy(update={"id": "few-connections"}))
    read(one)
    assert all(measure.when_good and measure.when_bad for measure in one.symptom)
    assert all(item.machine and item.command for item in one.evidence)
    assert one.evidence
