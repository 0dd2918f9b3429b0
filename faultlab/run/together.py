"""Together: labs that were proven with their faults at once, as a campaign of `verify` recorded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from faultlab.core import document, paths
from faultlab.core.errors import BadInput
from faultlab.lab import loader as labs
from faultlab.lab.model import Lab
from faultlab.run import digest

FILE = "docs/together.json"
SCHEMA = 1


@dataclass(frozen=True)
class _Case:
    """One walk: its lab, how it ended, and what it walked."""

    lab: str
    verdict: str
    lab_digest: str

    @property
    def counts(self) -> bool:
        """Whether it passed, and the labs are as they were then."""
        return self.verdict == "pass" and labs.here(self.lab) and self._unchanged

    @property
    def _unchanged(self) -> bool:
        return digest.walk(self.lab) == self.lab_digest


@dataclass(frozen=True)
class _File:
    cases: list[_Case]


def proven() -> list[Lab]:
    """Return the labs with several faults that passed each time, as they are. Raises BadInput."""
    cases = [*_cases()]
    once_not = {case.lab for case in cases if not case.counts}
    passed = dict.fromkeys(case.lab for case in cases if case.lab not in once_not)
    return [labs.load(lab_id) for lab_id in passed]


def _cases() -> Iterable[_Case]:
    """Return the cases of the file; none where there is no file."""
    file = paths.root() / FILE
    if not file.is_file():
        return []
    missing = BadInput(f"There is no file {FILE}.", f"git checkout {FILE}")
    found = document.read(file, SCHEMA, missing, "is not a result of verify")
    return document.shaped(_File, found, file).cases


def proven_of(parts: list[Lab], faults: int) -> list[Lab]:
    """Return those that have this number of faults, each of one of these labs.

    Raises BadInput without one.
    """
    known = {lab.id for lab in parts}
    found = [lab for lab in proven() if len(lab.of) == faults and known.issuperset(lab.of)]
    if not found:
        raise BadInput(
            f"No labs with {faults} faults at once are proven for this.", "faultlab list"
        )
    return found
