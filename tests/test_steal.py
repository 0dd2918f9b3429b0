"""Stolen processor time: read from the kernel's counters, and waited out, but not for ever."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from faultlab import steal
from faultlab.steal import Ticks

# Of a virtual machine with two processors that had run for seven hours.
STAT = """\
cpu  1579625 37216 769675 2770511 62398 0 229210 101845 0 0
cpu0 790108 18602 384203 1386032 31117 0 114599 50902 0 0
ctxt 1002003
"""


def test_the_first_line_counts() -> None:
    assert steal.parse(STAT) == Ticks(5_550_480, 101_845)


def test_what_was_stolen_since() -> None:
    assert Ticks(1400, 110).since(Ticks(1000, 100)) == 0.025
    assert Ticks(1000, 100).since(Ticks(1000, 100)) == 0  # no tick between two readings


def test_this_kernel_has_it() -> None:
    now = steal.read()
    assert now.all > 0 and 0 <= now.stolen < now.all


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that were slept, with a clock that goes on by them alone."""
    slept: list[float] = []
    monkeypatch.setattr("faultlab.steal.time.sleep", slept.append)
    monkeypatch.setattr("faultlab.steal.time.monotonic", lambda: sum(slept))
    return slept


def counters(*shares: float) -> Callable[[], Ticks]:
    """Two readings a second, between which these parts were stolen; the last one for ever."""
    steps = itertools.chain(shares, itertools.repeat(shares[-1]))
    readings = (t for share in steps for t in (Ticks(0, 0), Ticks(1000, round(1000 * share))))
    return lambda: next(readings)


@pytest.mark.parametrize(
    ("shares", "seconds"), [((0.0,), 1), ((0.03,), 1), ((0.1, 0.05, 0.01), 3), ((0.1,), 5)]
)
def test_it_waits_until_the_host_is_calm(
    shares: tuple[float, ...], seconds: int, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steal, "read", counters(*shares))
    steal.wait_for_calm(5)
    assert sum(clock) == seconds


def test_without_patience_it_does_not_wait(clock: list[float]) -> None:
    steal.wait_for_calm(-1)
    assert not clock
