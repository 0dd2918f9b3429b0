"""Judging: bounds, findings and their words; every lab's readings through JSON and back."""

from __future__ import annotations

import dataclasses
import json
import math
import types
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faultlab.core.errors import BadInput, CannotRun
from faultlab.core.text import number
from faultlab.lab import check, checks
from faultlab.lab import loader as labs
from faultlab.lab.check import Check, Evidence, Measure
from faultlab.lab.finding import Finding
from faultlab.lab.limits import Bound, at_least, at_least_times, at_most, at_most_times, exactly
from faultlab.lab.reading import Reading, loaded
from faultlab.probes import ab, connect, curl, memcaslap, mysqlslap, places, startup, wrk

RECORDED = Path(__file__).parents[1] / "recorded"
DEAD: dict[type, Callable[[], Any]] = {  # what probes read when nothing listens any more
    connect.Handshakes: lambda: connect.parse("[]", 20),
    curl.Page: lambda: curl.parse((RECORDED / "curl/refused.txt").read_text()),
    wrk.Load: lambda: wrk.parse((RECORDED / "wrk/refused.txt").read_text(), 4),
    startup.Start: lambda: startup.Start(seconds=120, served=False),
    mysqlslap.Load: lambda: mysqlslap.parse((RECORDED / "mysqlslap/refused.txt").read_text(), 32),
    ab.Visits: lambda: ab.parse((RECORDED / "ab/refused.txt").read_text(), 1),
    memcaslap.Load: lambda: memcaslap.parse((RECORDED / "memcaslap/refused.txt").read_text(), 20),
    places.Rush: lambda: places.Rush(0, 0),
}
SILENT = {  # and when it accepts and never answers
    **DEAD,
    curl.Page: lambda: curl.parse((RECORDED / "curl/silent.txt").read_text()),
    wrk.Load: lambda: wrk.parse((RECORDED / "wrk/silent.txt").read_text(), 4),
    ab.Visits: lambda: ab.parse((RECORDED / "ab/silent.txt").read_text(), 1),
}


def make(kind: Any, number: int = 3, known: dict[type, Callable[[], Any]] | None = None) -> Any:
    """A value of any type that a reading is made of."""
    if known and kind in known:
        return known[kind]()
    if dataclasses.is_dataclass(kind):
        hints, build = typing.get_type_hints(kind), typing.cast("Any", kind)
        return build(
            **{n: make(hint, number + i, known) for i, (n, hint) in enumerate(hints.items())}
        )
    if isinstance(kind, types.UnionType):  # int | None
        return make(typing.get_args(kind)[0], number, known)
    if typing.get_origin(kind) is list:
        return [make(typing.get_args(kind)[0], number + i, known) for i in range(2)]
    if typing.get_origin(kind) is dict:
        return {"a": number, "TcpExtListenOverflows": number + 1}
    return {int: number, float: number + 0.25, str: f"text {number}", bool: True}[kind]


def returned(function: Callable[..., Any]) -> Any:
    return typing.get_type_hints(function)["return"]


@pytest.mark.parametrize(
    ("bound", "value", "healthy", "holds"),
    [
        (at_least(5), 5, 0, True),
        (at_least(5), 4.99, 0, False),
        (at_most(5), 5, 0, True),
        (at_most(5), 5.01, 0, False),
        (exactly(28), 28, 0, True),
        (exactly(28), 28.5, 0, False),
        (at_least_times(2), 20, 10, True),
        (at_least_times(2), 19, 10, False),
        (at_most_times(0.5), 5, 10, True),
        (at_most_times(0.5), 6, 10, False),
        (at_most(0), -0.0, 0, True),
        (at_most(1e9), math.inf, 0, False),
    ],
)
def test_bounds(bound: Bound, value: float, healthy: float, holds: bool) -> None:
    assert bound.holds(value, healthy) is holds


@pytest.mark.parametrize("bound", [at_most_times(2.5), at_least_times(0.5), at_least_times(5)])
@pytest.mark.parametrize("value", [0.0, 7.0])
def test_a_ratio_to_nothing_never_holds(bound: Bound, value: float) -> None:
    """A healthy phase without a single request has p99 0; anything is "at most 2.5 x" of that."""
    assert not bound.holds(value, 0.0)


