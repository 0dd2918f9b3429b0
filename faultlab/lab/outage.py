"""Outage: a machine or daemon that has ended, a machine that was started again, or no measurement.

Users get nothing from it, so a repair that leaves it so is none. Nor is one after which nothing can
be measured: without that, an agent could spoil what it would fail.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from faultlab.lab.finding import Finding
from faultlab.lab.limits import exactly


@dataclass(frozen=True)
class Outage:
    """A machine or daemon that does not run. `exit_code`: None if it runs, but was restarted.

    `hindered`: why nothing could be measured twice, though everything runs; then it has no name.
    """

    name: str
    exit_code: int | None
    hindered: str = ""

    @property
    def says(self) -> str:
        """Return it as a sentence."""
        if self.hindered:
            return f"The users could not be measured, twice: {self.hindered}"
        if self.exit_code is None:
            return f"{self.name} was started again, and everything set on it since is gone."
        return f"{self.name} has ended (exit code {self.exit_code}); its users get nothing."


def findings(outages: Iterable[Outage]) -> list[Finding]:
    """Return a finding for each outage. None of them holds."""
    wanted = exactly(1).words(0, "")
    return [_finding(each, wanted) for each in outages]


def _finding(each: Outage, wanted: str) -> Finding:
    if each.hindered:
        return Finding("the users can be measured", 0.0, "", wanted, False, says=each.says)
    name = f"{each.name} runs" + (", and was not started again" if each.exit_code is None else "")
    return Finding(name, 0.0, "", wanted, False, says=each.says)
