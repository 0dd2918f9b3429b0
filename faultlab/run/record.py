"""Record: `run.json`, the story of one run, rewritten after every step.

The commands of an agent are many: they are lines of `events.jsonl` until the next step. A later
failure or a `kill -9` loses nothing that was measured before. docs/run-record.md describes the
content.
"""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from threading import RLock
from typing import Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from faultlab.core import document, paths
from faultlab.core.errors import BadInput, CannotRun
from faultlab.core.naming import flat
from faultlab.lab import release

SCHEMA = 2
_RENAMED = {"what": "event", "signs": "evidence"}  # since version 1
VERDICTS = ("fail", "unknown", "skip", "pass")  # from the worst to the best
READY = "ready"  # after this event a learner can work
SHOWN, GONE = "shown", "gone"  # keys: numbers of the faults of a lab that has several
# Keys: the lab by whose measures a stack is judged that has room for a second fault, and that fault
# since it is there.
ROOM, JOINED = "room", "joined"
# After each of these, nothing is hidden from the learner of a mystery.
GAVE_UP, TOLD, DOWN = "gave up", "told", "down"
FILE = "run.json"
_FIRST_RELEASE = "bookworm"  # of runs that are older than this key
_ADDED = "events.jsonl"  # events since run.json was written, each with its place in the list
_ID = re.compile(r"\d{8}-\d{6}-(?P<lab>[a-z0-9-]+)-[0-9a-f]{4}")


def worst(tests: Iterable[Mapping[str, str]]) -> str:
    """Return the worst verdict of these tests; empty without a test."""
    said = {test["verdict"] for test in tests}
    return next((verdict for verdict in VERDICTS if verdict in said), "")


def _rename(facts: dict[str, Any]) -> None:
    """Rename the keys of a record of version 1."""
    for part in [*facts["events"], *facts.get("judged", {}).values(), *facts.get("matrix", ())]:
        for old, new in _RENAMED.items():
            if old in part:
                part[new] = part.pop(old)


def _add_since(events: list[Any], file: Path) -> None:
    """Add the events of lines that came after the record was written.

    A kill can leave half a line, or lines that are in the record already.
    """
    try:
        lines = file.read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return
    for line in lines:
        with suppress(ValueError, TypeError, RecursionError):
            place, event = json.loads(line)
            if place == len(events) and isinstance(event, dict):
                events.append(event)


def span(event: Mapping[str, Any]) -> tuple[float, float]:
    """Return the begin and end of a measured phase; older records have the end only."""
    return event["t"] - event.get("took", 0.0), event["t"]


class _Event(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True)
    t: float
    event: str


class _Finding(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True)
    name: str


class Facts(BaseModel):
    """The facts that every reader needs; all others are for people."""

    model_config = ConfigDict(extra="allow")
    id: str
    lab: str
    started: AwareDatetime
    events: list[_Event]
    readings: dict[str, dict[str, Any]]
    judged: dict[str, dict[str, list[_Finding]]] = Field(default={})
    tests: list[dict[str, str]] = Field(default=[])


