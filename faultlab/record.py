"""Record: `run.json`, the story of one run, written whole after every step.

A later failure or a `kill -9` loses nothing that was measured before.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from faultlab import paths
from faultlab.errors import CannotRun

SCHEMA = 1
_FILE = "run.json"


class Record:
    """The folder of one run and what its `run.json` says."""

    def __init__(self, folder: Path, facts: dict[str, Any]) -> None:
        self.folder = folder
        self.facts = facts

    @classmethod
    def create(cls, lab_id: str, stack: str, context: Mapping[str, Any]) -> Record:
        """Begin a run: a new folder under `runs/`. Raises CannotRun when it cannot be written."""
        now = datetime.now(UTC)
        run_id = f"{now:%Y%m%d-%H%M%S}-{lab_id}-{secrets.token_hex(2)}"
        facts: dict[str, Any] = {
            "schema": SCHEMA,
            "id": run_id,
            "lab": lab_id,
            "stack": stack,
            "started": now.isoformat(timespec="milliseconds"),
            **context,
            "events": [],
            "readings": {},
            "hints": 0,
        }
        record = cls(paths.runs() / run_id, facts)
        try:
            record.folder.mkdir(parents=True)
        except OSError as error:
            raise _unwritable(record.folder, error) from error
        record.save()
        return record

    @classmethod
    def open(cls, run_id: str) -> Record | None:
        """The record of an earlier run, or None when it is lost or damaged."""
        folder = paths.runs() / run_id
        try:
            facts = json.loads((folder / _FILE).read_text())
        except (OSError, ValueError):
            return None
        if not isinstance(facts, dict) or facts.get("schema") != SCHEMA:
            return None
        return cls(folder, facts)

    @property
    def id(self) -> str:
        """The name of the folder."""
        return self.folder.name

    def event(self, what: str, **facts: Any) -> None:
        """Note that something happened now."""
        at = datetime.fromisoformat(self.facts["started"]).timestamp()
        self.facts["events"].append({"t": round(time.time() - at, 3), "what": what, **facts})
        self.save()

    def happened(self, what: str) -> bool:
        """Was this event noted?"""
        return any(event["what"] == what for event in self.facts["events"])

    def save(self) -> None:
        """Write the file whole, or leave the old one. Raises CannotRun: a full disk, say."""
        file = self.folder / _FILE
        part = file.with_suffix(".part")
        try:
            part.write_text(json.dumps(self.facts, indent=1) + "\n")
            part.replace(file)
        except OSError as error:
            raise _unwritable(file, error) from error


def _unwritable(path: Path, error: OSError) -> CannotRun:
    return CannotRun(f"{path.name} cannot be written: {error.strerror}.", f"df -h {paths.root()}")
