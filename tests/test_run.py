"""A run's readings: what lies between the limits is taken again, and only that."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from faultlab import lab as labs
from faultlab import steal
from faultlab.check import Check, Measure, at_least, at_least_times, at_most_times
from faultlab.record import Record
from faultlab.run import Run
from faultlab.stack import Stack
from faultlab.steal import Ticks

STEADY = at_least(1)
MTU = labs.load("mtu")


class Idle(dict[str, Any]):
    """A stack without machines."""

    def stopped(self) -> list[str]:
        return []


@pytest.fixture(autouse=True)
def shares(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What is stolen during each look, until there is nothing left in it: then nothing."""
    stolen: list[float] = []

    def ticks() -> Iterator[Ticks]:
        while True:
            yield Ticks(0, 0)
            yield Ticks(1000, round(1000 * stolen.pop(0)) if stolen else 0)

    readings = ticks()
    monkeypatch.setattr(steal, "read", lambda: next(readings))
    return stolen


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Record:
    monkeypatch.setenv("FAULTLAB_ROOT", str(tmp_path))
    facts: dict[str, Any] = {"machines": {}, "readings": {}, "judged": {}}
    return Record.create("mtu", "faultlab-mtu", facts)


def measured(record: Record, *values: float) -> list[str]:
    """What a run notes that reads these values: the first is healthy, the others are a fix."""
    left = list(values)

    def look(_at: Stack) -> float:
        return left.pop(0)

    def watch(_at: Stack) -> int:
        return 0

    judge = Check[float, int](
        look=look,
        watch=watch,
        symptom=(
            Measure("speed", lambda now: now, at_least_times(0.8), at_most_times(0.6)),
            Measure("answers", lambda now: now, STEADY, STEADY),
        ),
        evidence=(),
    )
    run = Run(cast("Any", None), MTU, judge, cast("Stack", Idle()), record)
    run.measure("healthy")
    run.measure("fixed")
    assert not left, "it looked too seldom"
    return [event["what"] for event in record.facts["events"]]


@pytest.mark.parametrize("clear", [100, 80, 60, 5, 1])
def test_a_clear_reading_is_taken_once(record: Record, clear: float) -> None:
    assert measured(record, 100, clear) == ["measured", "measured"]
    assert record.facts["readings"]["fixed"]["look"] == clear


@pytest.mark.parametrize("clear", [90, 50])
def test_a_reading_between_the_limits_is_taken_again(record: Record, clear: float) -> None:
    assert measured(record, 100, 70, clear) == ["measured", "undecided", "measured"]
    assert record.facts["readings"]["fixed"]["look"] == clear
    assert record.facts["judged"]["fixed"]["good"][0]["holds"] == (clear == 90)
    noted = record.facts["events"][1]
    assert noted["phase"] == "fixed" and "measured 70, wanted at least 80" in noted["text"]


def test_a_reading_that_is_neither_as_what_must_hold_in_both_does_not(record: Record) -> None:
    assert measured(record, 100, 0, 50) == ["measured", "undecided", "measured"]
    assert "answers: measured 0" in record.facts["events"][1]["text"]


def test_it_stays_undecided_after_three(record: Record) -> None:
    noted = measured(record, 100, 70, 71, 72)
    assert noted == ["measured", "undecided", "undecided", "measured"]
    judged = record.facts["judged"]["fixed"]
    assert not judged["good"][0]["holds"] and not judged["bad"][0]["holds"]


def test_a_reading_of_a_busy_host_is_taken_again_when_that_is_calm(
    record: Record, shares: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    shares += [0.01, 0.08, 0.0]
    waited: list[float] = []
    monkeypatch.setattr(steal, "wait_for_calm", waited.append)
    assert measured(record, 100, 50, 90) == ["measured", "undecided", "measured"]
    noted = record.facts["events"][1]
    assert (noted["stolen"], noted["text"]) == (0.08, "8% of the processors' time was stolen")
    assert len(waited) == 1 and 29 < waited[0] <= 30


def test_a_host_that_never_is_calm_is_waited_for_only_so_long(
    record: Record, shares: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    shares += [0.08] * 9
    seconds = itertools.accumulate(itertools.repeat(8.0))  # that everything takes
    monkeypatch.setattr("faultlab.run.time.monotonic", lambda: next(seconds))
    monkeypatch.setattr(steal, "wait_for_calm", lambda _seconds: None)
    noted = measured(record, 100, 98, 99, 90)
    assert noted == ["undecided", "undecided", "measured", "measured"]
