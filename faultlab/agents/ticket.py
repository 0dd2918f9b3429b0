"""Ticket: a session without machines, in which an agent has the ticket and nothing else.

What an agent names so it knows from the words of the ticket, or by heart, and not from a stack.
"""

from pathlib import Path
from typing import Protocol

from faultlab.agents.command import Output
from faultlab.agents.session import Checked
from faultlab.agents.trajectory import Trajectory
from faultlab.core.errors import BadInput
from faultlab.core.naming import case_name
from faultlab.lab import vocabulary
from faultlab.lab.model import Lab
from faultlab.learn import mystery


class Talk(Protocol):
    """The other side of an agent's program: a session, or a ticket alone."""

    case: str
    ticket: str
    machines: list[str]
    daemons: list[str]
    terms: dict[str, list[str]]
    aborted: str
    trajectory: Trajectory

    def run(self, machine: str, command: str, timeout: float = 60) -> Output:
        """Run a command on a machine. Raises BadInput."""

    def diagnose(self, component: str, resource: str, cause: str) -> dict[str, str]:
        """Keep a diagnosis; the last one counts. Raises BadInput."""

    def check(self) -> Checked:
        """Measure what the users meet. Raises BadInput before a diagnosis."""


class TicketOnly:
    """The ticket of a lab, for an agent that has no machines. It needs no Docker."""

    def __init__(self, lab: Lab, number: int, folder: Path) -> None:
        self.case = case_name(number)
        self.ticket = lab.called(self.case, examined=True).ticket
        self.machines: list[str] = []
        self.daemons: list[str] = []
        self.terms = vocabulary.answers(lab.collection)
        self.aborted = ""
        self.answer: dict[str, str] | None = None
        self.trajectory = Trajectory(folder)
        self.trajectory.add("ticket", ticket=self.ticket, machines=self.machines)

    def run(self, machine: str, command: str, timeout: float = 60) -> Output:
        """Refuse it: there is no machine. Raises BadInput."""
        del machine, command, timeout
        raise BadInput("There are no machines. Say what is wrong by the ticket alone.")

    def diagnose(self, component: str, resource: str, cause: str) -> dict[str, str]:
        """Keep a diagnosis; the last one counts. Raises BadInput for words not in `terms`."""
        self.answer = mystery.answered(component, resource, cause)
        self.trajectory.add("diagnose", **self.answer)
        return self.answer

    def check(self) -> Checked:
        """Refuse it: there are no users. Raises BadInput."""
        raise BadInput("There are no users to measure. The diagnosis is all that counts.")
