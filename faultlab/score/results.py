"""Results: every trial of a score in one file, rewritten after each look.

A trial in the file is not repeated unless its tool or its lab has changed since. So an interrupted
score continues where it was, and two halves make a whole.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from faultlab.core import document, paths
from faultlab.core.errors import BadInput
from faultlab.lab.model import Lab
from faultlab.run import digest
from faultlab.score.diagnosis import Diagnosis
from faultlab.score.tool import Tool
from faultlab.score.trial import Kind

SCHEMA = 2

Key = tuple[str, str, str, int]  # tool, lab, phase, number


@dataclass(frozen=True)
class Trial:
    """One tool, once, on one lab in one phase. All trials of one `run` looked at the same time."""

    tool: str
    lab: str
    phase: str
    number: int
    tool_digest: str
    lab_digest: str
    kind: Kind
    diagnosis: Diagnosis | None = None
    reason: str = ""
    run: str = ""
    agent: dict[str, Any] | None = None

    @property
    def key(self) -> Key:
        """Return the tool, the lab, the phase and the number of this trial."""
        return self.tool, self.lab, self.phase, self.number

    @property
    def alarm(self) -> bool:
        """Return whether the tool raised an alarm."""
        return self.diagnosis is not None and self.diagnosis.alarm


@dataclass(frozen=True)
class Document:
    """The file: the tools by name, each trial, and where they were made."""

    tools: dict[str, dict[str, str]]
    trials: list[Trial]
    schema: int = SCHEMA
    seed: int | None = None
    machine: dict[str, Any] = field(default_factory=dict)


@dataclass
class Results:
    """The trials, and what a reader needs to know about where they were made."""

    file: Path
    facts: dict[str, Any] = field(default_factory=dict)
    tools: dict[str, dict[str, str]] = field(default_factory=dict)
    trials: dict[Key, Trial] = field(default_factory=dict)

    def add(self, trials: Iterable[Trial]) -> None:
        """Add these trials, replace older ones of the same key, and write the file."""
        for trial in trials:
            self.trials[trial.key] = trial
        self.save()

    def has(self, tool: Tool, lab: Lab, phase: str, number: int) -> bool:
        """Return whether this trial was made with the present state of the tool and the lab."""
        made = self.trials.get((tool.id, lab.id, phase, number))
        return made is not None and (made.tool_digest, made.lab_digest) == (
            tool.digest,
            digest.fault(lab),
        )

    def save(self) -> None:
        """Write the whole file, or keep the old one. Raises CannotRun."""
        head = {"schema": SCHEMA, **self.facts, "tools": dict(sorted(self.tools.items()))}
        lines = [
            json.dumps(asdict(self.trials[key]), separators=(",", ":"), ensure_ascii=False)
            for key in sorted(self.trials)
        ]
        trials = ",\n".join(lines)  # a line each, for readable diffs
        text = json.dumps(head, indent=1).removesuffix("\n}") + f',\n "trials": [\n{trials}\n]}}\n'
        self.file.parent.mkdir(parents=True, exist_ok=True)
        paths.write_whole(self.file, text)


def _rename(found: dict[str, Any]) -> None:
    """Rename a key of version 1."""
    for trial in found["trials"]:
        trial["diagnosis"] = trial.pop("verdict")
        trial["kind"] = "diagnosis" if trial["kind"] == "verdict" else trial["kind"]


def read(file: Path) -> Results:
    """Return the results in a file. Raises BadInput: missing, damaged, or of another version."""
    missing = BadInput(f"There is no file {file}.", "faultlab score --help")
    found = document.read(file, SCHEMA, missing, "is no result of a score", upgrade=_rename)
    its = document.shaped(Document, found, file)
    facts = {k: v for k, v in found.items() if k not in ("schema", "tools", "trials")}
    return Results(file, facts, its.tools, {trial.key: trial for trial in its.trials})
