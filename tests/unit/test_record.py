"""The record of a run: whole or not at all, and None when it cannot be trusted."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from faultlab.core.errors import BadInput, CannotRun
from faultlab.run.record import Record


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Record:
    monkeypatch.setenv("FAULTLAB_ROOT", str(tmp_path))
    return Record.create("mtu", "faultlab-mtu", {"kernel": "6.1"})


def stored(record: Record) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads((record.folder / "run.json").read_text())
    return facts


def test_a_new_record_is_on_disk_at_once(record: Record) -> None:
    facts = stored(record)
    assert facts["schema"] == 2 and facts["id"] == record.id
    assert (facts["lab"], facts["stack"], facts["kernel"]) == ("mtu", "faultlab-mtu", "6.1")
    assert facts["events"] == []


def test_an_event_is_on_disk_at_once(record: Record) -> None:
    record.event("measured", phase="healthy")
    (event,) = stored(record)["events"]
    assert (event["event"], event["phase"]) == ("measured", "healthy")
    assert 0 <= event["t"] < 60


def test_it_comes_back(record: Record) -> None:
    record.event("ready")
    again = Record.open(record.id)
    assert again is not None and again.id == record.id
    assert again.happened("ready") and not again.happened("down")


def test_a_record_of_version_1_is_read_by_its_new_names(record: Record) -> None:
    old = {
        **stored(record),
        "schema": 1,
        "events": [{"t": 1.0, "what": "ready"}],
        "judged": {"faulty": {"good": [], "bad": [], "signs": [{"name": "n"}]}},
        "matrix": [{"of": "mtu", "signs": []}],
    }
    (record.folder / "run.json").write_text(json.dumps(old))
    facts = Record.read(record.id).facts
    assert facts["schema"] == 2
    assert facts["events"] == [{"t": 1.0, "event": "ready"}]
    assert facts["judged"]["faulty"]["evidence"] == [{"name": "n"}]
    assert facts["matrix"] == [{"of": "mtu", "evidence": []}]


def test_a_record_without_a_version_is_of_the_first(record: Record) -> None:
    facts = {**stored(record), "events": [{"t": 1.0, "what": "ready"}]}
    del facts["schema"]
    (record.folder / "run.json").write_text(json.dumps(facts))
    assert Record.read(record.id).events == [{"t": 1.0, "event": "ready"}]
    assert Record.read(record.id).facts["readings"] == facts["readings"]
    (record.folder / "run.json").write_text(json.dumps({**facts, "schema": 3}))
    with pytest.raises(BadInput, match="has the version 3, and this faultlab reads 2"):
        Record.read(record.id)


def test_what_is_added_is_on_disk_and_costs_one_line(record: Record) -> None:
    """Each of an agent's commands wrote the whole record again."""
    before = (record.folder / "run.json").stat()
    for number in range(300):
        record.add("command", number=number)
    assert (record.folder / "run.json").stat().st_mtime_ns == before.st_mtime_ns
    lines = record.folder / "events.jsonl"
    assert lines.stat().st_size < 300 * 100
    again = Record.open(record.id)
    assert again is not None and [e["number"] for e in again.facts["events"]] == [*range(300)]
    record.event("verdict")
    assert not lines.exists()
    assert [e["event"] for e in stored(record)["events"]] == ["command"] * 300 + ["verdict"]


@pytest.mark.parametrize("half", ["", '[2, {"t": 3, "ev', "\0\0\0", "[2, 3]\n", "{}\n", "\xff\n"])
def test_a_kill_between_two_events_loses_none(half: str, record: Record) -> None:
    """A line that was not written whole is dropped, and one that is in the record comes once."""
    for name in ("a", "b"):
        record.add(name)
    lines = record.folder / "events.jsonl"
    whole = lines.read_text()
    lines.write_text(whole + half, encoding="latin-1")
    assert [e["event"] for e in Record.read(record.id).facts["events"]] == ["a", "b"]
    record.save()
    lines.write_text(whole)  # killed before it could be removed
    again = Record.read(record.id)
    assert [e["event"] for e in again.facts["events"]] == ["a", "b"]
    lines.write_text(whole + half, encoding="latin-1")
    again.add("c")
    assert [e["event"] for e in Record.read(record.id).facts["events"]] == ["a", "b", "c"]


def test_an_event_that_cannot_be_added_is_none(
    record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    record.add("a")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(CannotRun, match=r"events.jsonl cannot be written: No space left"):
            record.add("b")
    record.add("c")
    assert [e["event"] for e in Record.read(record.id).facts["events"]] == ["a", "c"]


def test_two_runs_of_one_second_are_two(record: Record) -> None:
    other = Record.create("mtu", "faultlab-mtu", {})
    assert other.folder != record.folder


@pytest.mark.parametrize("moment", ["write_text", "replace"])
def test_a_write_that_fails_leaves_the_old_file(
    moment: str, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    record.event("up")

    def half(self: Path, *args: Any, **_more: Any) -> None:
        if moment == "write_text":
            with self.open("w") as file:
                file.write(str(args[0])[:20])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, moment, half)
    with pytest.raises(CannotRun, match=r"run.json cannot be written: No space left on device\."):
        record.event("measured")
    monkeypatch.undo()
    assert [event["event"] for event in stored(record)["events"]] == ["up"]


def test_a_folder_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "runs").write_text("in the way")
    monkeypatch.setenv("FAULTLAB_ROOT", str(tmp_path))
    with pytest.raises(CannotRun) as stop:
        Record.create("mtu", "faultlab-mtu", {})
    assert stop.value.message.endswith("cannot be written: Not a directory.")
    assert stop.value.hint == "df -h"


@pytest.mark.parametrize(
    "damage",
    [
        *(b"", b'{"schema": 1, "events": [', b"\xff\xfe", b"[1]", b"null"),
        *(b'{"schema": 3, "events": []}', b'{"events": []}'),
    ],
)
def test_a_damaged_record_is_none(damage: bytes, record: Record) -> None:
    (record.folder / "run.json").write_bytes(damage)
    assert Record.open(record.id) is None


@pytest.mark.parametrize("run_id", ["", "20200101-000000-mtu-0000"])
def test_a_lost_record_is_none(run_id: str, record: Record) -> None:
    assert Record.open(run_id) is None
