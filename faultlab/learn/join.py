"""Join: a second fault, or a false lead, comes to a lab that is up, while its learner works on it.

The pages of a class use it. Nothing that is printed names what was there before.
"""

from __future__ import annotations

from dataclasses import dataclass

from faultlab.core.errors import BadInput
from faultlab.core.terminal import Terminal
from faultlab.run import joining, placement
from faultlab.run.attached import attached


@dataclass(frozen=True)
class Joined:
    """A fault or a decoy that has joined a lab. `run`: that of the lab."""

    lab: str
    run: str
    fault: str
    decoy: str


def join(term: Terminal, lab_id: str, fault: str, decoy: str) -> Joined:
    """Let a fault or a decoy join a lab that is up. What has joined before is not put in twice.

    Raises BadInput for what cannot be there together, SaidNo after a roll-back, CannotRun.
    """
    placement.refuse_unknown(lab_id)
    if bool(fault) == bool(decoy):
        raise BadInput("Name a fault, or a false lead with --decoy.", "faultlab join --help")
    with attached(lab_id, "join") as run:
        with term.step("join", "putting it in, and measuring what users meet") as step:
            run.note = step.note
            if fault:
                joining.fault(run, fault)
            else:
                joining.decoy(run, decoy)
            step.done("it is there")
        return Joined(lab_id, run.record.id, fault, decoy)