@pytest.mark.parametrize(
    "bound", [at_least(0), at_most(0), exactly(0), at_least_times(1), at_most_times(1)]
)
def test_what_is_not_a_number_never_holds(bound: Bound) -> None:
    assert not bound.holds(math.nan, 1)
    if bound.times:
        assert not bound.holds(1, math.nan)


@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [
        (0, "", "0"),
        (28, "", "28"),
        (0.61449, "s", "0.614 s"),
        (0.00175, "s", "0.00175 s"),
        (8113.7, "/s", "8114 /s"),
        (99.96, "%", "100 %"),
        (65_535, "bytes", "65535 bytes"),
        (-12, "", "-12"),
        (math.nan, "s", "nan s"),
        (math.inf, "s", "inf s"),
    ],
)
def test_numbers_in_words(value: float, unit: str, words: str) -> None:
    assert number(value, unit) == words


def test_bounds_in_words() -> None:
    assert at_least_times(5).words(0.038, "s") == "at least 0.19 s (5 x healthy)"
    assert at_most(0).words(99, "%") == "at most 0 %"
    assert exactly(28).words(0, "") == "exactly 28"


def test_a_finding_in_words() -> None:
    found = Finding("p99", 0.62, "s", at_most_times(2).words(0.04, "s"), False)
    assert found.words == "p99: measured 0.62 s, wanted at most 0.08 s (2 x healthy)"


STEADY = at_least(1)
SPEED = Check[float, int](
    look=lambda at: at["web"],
    inspect=lambda at: at["web"],
    symptom=(
        Measure("latency", lambda now: now, at_most_times(2), at_least_times(5), "s"),
        Measure("answers", lambda now: now, STEADY, STEADY),
        Measure("only good", lambda now: now, at_most(100)),
    ),
    evidence=(
        Evidence("grows", lambda before, after: after - before, at_least(3), "web", "nstat"),
    ),
)


def test_good_judges_every_measure() -> None:
    assert [(f.name, f.holds) for f in SPEED.good(Reading(21), Reading(10))] == [
        ("latency", False),
        ("answers", True),
        ("only good", True),
    ]


def test_bad_judges_what_a_fault_changes_or_leaves() -> None:
    assert [(f.name, f.holds) for f in SPEED.bad(Reading(50), Reading(10))] == [
        ("latency", True),
        ("answers", True),
    ]


def test_between_the_limits_neither_holds() -> None:
    assert (
        not SPEED.good(Reading(30), Reading(10))[0].holds
        and not SPEED.bad(Reading(30), Reading(10))[0].holds
    )


@pytest.mark.parametrize(
    ("limit", "now", "harmed"),
    [
        (at_most(1), 1.9, False),
        (at_most(1), 2.1, True),
        (at_least(0.98), 0.6, False),
        (at_least(0.98), 0.4, True),
        (at_least_times(0.5), 3.0, False),
        (at_least_times(0.5), 2.0, True),
        (exactly(1), 1.0, False),
        (exactly(1), 1.01, True),
    ],
)
def test_harm_is_far_from_what_must_always_hold(limit: Bound, now: float, harmed: bool) -> None:
    check: Check[float, int] = Check(
        look=lambda _: 1.0,
        inspect=lambda _: 1,
        symptom=(
            Measure("booked", lambda value: value, limit, limit),
            Measure("speed", lambda value: value, at_least(100), at_most(0.3)),
        ),
    )
    assert check.harmed(Reading(now), Reading(10)) == harmed


@pytest.mark.parametrize(("now", "harmed"), [(1, False), (0.79, False), (0.71, False), (0.5, True)])
def test_a_symptom_harms_also_beside_a_value_between_its_limits(now: float, harmed: bool) -> None:
    check: Check[float, int] = Check(
        look=lambda _: 1.0,
        inspect=lambda _: 1,
        symptom=(
            Measure("speed", lambda value: value, at_least(0.8), at_most(0.7)),
            Measure("pages", lambda value: value, at_least(0.9), at_most(0.1)),
            Measure("answers", lambda value: value, at_most(1)),
        ),
    )
    assert check.harmed(Reading(now), Reading(1)) == harmed


