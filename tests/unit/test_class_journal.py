"""The journal of a class: it survives a kill, a full disk, another server and another clock."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from faultlab.core.errors import CannotRun
from faultlab.core.terminal import Terminal
from faultlab.workshop import (
    verbs,
)
from faultlab.workshop.access import TRAINER, Keys
from faultlab.workshop.folder import Folder
from faultlab.workshop.journal import Event, Journal
from tests.unit.conftest import Run
from tests.unit.served import (
    RIGHT,
    Fake,
    FakeStacks,
    planned,
    roster,
    served,
)


def test_a_line_that_was_cut_off_is_dropped(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    Journal(file).add(Event.OPENED)
    with file.open("a") as cut:
        cut.write('{"t": 3, "event": "tw')
    half = file.read_bytes()
    assert [event["event"] for event in Journal(file).events] == ["opened"]
    assert file.read_bytes() == half  # a server may be in the middle of this line
    journal = Journal(file, mend=True)
    journal.add(Event.ENDED)
    assert [event["event"] for event in Journal(file).events] == ["opened", "ended"]


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "events.jsonl")
    journal.file = tmp_path / "nowhere/events.jsonl"
    with pytest.raises(CannotRun, match="cannot be written"):
        journal.add(Event.OPENED)
    assert journal.events == []


def test_half_a_line_does_not_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path / "events.jsonl")
    journal.add(Event.OPENED)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(CannotRun, match="No space left"):
            journal.add(Event.PAUSED)
    journal.add(Event.ENDED)
    assert [event["event"] for event in Journal(journal.file).events] == ["opened", "ended"]


def test_a_journal_that_counted_hints() -> None:
    """A class that began with an earlier version goes on with the hints that it had given."""
    one = {"seat": 1}
    turn = roster((0.0, "ready", one), (5.0, "hinted", {**one, "given": 2})).seat(1).turn
    assert turn.hints == [1, 2]
    again = roster((0.0, "ready", one), (5.0, "hinted", {**one, "number": 3})).seat(1).turn
    assert again.hints == [3]


def test_time_without_a_server_does_not_count() -> None:
    one = {"seat": 1}
    found = roster((0.0, "ready", one), (500.0, "opened", {"alive": 60.0}))
    assert found.seat(1).turn.seconds(510.0) == 70


def test_time_without_a_server_does_not_count_at_its_end(
    tmp_path: Path, faultlab: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in the evening, and `class end` the next morning."""
    monkeypatch.setenv("FAULTLAB_STATE", str(tmp_path))
    monkeypatch.setattr(verbs, "Stacks", FakeStacks)
    folder, plan = Folder("x"), planned()
    folder.make()
    journal, now = folder.journal(), time.time()
    journal.add(Event.PLANNED, plan=plan.model_dump(), labs=[["mtu", "gzip"]] * 3)
    journal.add(Event.READY, 1, t=now - 50_000)
    folder.alive.touch()
    os.utime(folder.alive, (now - 49_940, now - 49_940))
    minutes = [verbs.status(Terminal(), "x.toml").turns[0]["minutes"]]
    verbs.end(Terminal(), "x.toml")
    minutes.append(verbs.status(Terminal(), "x.toml").turns[0]["minutes"])
    assert minutes == [pytest.approx(1, abs=0.1)] * 2


def test_another_server_goes_on(tmp_path: Path) -> None:
    """From the journal and the keys alone: answers, hints, states, links."""
    with served(tmp_path) as it:
        it.post(1, "/seat/1/hint")
        it.post(1, "/seat/1/diagnose", RIGHT)
        it.post(2, "/seat/2/give-up")
        tokens = [it.keys.token(number) for number in (TRAINER, 1, 2, 3)]
    session = Fake(tmp_path)
    assert [seat.turn.state for seat in session.roster.seats] == ["red", "over", "red"]
    assert session.roster.seat(1).turn.answers == [[RIGHT]]
    assert session.roster.seat(1).turn.hints == [2]  # the first one is about half a repair
    assert [Keys(tmp_path / "keys.json").token(number) for number in (TRAINER, 1, 2, 3)] == tokens


@pytest.mark.parametrize("days", [3, -3])
def test_a_clock_that_is_set_ends_no_lab(
    days: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No lab and no link: three days are a second of the class, also for its next server."""
    real, folder = time.time, Folder("x")
    folder.path, folder.alive = tmp_path, tmp_path / "alive"
    with served(tmp_path, minutes=60) as it:
        it.wait(1, "red")
        it.session.note(Event.OPENED, alive=it.session.journal.now())
        link = it.keys.token(1)
        monkeypatch.setattr(time, "time", lambda: real() + days * 24 * 3600)
        time.sleep(0.5)
        turn = it.session.roster.seat(1).turn
        assert (turn.state, turn.why) == ("red", "")
        assert turn.seconds(it.session.journal.now()) < 60
        assert it.get(1, "/seat/1").status_code == 200
        with folder.hold("class start"):
            assert abs(folder.now() - real()) < 60  # what `class status` shows
        old = it.keys.token(2)
        assert it.post(TRAINER, "/trainer/seat/2/new-link").status_code == 200
        assert it.keys.token(2) != old and it.get(2, "/seat/2").status_code == 200
    with served(tmp_path, minutes=60) as it:
        assert it.keys.token(1) == link and it.get(1, "/seat/1").status_code == 200
        assert abs(it.session.journal.now() - real()) < 60
    monkeypatch.undo()
    assert Journal(tmp_path / "events.jsonl").now() - real() < 60


def test_another_boot_has_the_time_of_the_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path / "events.jsonl")
    journal.add(Event.OPENED)
    monkeypatch.setattr("faultlab.workshop.journal._boot", lambda: ("another", 5.0))
    assert abs(Journal(journal.file).now() - time.time()) < 5
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 3600)
    assert abs(Journal(journal.file).now() - time.time()) < 5
    monkeypatch.setattr(time, "time", lambda: real() - 3600)
    assert Journal(journal.file).now() >= journal.events[0]["t"]  # it never goes back


def test_what_was_starting_is_started_again(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "events.jsonl")
    journal.add(Event.STARTING, 1)
    with served(tmp_path) as it:
        assert (1, ("start", "mtu", "--blind", "--engine", "local")) in it.stacks.ran
