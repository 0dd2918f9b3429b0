"""Campaign: what a verify was asked for and its cases so far, in one file, so it can continue.

A case in the file counts again only while its lab, its program and its engine are unchanged. A
complete campaign is never continued, so that no user gets yesterday's verdicts for today's. It can
only be extended by more walks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from faultlab.core import document, events, paths
from faultlab.core.errors import BadInput
from faultlab.run.record import VERDICTS
from faultlab.verify.case import Case, digests

SCHEMA = 1
_FOREIGN = "is not a result of verify"

Key = tuple[str, int]  # lab, number


@dataclass
class Campaign:
    """The labs to walk, how often each, in quick or whole walks; and the cases so far."""

    labs: list[str]
    repeat: int
    cases: list[Case] = field(default_factory=list)
    quick: bool = False

    @property
    def asked(self) -> list[Key]:
        """Return every case that the campaign wants."""
        return [(lab_id, number) for number in range(1, self.repeat + 1) for lab_id in self.labs]

    @property
    def missing(self) -> set[Key]:
        """Return the missing or interrupted cases; a skip counts for all cases of its lab."""
        made = {(case.lab, case.number) for case in self.cases if not case.interrupted}
        skipped = {case.lab for case in self.cases if case.verdict == "skip" and not case.engine}
        return {key for key in self.asked if key not in made and key[0] not in skipped}

    def write(self, file: Path) -> None:
        """Write the whole file, or keep the old one. Raises CannotRun."""
        paths.write_whole(file, events.text(self.document, indent=1) + "\n")

    @property
    def document(self) -> Document:
        """Return the content of the file."""
        counts = Counter(case.verdict for case in self.cases)
        return Document(
            SCHEMA,
            Asked(self.labs, self.repeat, self.quick, not self.missing),
            {verdict: counts[verdict] for verdict in reversed(VERDICTS)},
            self.cases,
        )


@dataclass(frozen=True)
class Asked:
    """The part `campaign` of the file, for a verify that continues it."""

    labs: list[str]
    repeat: int
    quick: bool = False
    finished: bool = False


@dataclass(frozen=True)
class Document:
    """The file: what was asked for, how many cases of each verdict, and the cases so far."""

    schema: int
    campaign: Asked
    counts: dict[str, int]
    cases: list[Case]


@dataclass(frozen=True)
class _File:
    cases: list[Case]
    campaign: Asked | None = None


def read(file: Path) -> Campaign:
    """Return the campaign in a file; one that an older program wrote counts as complete.

    Raises BadInput: missing, damaged, or of another kind.
    """
    missing = BadInput(f"There is no file {file}.", "faultlab verify --help")
    found = document.read(file, SCHEMA, missing, _FOREIGN)
    its = document.shaped(_File, found, file, _FOREIGN)
    if odd := [case.verdict for case in its.cases if case.verdict not in VERDICTS]:
        raise BadInput(f"{file} {_FOREIGN}: {odd[0]!r} is not a verdict.", f"less {file}")
    asked = its.campaign or Asked(list(dict.fromkeys(case.lab for case in its.cases)), 0)
    return Campaign(asked.labs, asked.repeat, its.cases, asked.quick)


def holds_something(file: Path) -> bool:
    """Return whether there is a file that is not empty; a pipe or a device holds nothing."""
    return file.is_file() and file.stat().st_size > 0


def unfinished(file: Path, wanted: Campaign) -> Campaign | None:
    """Return the campaign in a file if it is an interrupted part of the wanted one, or is to grow.

    Returns None if there is nothing or a complete one; the wanted one then starts afresh. Raises
    BadInput for a file of another kind, and for a part of another campaign, which must not be lost.
    """
    if not holds_something(file):
        return None
    old = read(file)
    alike = {*old.labs} <= {*wanted.labs} and old.quick == wanted.quick
    grows = 0 < old.repeat < wanted.repeat and alike and len(old.labs) == len(wanted.labs)
    if not old.missing:
        return old if grows else None
    if not (alike and old.repeat <= wanted.repeat):
        raise BadInput(
            f"{file} holds a campaign that was cut off and is not this one"
            f" ({len(old.labs)} labs x {old.repeat}).",
            f"its own command again, another file, or rm {file}",
        )
    return old


def still_good(old: Campaign, wanted: Campaign, engines: Mapping[str, str]) -> list[Case]:
    """Return the cases that still count: nothing that they depend on has changed since."""
    today = {lab_id: digests(lab_id) for lab_id in engines}
    found = {
        (case.lab, case.number): replace(case, kept=True)
        for case in old.cases
        if case.verdict != "skip" and not case.interrupted and case.lab_digest
        if case.engine == engines.get(case.lab)
        if (now := today[case.lab]) and {key: getattr(case, key) for key in now} == now
    }
    return [found[key] for key in wanted.asked if key in found]
