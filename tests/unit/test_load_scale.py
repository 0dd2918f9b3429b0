"""Load scale: how loads fit an engine."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import cast

import pytest

from faultlab.core import lock
from faultlab.engine.measure import load_scale
from faultlab.engine.measure.load_scale import LoadScale
from faultlab.engine.shell import Shell
from tests.waiting import until


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
    got = load_scale.parse(programs, 1)
    assert (got.connections(1000), got.seconds(3)) == (users, seconds)


def test_half_the_programs_in_half_the_time() -> None:
    assert load_scale.parse("300\n", 0.4) == LoadScale(0.5)


def test_a_small_crowd_stays_as_it_is() -> None:
    assert LoadScale(0.02).connections(50) == 50


class Machine:
    """A machine on some kernel that starts this many programs, each time it is measured."""

    def __init__(self, *programs: int, kernel: int = 1) -> None:
        self.programs = list(programs)
        self.kernel = f"6ae1f6f4-3b7c-4d6a-9a51-00000000000{kernel}\n"

    def must(self, command: str) -> str:
        return self.kernel if "boot_id" in command else str(self.programs.pop(0))


def found(machine: Machine) -> float:
    return load_scale.find(cast("Shell", machine)).share


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How each measurement had its turn."""
    taken: list[str] = []
    turn = lock.turn

    def noting(alone: bool, slot: str = "") -> AbstractContextManager[None]:
        taken.append("alone" if alone else "shared")
        return turn(alone, slot=slot)

    lock.private(lock.folder())
    monkeypatch.setattr(lock, "turn", noting)
    return taken


def test_the_highest_pace_of_a_kernel_counts(turns: list[str]) -> None:
    """Only the first measurement waits for the others, who can only lower the next ones."""
    machine = Machine(300, 150, 450, 300)
    assert [found(machine) for _ in range(4)] == [0.5, 0.5, 0.75, 0.75]
    assert turns == ["alone", "shared", "shared", "shared"]


def test_stacks_that_start_at_once_wait_for_one_measurement(turns: list[str]) -> None:
    """The machine is alone for one of them, and not for each."""
    machine = Machine(*[300] * 4)
    with ThreadPoolExecutor() as pool, lock.turn(alone=False):
        turns.clear()
        waiting = [pool.submit(found, machine) for _ in range(4)]
        until(lambda: turns == ["alone"])
        assert not any(each.done() for each in waiting)
    assert [each.result() for each in waiting] == [0.5] * 4
    assert turns == ["alone", *["shared"] * 3]


def test_another_kernel_has_its_own_pace(turns: list[str]) -> None:
    assert [found(Machine(600)), found(Machine(60, kernel=2))] == [1, 0.1]
    assert turns == ["alone", "alone"]


def test_slots_of_one_size_have_one_pace(turns: list[str]) -> None:
    """And another one than the whole machine, which a learner's older stack can have."""
    machine = cast("Shell", Machine(300, 450, 600))
    paces = [load_scale.find(machine, slot).share for slot in ("0-1", "2-3", "")]
    assert paces == [0.5, 0.75, 1.0] and turns == ["alone", "shared", "alone"]


def test_an_old_pace_is_measured_again(turns: list[str]) -> None:
    machine = Machine(600, 60)
    found(machine)
    (file,) = lock.folder().glob("pace-*")
    old = time.time() - load_scale._VALID - 1
    os.utime(file, (old, old))
    assert found(machine) == 0.1
    assert turns == ["alone", "alone"]


def test_a_file_that_is_being_written_counts_as_none(turns: list[str]) -> None:
    machine = Machine(600, 300)
    found(machine)
    (file,) = lock.folder().glob("pace-*")
    file.write_text("")
    assert found(machine) == 0.5
    assert turns == ["alone", "alone"]
