"""Measured: what a run has measured so far, and what its lab's check says of it.

It needs the record and the check, no engine: a run that is over is judged like one that is up.
"""

from collections.abc import Collection, Iterable
from dataclasses import asdict
from typing import Any

from faultlab.core.errors import CannotRun
from faultlab.lab.check import Check, Finding, Reading
from faultlab.lab.model import Lab
from faultlab.run.record import Record

HEALTHY = "healthy"
FAULTY = "faulty"
FIXED = "fixed"
BEFORE = ", before"  # ends a phase that shows the fault again, before an alternative
STILL = "healthy, late"  # a fresh stack before its fault, late in the walk
PHASES = (HEALTHY, FAULTY, FIXED)  # of the main walk


def showing(lab: Lab, found: Iterable[Finding], gone: Collection[int] = ()) -> list[Finding]:
    """Return the findings of no fault, and of the faults that show while some are gone."""
    stages = [None, *lab.showing(gone)]
    return [finding for finding in found if finding.stage in stages]


def sentences(found: Iterable[Finding]) -> list[str]:
    """Return what findings say to a learner, each sentence once."""
    return list(dict.fromkeys(finding.says for finding in found if finding.says))


class Measured:
    """The readings of one run, judged by the check of its lab."""

    def __init__(self, lab: Lab, check: Check[Any, Any], record: Record) -> None:
        self.lab = lab
        self.check = check
        self.record = record

    @property
    def phases(self) -> list[str]:
        """The phases it has come to, in this order."""
        return list(self.record.facts["readings"])

    def reading(self, phase: str) -> Reading[Any, Any]:
        """A reading of this run. Raises CannotRun when the run did not get there."""
        stored = self.record.facts["readings"].get(phase)
        if stored is None:
            raise CannotRun(f"The run did not get to the phase {phase!r}.")
        return self.check.load(stored)

    def good(self, phase: str) -> list[Finding]:
        """Findings that all hold when the phase looks as it should."""
        return self.check.good(self.reading(phase), self.reading(HEALTHY))

    def bad(self, phase: str) -> list[Finding]:
        """Findings that all hold when the phase shows the symptom."""
        return self.check.bad(self.reading(phase), self.reading(HEALTHY))

    def ill(self, phase: str, gone: Collection[int] = ()) -> list[Finding]:
        """Return the symptom's findings that must hold while, of several faults, these are gone."""
        return showing(self.lab, self.bad(phase), gone)

    def undecided(self, phase: str) -> list[Finding]:
        """Return the findings between their two limits in a phase, which prove nothing."""
        return self.check.undecided(self.reading(phase), self.reading(HEALTHY))

    def expected(self, phase: str) -> list[Finding]:
        """Return what must hold after inject: the symptom, or for a control that all is well."""
        return self.good(phase) if self.lab.control else self.ill(phase)

    def evident(self, phase: str) -> list[Finding]:
        """Return the evidence as found; none when the run did not look for it."""
        reading = self.reading(phase)
        return [] if reading.before is None else self.check.evident(reading)

    def findings(self, phase: str) -> dict[str, list[dict[str, Any]]]:
        """Return all that the check says of a phase, as the record keeps it."""
        found = {"good": self.good(phase), "bad": self.bad(phase), "evidence": self.evident(phase)}
        return {kind: [asdict(finding) for finding in each] for kind, each in found.items()}