@dataclass(eq=False)
class Record:
    """The folder of one run and the content of its `run.json`."""

    folder: Path
    facts: dict[str, Any]
    # Commands of an agent are recorded by several threads, also while a look is.
    changing: RLock = field(default_factory=RLock, repr=False)

    @classmethod
    def create(cls, lab_id: str, stack: str, context: Mapping[str, Any]) -> Record:
        """Begin a run with a new folder under `runs/`. Raises CannotRun if it cannot be written."""
        now = datetime.now(UTC)
        run_id = f"{now:%Y%m%d-%H%M%S}-{flat(lab_id)}-{secrets.token_hex(2)}"
        facts: dict[str, Any] = {
            "schema": SCHEMA,
            "id": run_id,
            "lab": lab_id,
            "stack": stack,
            "started": now.isoformat(timespec="milliseconds"),
            **context,
            "events": [],
            "readings": {},
            "judged": {},
            "tests": [],
        }
        record = cls(paths.runs() / run_id, facts)
        try:
            record.folder.mkdir(parents=True)
        except OSError as error:
            raise paths.unwritable(record.folder, error) from error
        record.save()
        return record

    @classmethod
    def open(cls, run_id: str) -> Record | None:
        """Return the record of an earlier run; None if it is lost or damaged."""
        with suppress(BadInput):
            return cls.read(run_id)
        return None

    @classmethod
    def ready(cls, run_id: str) -> Record | None:
        """Return the record of a lab that was handed over to a learner; None if it was not."""
        record = cls.open(run_id)
        return record if record and record.happened(READY) else None

    @classmethod
    def read(cls, run_id: str) -> Record:
        """Return the record of an earlier run. Raises BadInput: lost, damaged, other version."""
        folder = paths.runs() / run_id
        if not run_id or Path(run_id).name != run_id or not folder.is_dir():
            raise BadInput(f"There is no run {run_id!r}.", "faultlab runs")
        file, name = folder / FILE, f"The record of the run {run_id}"
        missing = BadInput(f"The run {run_id} has no {FILE}.", f"ls {folder}")
        facts = document.read(file, SCHEMA, missing, name=name, upgrade=_rename)
        if isinstance(facts.get("events"), list):
            _add_since(facts["events"], folder / _ADDED)
        document.shaped(Facts, facts, file, name=name)
        facts.setdefault("judged", {})
        facts.setdefault("tests", [])
        return cls(folder, facts)

    @staticmethod
    def ids(lab_id: str = "") -> list[str]:
        """Return the runs (of one lab), the newest first. Their records can be damaged."""
        folder = paths.runs()
        names = [p.name for p in folder.iterdir() if p.is_dir()] if folder.is_dir() else []
        found = [match for name in names if (match := _ID.fullmatch(name))]
        return sorted(
            (m[0] for m in found if lab_id == "" or flat(lab_id) == m["lab"]), reverse=True
        )

    @property
    def id(self) -> str:
        """Return the name of the folder."""
        return self.folder.name

    @property
    def lab(self) -> str:
        """Return the id of the lab."""
        return str(self.facts["lab"])

    @property
    def stack(self) -> str:
        """Return the name of the stack; empty in a record that is older than this key."""
        return str(self.facts.get("stack", ""))

    def refuse_other_release(self) -> None:
        """Raise CannotRun if the stack was made for another release than that of this command."""
        made_of = str(self.facts.get("release", _FIRST_RELEASE))
        if made_of != release.now().suite:
            raise CannotRun(
                f"This lab is up on {made_of}, and {release.now().suite} is chosen.",
                f"export {release.VARIABLE}={made_of}",
            )

    @property
    def events(self) -> list[dict[str, Any]]:
        """Return what happened: `t` in seconds since the run began, `event`, and its facts."""
        found: list[dict[str, Any]] = self.facts["events"]
        return found

    @property
    def readings(self) -> dict[str, dict[str, Any]]:
        """Return the last reading of each phase."""
        found: dict[str, dict[str, Any]] = self.facts["readings"]
        return found

    @property
    def judged(self) -> dict[str, dict[str, list[dict[str, Any]]]]:
        """Return the findings of each phase that was judged, by their group."""
        found: dict[str, dict[str, list[dict[str, Any]]]] = self.facts["judged"]
        return found

    @property
    def tests(self) -> list[dict[str, str]]:
        """Return what pytest said of a verified run: `test`, `verdict` and `text`."""
        found: list[dict[str, str]] = self.facts["tests"]
        return found

    @property
    def began(self) -> float:
        """Return when the run began, in seconds since 1970."""
        return datetime.fromisoformat(self.facts["started"]).timestamp()

    @property
    def verdict(self) -> str:
        """Return the verdict of the worst test of a verified run; empty if it was not judged."""
        return worst(self.tests)

    def event(self, event: str, /, **facts: Any) -> None:
        """Record that something happened now."""
        told = {"t": round(time.time() - self.began, 3), "event": event, **facts}
        with self.changing:
            self.events.append(told)
            self.save()

    def add(self, event: str, /, **facts: Any) -> None:
        """Record that something happened now, in one line: for what happens many times."""
        told = {"t": round(time.time() - self.began, 3), "event": event, **facts}
        with self.changing:
            line = json.dumps([len(self.events), told])
            paths.add_line(self.folder / _ADDED, line)
            self.events.append(told)

    def happened(self, name: str) -> bool:
        """Return whether this event was recorded."""
        return any(event["event"] == name for event in self.events)

    @property
    def told(self) -> bool:
        """Return whether nothing of a mystery is hidden from its learner any more."""
        return any(event["event"] in (GAVE_UP, TOLD, DOWN) for event in self.events)

    @property
    def hints(self) -> list[int]:
        """Return the numbers of the hints that were given, from 1."""
        return [event["number"] for event in self.events if event["event"] == "hint"]

    def save(self) -> None:
        """Write the whole file or keep the old one. Raises CannotRun, as on a full disk."""
        with self.changing:
            paths.write_whole(self.folder / FILE, json.dumps(self.facts, indent=1) + "\n")
            (self.folder / _ADDED).unlink(missing_ok=True)
