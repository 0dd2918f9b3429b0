"""Rotation: within ten commits everything had its turn, and each quick walk has a cheat."""

from __future__ import annotations

import pytest

from faultlab.core import git
from faultlab.lab import loader as labs
from faultlab.run import rotation
from faultlab.run.rotation import Remedies
from tests.live import turns

LABS = [labs.load(lab_id) for lab_id in labs.ids()]


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setenv(rotation.QUICK, "1")
    return monkeypatch


def taken(at: pytest.MonkeyPatch, commit: int) -> dict[str, Remedies]:
    at.setattr(git, "commits", lambda: commit)
    return {lab.id: rotation.remedies(lab) for lab in LABS}


@pytest.mark.parametrize("first", [0, 7, 412])
@pytest.mark.parametrize("turns", [1, 2, 5, 10])
def test_within_ten_commits_every_remedy_was_walked(
    at: pytest.MonkeyPatch, first: int, turns: int
) -> None:
    at.setenv(rotation.QUICK, str(turns))
    walks = [taken(at, first + i) for i in range(0, rotation.EVERY, turns)]
    for lab in LABS:
        alternatives = {a for walk in walks for a in walk[lab.id].alternatives}
        cheats = {c for walk in walks for c in walk[lab.id].all_cheats}
        assert len(alternatives) == len(lab.alternative), lab.id
        assert len(cheats) == len(lab.cheat), lab.id
        alone = {fault for walk in walks for fault in walk[lab.id].left}
        assert alone == {fault.id for fault in lab.fault}
        assert sum(walk[lab.id].late for walk in walks) == 1, lab.id


def test_each_quick_walk_has_a_cheat_and_few_have_more(at: pytest.MonkeyPatch) -> None:
    a_tenth = sum(len(lab.alternative) + len(lab.cheat) for lab in LABS) / rotation.EVERY
    for commit in range(rotation.EVERY):
        walks = taken(at, commit)
        assert all(walk.all_cheats for walk in walks.values())
        assert walks["iptables-drop"].before_fix is None  # its cheat is the first half of its fix
        extra = sum(len(walk.alternatives) + len(walk.cheats) for walk in walks.values())
        assert a_tenth / 2 <= extra <= a_tenth * 1.5, f"commit {commit}"


def test_a_whole_walk_has_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(rotation.QUICK, raising=False)
    for lab in LABS:
        walk = rotation.remedies(lab)
        assert len(walk.alternatives) == len(lab.alternative)
        assert len(walk.cheats) == len(lab.cheat)
        assert walk.left == [fault.id for fault in lab.fault]
        assert walk.late and walk.before_fix is None


def test_a_lab_can_have_its_turn_more_often(at: pytest.MonkeyPatch) -> None:
    at.setenv(rotation.QUICK, "5 conntrack=2 mtu=1")
    assert [rotation.turns(lab_id) for lab_id in ("gzip", "conntrack", "mtu")] == [5, 2, 1]
    at.delenv(rotation.QUICK)
    assert rotation.turns("mtu") == 1


def test_everything_is_next_once_in_so_many_commits() -> None:
    things = list("abcdefghijklm")
    for first in (0, 5):
        seen = [thing for i in range(4) for thing in rotation.next_of(things, first + i, every=4)]
        assert sorted(seen) == things


def test_this_checkout_has_a_number() -> None:
    assert git.commits() > 0


def test_long_things_are_dealt_out_evenly() -> None:
    minutes = [0.2] * 120 + [6.0, 4.0, 4.0, 3.0] + [0.7] * 9
    runs, load = turns.shared_out(minutes)
    of_each = [sum(m for m, run in zip(minutes, runs, strict=True) if run == i) for i in range(10)]
    assert load == pytest.approx(of_each)
    assert max(load) == 6.0 and min(load) > 3
    assert turns.shared_out(minutes) == (runs, load)
    assert set(turns.shared_out([1.0] * 30)[0]) == set(range(10))


def test_what_has_two_turns_has_them_in_runs_with_room() -> None:
    busy = [3.0, *[1.0] * 9]
    minutes, every = [4.0, 2.0, 1.0], [5, 10, 10]
    runs, load = turns.shared_out(minutes, every, busy)
    assert runs[0] % 5 != 0
    of_each = [
        busy[run]
        + sum(m for m, n, turn in zip(minutes, every, runs, strict=True) if run % n == turn)
        for run in range(10)
    ]
    assert load == pytest.approx(of_each)
    assert max(load) == 5.0
