"""Measured: the readings of a run so far, and what the check of its lab says about them.

It needs the record and the check but no engine, so a finished run is judged like a running one.
"""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from faultlab.core.errors import CannotRun
from faultlab.lab.check import Check
from faultlab.lab.finding import Finding
from faultlab.lab.model import Lab
from faultlab.lab.reading import Reading
from faultlab.run.phase import FAULTY, HEALTHY, STILL, Phase
from faultlab.run.record import Record


def shows(lab: Lab, evidence: Iterable[Finding]) -> bool:
    """Return whether the evidence shows: all of it, or any if several faults hide each other."""
    return (any if lab.several else all)(finding.holds for finding in evidence)


def as_seen(lab: Lab, findings: Iterable[Finding]) -> list[Finding]:
    """Return findings as a learner may see them: without their fault if the lab is not named."""
    return [each.unnamed if lab.unnamed else each for each in findings]


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
    def phases(self) -> list[Phase]:
        """Return the phases that were reached, in this order."""
        return [*map(Phase, self.record.readings)]

    def reading(self, phase: str) -> Reading[Any, Any]:
        """Return a reading of this run. Raises CannotRun if the run did not get there."""
        stored = self.record.readings.get(phase)
        if stored is None:
            raise CannotRun(f"The run did not get to the phase {phase!r}.")
        return self.check.load(stored)

    def good(self, phase: str) -> list[Finding]:
        """Return findings that all hold if the phase is healthy."""
        return self.check.good(self.reading(phase), self.reading(HEALTHY))

    def bad(self, phase: str) -> list[Finding]:
        """Return findings that all hold if the phase shows the symptom."""
        return self.check.bad(self.reading(phase), self.reading(HEALTHY))

    def ill(self, phase: str) -> list[Finding]:
        """Return the findings of the symptom that hold if nothing is repaired.

        Of several faults one can hide another. So these are the findings that hold, or held when
        the faults were proven; of a phase with one fault left, those of that fault.
        """
        bad = self.bad(phase)
        if not self.lab.several:
            return bad
        if left := Phase(phase).left:
            return [finding for finding in bad if finding.fault == left]
        examinee = Phase(phase).of_examinee and FAULTY in self.phases
        proven = self.bad(FAULTY) if examinee else bad
        shown = {finding.name for finding in proven if finding.holds and finding.fault}
        return [finding for finding in bad if finding.name in shown] or bad

    def traces(self, phase: str) -> set[str]:
        """Return the faults of which evidence shows; none if the run did not look for it."""
        return {item.fault for item in self.evident(phase) if item.holds}

    def harmed(self, phase: str) -> bool:
        """Return whether what must hold in every phase is far from holding in this one."""
        return self.check.harmed(self.reading(phase), self.reading(HEALTHY))

    def expected(self, phase: str) -> list[Finding]:
        """Return what must hold after inject: the symptom, or health where users feel none."""
        return self.good(phase) if self.lab.control or self.lab.silent else self.ill(phase)

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
