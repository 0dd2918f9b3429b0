"""Cases: labs in phases under neutral numbers, as a harness gives them to an agent.

The number is all that an agent sees. The order depends on a seed, so the number says nothing.
"""

import random
import re
from collections.abc import Sequence
from contextlib import AbstractContextManager

from pydantic import Field

from faultlab.agents import host, session
from faultlab.agents.session import Session, Verdict
from faultlab.core import lock
from faultlab.core.document import Strict
from faultlab.core.errors import BadInput, CannotRun
from faultlab.core.naming import CASE, case_name, stack_name
from faultlab.core.terminal import Terminal
from faultlab.lab import loader as labs
from faultlab.lab import vocabulary
from faultlab.lab.model import KERNEL, NO_FAULT, Step
from faultlab.run import late, placement
from faultlab.run.phase import FAULTY, PHASES

_INSTRUCTION = """{ticket}

You are the engineer on duty. The machines and daemons are {machines}. You are root there. They have
no way out to the internet. On `{host.NAME}` only these commands work: `{host.USAGE}`

1. Find out what is wrong. It is possible that nothing is wrong; then change nothing.
2. Say what is wrong, in these words. Use `{none}` three times if nothing is wrong.
   - component: {components}
   - resource: {resources}
   - cause: {causes}
3. Repair it, so that all users are served as before. Only what users meet is measured.
"""


class Case(Strict):
    """A lab in a phase; `number` is all that the agent sees of it.

    `later`: minutes after which a repair is looked at again; 0 for never.
    """

    lab: str
    phase: str
    number: int = Field(ge=0)
    later: float = Field(ge=0, le=late.MOST, default=late.MINUTES, strict=False)

    @property
    def name(self) -> str:
        """Return the neutral name."""
        return case_name(self.number)

    @property
    def faulty(self) -> bool:
        """Return whether something is wrong in it."""
        return self.phase == FAULTY and not labs.load(self.lab).control

    @property
    def instruction(self) -> str:
        """Return the ticket and the task, in words that name neither the lab nor the phase."""
        lab = labs.load(self.lab)
        machines = ", ".join(lab.services.needed(lab.daemons))
        words = {
            part: ", ".join(its) for part, its in vars(vocabulary.words(lab.collection)).items()
        }
        return _INSTRUCTION.format(
            ticket=lab.ticket.rstrip(), machines=machines, host=host, none=NO_FAULT, **words
        )

    def begin(self) -> AbstractContextManager[Session]:
        """Return a session on a fresh stack. Raises CannotRun if no engine here can run the lab."""
        lab = labs.load(self.lab)
        if any(step.at == KERNEL for step in lab.fix):
            # An agent has no shell there, so none could repair it.
            raise CannotRun(f"{lab.id} is repaired in the kernel of the lab VM.", "faultlab list")
        return session.open(placement.at_hand(lab), lab, self.phase, self.number, self.later)

    def scores(self, verdict: Verdict) -> dict[str, float]:
        """Return the parts of a verdict that apply, as numbers.

        Where nothing is wrong, there is nothing to repair or to name. A false alarm counts there,
        and whether the users are still served.
        """
        if self.faulty:
            parts = {
                "repaired": verdict.repaired,
                "cause": verdict.cause,
                "component": verdict.component,
            }
        else:
            parts = {"false_alarm": verdict.false_alarm, "unharmed": verdict.repaired}
        found = {part: float(good) for part, good in parts.items()}
        return found | {"commands": verdict.commands, "seconds": verdict.seconds}


def dealt(
    lab_ids: Sequence[str], phases: Sequence[str], seed: int, later: float = late.MINUTES
) -> list[Case]:
    """Return every lab in every phase, in an order that depends only on the seed.

    Without labs, all that run on this machine. Raises BadInput for an unknown lab or phase.
    """
    if unknown := [phase for phase in phases if phase not in PHASES]:
        raise BadInput(f"There is no phase {unknown[0]!r}; there are {', '.join(PHASES)}.")
    every = [(labs.load(lab).id, phase) for lab in lab_ids or _here() for phase in phases]
    random.Random(seed).shuffle(every)
    return [
        Case(lab=lab, phase=phase, number=n, later=later) for n, (lab, phase) in enumerate(every, 1)
    ]


def typed(step: Step) -> tuple[str, str]:
    """Return where an agent carries out a step of a lab, and the command that it types there."""
    if step.run is not None:
        return step.at, step.run
    verb = "restart" if step.limit is None else f"update {step.limit.flags}"
    return host.NAME, f"docker {verb} {step.at}"


def _here() -> list[str]:
    every = [labs.load(lab_id) for lab_id in labs.ours()]
    places, _ = placement.engines_of(Terminal(as_json=True), every, "local")
    return [*places]


def sweep(name: str | None = None) -> list[str]:
    """Remove the stacks of sessions that were killed, and return their names.

    `name`: of one case only. Raises Held if a session still works on one of them.
    """
    engine = placement.local()
    wanted = stack_name(name or CASE)
    number = "" if name else r"\d+"
    found = [s for s in engine.stacks() if re.fullmatch(re.escape(wanted) + number, s)]
    for stack in found:
        with lock.hold(stack, "agent"):
            engine.down(stack)
    return found
