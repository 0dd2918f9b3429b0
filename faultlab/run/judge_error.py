"""Judge error: how often checks were wrong about repairs that were tried, from docs/judge.json.

Two errors are told apart. To accept an unsound repair is the worse one: a learner, a class or an
agent is told that users are served. To refuse a sound one costs time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Literal

from faultlab.core import document, paths
from faultlab.core.defaults import JUDGED
from faultlab.core.errors import BadInput
from faultlab.core.statistics import Share
from faultlab.core.text import number
from faultlab.lab.finding import Finding
from faultlab.lab.repair import KINDS, Expected

SCHEMA = 1
ALTERNATIVE, CHEAT = "alternative", "cheat"  # the kinds of repairs that a lab's own walk tries
ALL_KINDS = (*KINDS, ALTERNATIVE, CHEAT)

Got = Literal["accept", "refuse", "unknown", "broken"]


@dataclass(frozen=True)
class Seen:
    """A finding as people read it."""

    name: str
    measured: str
    wanted: str
    holds: bool

    @classmethod
    def of(cls, finding: Finding) -> Seen:
        """Return a finding with its value as text."""
        value = number(finding.value, finding.unit)
        return cls(finding.name, value, finding.wanted, finding.holds)

    @property
    def words(self) -> str:
        """Return a text such as `pages that come: 0 of 12, wanted 12`."""
        return f"{self.name}: {self.measured}, wanted {self.wanted}"


@dataclass(frozen=True)
class Tried:
    """A repair that was tried on a fresh fault, with the verdicts of a sound judge and the check.

    `broken`: a step of it failed, so it proves nothing. `unknown`: nothing could be judged. In both
    cases `reason` says why. `digest`: of the repair and of what judges it. `seed`: of the points
    that were drawn. `later`: minutes after which what was accepted was looked at again. That
    verdict counts. `walks`: the recorded walks that gave it, if the lab's own walk did.
    """

    lab: str
    title: str
    kind: str
    expected: Expected
    got: Got
    why: str = ""
    source: str = ""
    reason: str = ""
    findings: list[Seen] = field(default_factory=list)
    seconds: float = 0.0
    seed: str = ""
    later: float = 0.0
    digest: str = ""
    walks: int = 0
    run: str = ""
    phase: str = ""
    engine: str = ""
    began: str = ""
    commit: str = ""
    kernel: str = ""
    cpus: int = 0

    @property
    def key(self) -> tuple[str, str]:
        """Return what is the same as long as the repair and what judges it are the same."""
        return self.lab, self.digest

    @property
    def decided(self) -> bool:
        """Return whether the check said yes or no."""
        return self.got in ("accept", "refuse")

    @property
    def wrong(self) -> bool:
        """Return whether the check said the opposite of a sound judge."""
        return self.decided and self.got != self.expected

    @property
    def deciding(self) -> list[Seen]:
        """Return the findings that decided: those that failed, or all of an accepted one."""
        return [seen for seen in self.findings if seen.holds == (self.got == "accept")]


@dataclass(frozen=True)
class Errors:
    """The two errors of some repairs. `unsound`, `sound`: of those decided, the wrong ones."""

    unsound: Share
    sound: Share
    unknown: int
    broken: int

    @property
    def tried(self) -> int:
        """Return the number of repairs, decided or not."""
        return self.unsound.of + self.sound.of + self.unknown + self.broken


@dataclass(frozen=True)
class Document:
    """The file: the repairs that were tried, by lab."""

    rows: list[Tried]
    schema: int = SCHEMA


def errors(rows: Iterable[Tried]) -> Errors:
    """Return the two errors of some repairs."""
    every = list(rows)

    def wrong(expected: Expected) -> Share:
        its = [row for row in every if row.decided and row.expected == expected]
        return Share(len(its), sum(row.wrong for row in its))

    counts = [sum(row.got == got for row in every) for got in ("unknown", "broken")]
    return Errors(wrong("refuse"), wrong("accept"), *counts)


def share(of: Share) -> str:
    """Return a text such as `2 of 210 (1.0%, 95%: 0.3 to 3.4%)`."""
    if not of.of:
        return "0 of 0"
    low, high = of.interval
    return f"{of.happened} of {of.of} ({of.percent:.1f}%, 95%: {low:.1f} to {high:.1f}%)"


def said() -> str:
    """Return both errors for a page that shows verdicts; empty if they are not known here."""
    with suppress(BadInput):
        return line(recorded())
    return ""


def line(rows: Iterable[Tried]) -> str:
    """Return both errors of some repairs in three sentences; empty if none was judged."""
    every = [*rows]
    found, labs = errors(every), len({row.lab for row in every if row.decided})
    if not found.unsound.of + found.sound.of:
        return ""
    return (
        f"Repairs of {labs} {'lab' if labs == 1 else 'labs'} were tried."
        f" Wrongly accepted: {_short(found.unsound)}."
        f" Wrongly refused: {_short(found.sound)}."
    )


def _short(of: Share) -> str:
    low, high = of.interval
    return f"{of.happened} of {of.of} (95%: {low:.1f} to {high:.1f}%)"


def file() -> Path:
    """Return the file of the recorded campaign, which is also part of an installed package."""
    return paths.root() / JUDGED


def recorded() -> list[Tried]:
    """Return the rows of the recorded campaign; none without it. Raises BadInput if damaged."""
    found = file()
    return [*_kept(found, found.stat().st_mtime_ns)] if found.is_file() else []


@lru_cache(maxsize=2)
def _kept(found: Path, _changed: int) -> tuple[Tried, ...]:
    return tuple(read(found))


def read(of: Path) -> list[Tried]:
    """Return the rows of a file of judge-error. Raises BadInput: missing, damaged, another kind."""
    wrong = "is not a result of judge-error"
    missing = BadInput(f"There is no file {of}.", "faultlab judge-error --help")
    found = document.read(of, SCHEMA, missing, wrong)
    return document.shaped(Document, found, of, wrong).rows


def write(rows: Iterable[Tried], to: Path) -> None:
    """Write the whole file, a line for each repair. Raises CannotRun."""
    lines = [
        json.dumps({key: value for key, value in asdict(row).items() if value}, ensure_ascii=False)
        for row in rows
    ]
    text = ",\n".join(lines)
    paths.write_whole(to, f'{{"schema": {SCHEMA}, "rows": [\n{text}\n]}}\n')
