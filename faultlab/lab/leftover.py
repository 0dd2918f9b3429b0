"""Leftover: a program that runs beside a stack since somebody has worked on it.

One that waits can undo a repair later. One without which the service is faulty masks the fault.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from faultlab.lab.finding import Finding
from faultlab.lab.limits import exactly

_LONGEST = 120  # characters of a command in a sentence


@dataclass(frozen=True)
class Leftover:
    """A program that was not there when the fault was injected, and belongs to no daemon.

    `waits`: it sleeps, or it is a shell that has not ended its work. `serves`: it has a listening
    socket, so it can be a part of a repair.
    """

    machine: str
    command: str
    waits: bool = False
    serves: bool = False

    @property
    def short(self) -> str:
        """Return its command, cut off if it is long."""
        words = " ".join(self.command.split())
        return words if len(words) <= _LONGEST else words[: _LONGEST - 1] + "…"


def findings(left: Iterable[Leftover]) -> list[Finding]:
    """Return a finding for each command that still waits. None of them holds."""
    wanted, waiting = exactly(0).words(0, ""), [each for each in left if each.waits]
    return [
        Finding(
            f"commands that wait on {each.machine}: {each.short}",
            1.0,
            "",
            wanted,
            False,
            says=f"On {each.machine} a command still waits in the background: {each.short}."
            " End it, then check again.",
        )
        for each in waiting
    ]


def without(left: Iterable[Leftover], amiss: Sequence[Finding]) -> Finding:
    """Return whether the service is as it should be without the programs that were left over.

    `amiss`: what did not hold while they were frozen.
    """
    names = [f"`{each.short}` runs on {each.machine}" for each in left if not each.serves]
    says = f"It holds only while {', and while '.join(names)}." if amiss else ""
    wanted, name = exactly(0).words(0, ""), "amiss while what was left running is frozen"
    return Finding(name, float(len(amiss)), "", wanted, not amiss, says=says)
