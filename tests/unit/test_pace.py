"""Pace: how loads fit an engine."""

from __future__ import annotations

import pytest

from faultlab.engine import pace
from faultlab.engine.pace import Pace


@pytest.mark.parametrize(
    ("programs", "users", "seconds"),
    [
        ("1700\n", 1000, 3),
        ("1500\n", 1000, 3),
        ("750\n", 500, 6),
        ("30\n", 400, 9),
        ("0\n", 400, 9),
    ],
)
def test_a_load_fits_the_engine(programs: str, users: int, seconds: int) -> None:
    got = pace.parse(programs, 1)
    assert (got.connections(1000), got.seconds(3)) == (users, seconds)


def test_half_the_programs_in_half_the_time() -> None:
    assert pace.parse("300\n", 0.4) == Pace(0.5)


def test_a_small_crowd_stays_as_it_is() -> None:
    assert Pace(0.02).connections(50) == 50
