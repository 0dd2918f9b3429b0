"""Finding: one judgement of a check, in words and numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace

from faultlab.core.text import number


@dataclass(frozen=True)
class Finding:
    """One judgement in words and numbers. `says`: a measure's sentence for the learner."""

    name: str
    value: float
    unit: str
    wanted: str
    holds: bool
    fault: str = ""
    says: str = ""

    @property
    def unnamed(self) -> Finding:
        """Return it without its fault, which a measure of several faults has before its name."""
        return replace(self, name=self.name.removeprefix(f"{self.fault}: "))

    @property
    def cells(self) -> tuple[bool, str, str, str]:
        """Return whether it holds, and its name, value and limit as text."""
        return self.holds, self.name, number(self.value, self.unit), self.wanted

    @property
    def words(self) -> str:
        """Return a text such as `p99: measured 0.62 s, wanted at most 0.08 s (2 x healthy)`."""
        return f"{self.name}: measured {number(self.value, self.unit)}, wanted {self.wanted}"
