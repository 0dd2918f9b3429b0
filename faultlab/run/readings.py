"""Measured: the readings of a run so far, and what the check of its lab says about them.

It needs the record and the check but no engine, so a finished run is judged like a running one.
"""

from collections.abc import Collection, Iterable
from dataclasses import asdict
from typing import Any

from faultlab.core.errors import CannotRun
from faultlab.lab.check import Check
from faultlab.lab.finding import Finding
from faultlab.lab.model import Lab
from faultlab.lab.reading import Reading
from faultlab.run.record import Record

HEALTHY = "healthy"
FAULTY = "faulty"
FIXED = "fixed"
BEFORE = ", before"  # the end of a phase that shows the fault again, before an alternative
ALTERNATIVE = "alternative "  # the beginning of a phase after an alternative; its number follows
CHEAT = "cheat "  # the beginning of a phase after a cheat; its number follows
STILL = "healthy, late"  # a fresh stack before its fault, late in the walk
CHECK = "check"  # what a learner has done so far
VERDICT = "verdict"  # what an agent has done in the end
LATER = "later"  # the same a few minutes later: this is the verdict that counts
REPAIR = "repair "  # the beginning of a phase after a repair of repairs.toml; its number follows
PHASES = (HEALTHY, FAULTY, FIXED)  # of the main walk


def of_examinee(phase: str) -> bool:
    """Return whether a phase shows what an examinee has done, so that an outage is their result."""
    return phase in (CHECK, VERDICT, LATER) or phase.startswith(REPAIR)


def showing(lab: Lab, found: Iterable[Finding], gone: Collection[int] = ()) -> list[Finding]:
    """Return the findings of no fault, and of the faults that show while some are fixed."""
    stages = [None, *lab.showing(gone)]
    return [finding for finding in found if finding.stage in stages]


def sentences(found: Iterable[Finding]) -> list[str]:
    """Return the sentences of the findings for a learner, each one once."""
    return list(dict.fromkeys(finding.says for finding in found if finding.says))


class Measured:
    """The readings of one run, judged by the check of its lab."""

    def __init__(self, lab: Lab, check: Check[Any, Any], record: Record) -> None:
        self.lab = lab
        self.check = check
        self.record = record

    @property
    def phases(self) -> list[str]:
        """Return the phases that were reached, in this order."""
        return list(self.record.facts["readings"])

    def reading(self, phase: str) -> Reading[Any, Any]:
        """Return a reading of this run. Raises CannotRun if the run did not get there."""
        stored = self.record.facts["readings"].get(phase)
        if stored is None:
            raise CannotRun(f"The run did not get to the phase {phase!r}.")
        return self.check.load(stored)

    def good(self, phase: str) -> list[Finding]:
        """Return findings that all hold if the phase is healthy."""
        return self.check.good(self.reading(phase), self.reading(HEALTHY))

    def bad(self, phase: str) -> list[Finding]:
        """Return findings that all hold if the phase shows the symptom."""
        return self.check.bad(self.reading(phase), self.reading(HEALTHY))

    def ill(self, phase: str, gone: Collection[int] = ()) -> list[Finding]:
        """Return the findings of the symptom that must hold while these faults are fixed."""
        return showing(self.lab, self.bad(phase), gone)

    def harmed(self, phase: str) -> bool:
        """Return whether what must hold in every phase is far from holding in this one."""
        return self.check.harmed(self.reading(phase), self.reading(HEALTHY))

    def expected(self, phase: str) -> list[Finding]:
        """Return what must hold after inject: the symptom, or for a control the healthy state."""
        return self.good(phase) if self.lab.control else self.ill(phase)

    def moved(self) -> str:
        """Return how far the healthy speed has changed since the walk began, if that matters.

        It does not if each look is judged the same by either speed, and so by each one between.
        """
        early, late = self.reading(HEALTHY), self.reading(STILL)
        apart = self.check.apart(early, late)
        for now in map(self.reading, self.phases if apart else ()):
            for judge in (self.check.good, self.check.bad):
                pairs = zip(judge(now, early), judge(now, late), strict=True)
                if any(one.holds != other.holds for one, other in pairs):
                    return "; ".join(apart)
        return ""

    def must_not_move(self) -> None:
        """Raise CannotRun if the healthy speed has changed so far that it matters."""
        if moved := self.moved():
            raise CannotRun(
                f"The healthy stack is not what it was when the walk began: {moved}.",
                f"faultlab verify {self.lab.alias}",
            )

    def evident(self, phase: str) -> list[Finding]:
        """Return the evidence as found; empty if the run did not look for it."""
        reading = self.reading(phase)
        return [] if reading.before is None else self.check.evident(reading)

    def findings(self, phase: str) -> dict[str, list[dict[str, Any]]]:
        """Return everything that the check says about a phase, in the form of the record."""
        found = {"good": self.good(phase), "bad": self.bad(phase), "evidence": self.evident(phase)}
        return {kind: [asdict(finding) for finding in each] for kind, each in found.items()}