@pytest.mark.parametrize(
    ("now", "good", "bad"),
    [(41, False, False), (39, True, False), (90, False, False), (100, False, True)],
)
def test_a_machine_of_half_the_speed_has_twice_the_time(now: float, good: bool, bad: bool) -> None:
    healthy, slow = (
        Reading[float, int](10, reference=3000),
        Reading[float, int](now, reference=1500),
    )
    assert SPEED.good(slow, healthy)[0].holds == good
    assert SPEED.bad(slow, healthy)[0].holds == bad


def test_speed_changes_rates_and_times_and_nothing_else() -> None:
    def expected(unit: str) -> float:
        return Measure[float]("m", lambda now: now, at_most_times(2), unit=unit).expected(100, 0.5)

    assert [expected(unit) for unit in ("/s", "s", "ms", "%", "")] == [50, 200, 200, 100, 100]


@pytest.mark.parametrize(
    ("one", "other", "agree"),
    [(10, 15, True), (10, 16, False), (16, 10, False), (0, 0, False), (0, 10, False)],
)
def test_two_looks_agree_within_half_of_the_gap(one: float, other: float, agree: bool) -> None:
    """Between 2 and 5 times healthy lies a factor of 2.5; half of it is one of 1.58."""
    apart = SPEED.apart(Reading(one), Reading(other))
    assert (apart == []) == agree
    assert agree or apart[0].startswith("latency: ")


def test_looks_agree_by_the_speed_of_the_machine() -> None:
    slow = Reading[float, int](20, reference=1500)
    assert SPEED.apart(Reading(10, reference=3000), slow) == []
    assert SPEED.apart(Reading(20, reference=3000), slow) == ["latency: 40 s, then 20 s"]


def test_a_measure_of_one_limit_leaves_half_of_it() -> None:
    assert Measure[float]("m", lambda now: now, at_most_times(4)).tolerance == 2
    assert Measure[float]("m", lambda now: now, at_least_times(0.25)).tolerance == 2
    loose = at_least_times(0.25)
    assert not Measure[float]("m", lambda now: now, loose, loose).relative


def test_only_a_measure_that_tells_nothing_is_steady() -> None:
    assert [measure.steady for measure in SPEED.symptom] == [False, True, False]


def test_signs_compare_before_with_after() -> None:
    values = iter((10, 7.0, 14))
    reading = SPEED.take({"web": None}, evidence=False)
    with pytest.raises(BadInput):
        SPEED.evident(reading)

    class Changing(dict[str, Any]):
        def __getitem__(self, _name: str) -> Any:
            return next(values)

    reading = SPEED.take(Changing(), evidence=True)
    assert (reading.before, reading.look, reading.after) == (10, 7.0, 14)
    assert SPEED.evident(reading) == [Finding("grows", 4, "", "at least 3", True)]


@pytest.mark.parametrize("lab_id", labs.ids())
def test_a_reading_comes_back_from_json_as_it_was(lab_id: str) -> None:
    check = checks.load(labs.load(lab_id))
    look, inspection = returned(check.look), returned(check.inspect)
    for reading in (
        Reading(make(look)),
        Reading(make(look, 5), make(inspection, 7), make(inspection, 9)),
    ):
        stored = json.loads(json.dumps(dataclasses.asdict(reading)))
        assert loaded(stored, *check._shapes) == reading  # it has no counters for its measures


def without(value: Any, key: str) -> Any:
    """Return JSON without the entries of this name, however deep they are."""
    if isinstance(value, dict):
        return {name: without(part, key) for name, part in value.items() if name != key}
    return [without(part, key) for part in value] if isinstance(value, list) else value


