"""Results: every trial of a score in one file, rewritten after each look.

A trial in the file is not repeated unless its tool or its lab has changed since. So an interrupted
score continues where it was, and two halves make a whole.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NotRequired

from pydantic import ConfigDict
from typing_extensions import TypedDict

from faultlab.core import document, lock, paths
from faultlab.core.errors import BadInput
from faultlab.score.diagnosis import Diagnosis
from faultlab.score.trial import Kind

SCHEMA = 2

# alone: one tool a look; crowd: all tools at the same time, with all processors for everything.
Way = Literal["alone", "crowd"]
ALONE: Way = "alone"
CROWD: Way = "crowd"
CHEATER = "cheater"  # the agent that tries each cheat of a lab
TICKET = "ticket"  # the phase of a trial in which an agent had the ticket of a lab and no stack
Key = tuple[str, str, str, int, Way]  # tool, lab, phase, number, way

# Left out of the file if a trial does not have them.
_OPTIONAL = ("replayed", "took", "cpu", "memory", "effect", "agent")


class AgentTrial(TypedDict):
    """An agent's trial beside its diagnosis. None: not tried, or its harness does not know.

    `repaired`: the lab's check says yes after it. `cost` in US dollars. `later`: the minutes after
    which that was looked at again. `aborted`: by whom the trial was, if a machine ended in it.
    `model`: the name and version of its model, as the agent says. `decoys`: those that it took for
    the fault. `waited`: its seconds in checks, which are not in `seconds`. `visits`: how often the
    users came while it worked; `visits_lost`: how often they were not served. Other keys are kept.
    """

    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]

    repaired: bool | None
    commands: int
    seconds: float
    tokens: int | None
    cost: float | None
    model: NotRequired[str]
    later: NotRequired[float]
    aborted: NotRequired[str]
    decoys: NotRequired[list[str]]
    waited: NotRequired[float]
    visits: NotRequired[int]
    visits_lost: NotRequired[int]


@dataclass(frozen=True)
class Effect:
    """The first measure of the lab's check without the tool, and while the tool looked."""

    measure: str
    unit: str
    without: float
    beside: float

    @property
    def slowdown(self) -> float | None:
        """Return how many times as slow the lab was beside the tool; None for zero."""
        pair = self.without, self.beside
        slow, fast = pair if self.unit == "/s" else pair[::-1]
        return slow / fast if fast else None


@dataclass(frozen=True)
class Trial:
    """One tool, once, on one lab in one phase. All of a crowd with one `run` look together.

    `way`: what looked at the same time; trials of older versions are of a crowd. `replayed`: it
    read a recording of the look. `took`: the seconds of the trial. `cpu`: the CPU seconds of the
    tool's containers; `memory`: the largest one's peak in bytes. None if unknown.
    """

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
    way: Way = CROWD
    replayed: bool = False
    took: float | None = None
    cpu: float | None = None
    memory: int | None = None
    effect: Effect | None = None
    agent: AgentTrial | None = None

    @property
    def key(self) -> Key:
        """Return the tool, the lab, the phase, the number and the way of this trial."""
        return self.tool, self.lab, self.phase, self.number, self.way

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
        self.trials |= {trial.key: trial for trial in trials}
        self.save()

    def only(self, wanted: Callable[[Trial], bool]) -> Results:
        """Return the results of some trials."""
        return replace(self, trials={k: each for k, each in self.trials.items() if wanted(each)})

    def current(self, trial: Trial) -> bool:
        """Return whether a trial is of its tool as it is today, and not of an older version."""
        listed = self.tools.get(trial.tool, {})
        return listed.get("digest", trial.tool_digest) == trial.tool_digest

    def has(self, key: Key, made_of: tuple[str, str]) -> bool:
        """Return whether this trial was made with these digests of its tool and its lab."""
        made = self.trials.get(key)
        return made is not None and (made.tool_digest, made.lab_digest) == made_of

    def save(self) -> None:
        """Write the whole file, or keep the old one. Raises CannotRun."""
        head = {"schema": SCHEMA, **self.facts, "tools": dict(sorted(self.tools.items()))}
        lines = [
            json.dumps(_written(self.trials[key]), separators=(",", ":"), ensure_ascii=False)
            for key in sorted(self.trials)
        ]
        trials = ",\n".join(lines)  # a line each, for readable diffs
        text = json.dumps(head, indent=1).removesuffix("\n}") + f',\n "trials": [\n{trials}\n]}}\n'
        self.file.parent.mkdir(parents=True, exist_ok=True)
        paths.write_whole(self.file, text)


def _written(trial: Trial) -> dict[str, Any]:
    facts = asdict(trial)
    lacking = {key for key in _OPTIONAL if facts[key] is None or facts[key] is False}
    return {key: value for key, value in facts.items() if key not in lacking}


def _rename(found: dict[str, Any]) -> None:
    """Rename a key of version 1."""
    for trial in found["trials"]:
        trial["diagnosis"] = trial.pop("verdict")
        trial["kind"] = "diagnosis" if trial["kind"] == "verdict" else trial["kind"]


@contextmanager
def opened(name: str | None, usual: str, doing: str) -> Iterator[Results]:
    """Yield the results to continue: of a file, or of the usual one in runs/.

    Raises BadInput, and Held while another command writes this file.
    """
    file = Path(name) if name else paths.runs() / usual
    mark = hashlib.sha256(str(file.resolve()).encode()).hexdigest()[:12]
    with lock.hold(f"results-{mark}", doing):
        yield read(file) if file.exists() else Results(file)


def read(file: Path) -> Results:
    """Return the results in a file. Raises BadInput: missing, damaged, or of another version."""
    missing = BadInput(f"There is no file {file}.", "faultlab score --help")
    found = document.read(file, SCHEMA, missing, "is not a result of score", upgrade=_rename)
    its = document.shaped(Document, found, file)
    facts = {k: v for k, v in found.items() if k not in ("schema", "tools", "trials")}
    return Results(file, facts, its.tools, {trial.key: trial for trial in its.trials})