def keys(value: Any) -> set[str]:
    """Return the names of all entries of JSON."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return set(value if isinstance(value, dict) else ()).union(*map(keys, parts))


@pytest.mark.parametrize("lab_id", labs.ids())
def test_a_reading_with_an_entry_missing_is_refused_or_can_be_judged(lab_id: str) -> None:
    """`faultlab show` of a syn-flood whose record had lost one counter ended with a KeyError."""
    check = checks.load(labs.load(lab_id))
    recorded = sorted((RECORDED / "runs").glob(f"*-{lab_id}-????/run.json"))
    if not recorded:
        pytest.skip("no run of this lab is recorded")
    stored = json.loads(recorded[-1].read_text())["readings"]["faulty"]
    healthy = check.load(json.loads(recorded[-1].read_text())["readings"]["healthy"])
    for key in sorted(keys(stored)):
        try:
            now = check.load(without(stored, key))
        except BadInput:
            continue
        check.good(now, healthy), check.bad(now, healthy)
        if now.before is not None:
            check.evident(now)


@pytest.mark.parametrize("stored", [{}, {"look": 5, "before": None, "after": None}])
def test_a_reading_of_another_shape(stored: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match="does not fit"):
        checks.load(labs.load("mtu")).load(stored)


@pytest.mark.parametrize("lab_id", labs.ids())
@pytest.mark.parametrize("known", [DEAD, SILENT], ids=["refused", "silent"])
def test_a_dead_stack_is_never_well(lab_id: str, known: dict[type, Callable[[], Any]]) -> None:
    """Ratios to a healthy phase say nothing when that phase was dead as well."""
    check = checks.load(labs.load(lab_id))
    try:
        dead = make(returned(check.look), 5, known)  # three pages of three would be healthy
    except CannotRun:
        return  # such a probe has no reading of it, so the verdict is `unknown`
    assert not all(found.holds for found in check.good(Reading(dead), Reading(dead)))


def killed(value: Any, known: dict[type, Callable[[], Any]]) -> Any:
    """Return what was read, with what its probes read of a dead stack; the rest stays."""
    if type(value) in known:
        return known[type(value)]()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
        return dataclasses.replace(
            value, **{name: killed(part, known) for name, part in parts.items()}
        )
    return [killed(part, known) for part in value] if isinstance(value, list) else value


@pytest.mark.parametrize("lab_id", labs.ids())
@pytest.mark.parametrize("known", [DEAD, SILENT], ids=["refused", "silent"])
def test_a_stack_that_died_is_not_well(lab_id: str, known: dict[type, Callable[[], Any]]) -> None:
    """All else is as it was while the stack was well, so only the dead parts can tell."""
    check = checks.load(labs.load(lab_id))
    recorded = sorted((RECORDED / "runs").glob(f"*-{lab_id}-????/run.json"))
    if not recorded:
        pytest.skip("no run of this lab is recorded")
    healthy = check.load(json.loads(recorded[-1].read_text())["readings"]["healthy"])
    assert all(found.holds for found in check.good(healthy, healthy))
    try:
        dead: Reading[Any, Any] = Reading(killed(healthy.look, known))
    except CannotRun:
        pytest.skip("a probe of this lab reads nothing of a dead stack, so nothing is judged")
    if dead.look == healthy.look:
        pytest.skip("no dead answer to a probe of this lab is recorded")
    for before in (healthy, dead):
        assert not all(found.holds for found in check.good(dead, before))


@pytest.mark.parametrize("lab_id", labs.ids())
def test_each_of_several_faults_has_a_measure_and_a_sign(lab_id: str) -> None:
    lab, judge = labs.load(lab_id), checks.load(labs.load(lab_id))
    for told in (judge.symptom, judge.evidence):
        assert {thing.fault for thing in told} - {""} == {fault.id for fault in lab.fault}


def test_a_response_that_is_missing_is_not_right() -> None:
    """A shell that cannot fork sends only the first of its requests."""

    def judged(*found: str) -> Finding:
        healthy: Reading[int, int] = Reading(0, answers={"page": ["a", "b", "c"]})
        return check._answered("page", Reading(0, answers={"page": found}), healthy)

    assert judged("a", "b", "c").holds
    assert (judged("a").holds, round(judged("a").value)) == (False, 33)
    assert not judged("a", "b", "c", "d").holds
