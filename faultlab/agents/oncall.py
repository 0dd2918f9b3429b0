"""On call: an agent that takes the pages of a shift, one after the other."""

from __future__ import annotations

import queue
import threading
import time
from pathlib import Path

from faultlab.agents import adapter
from faultlab.agents.agent import Agent
from faultlab.agents.command import Output
from faultlab.agents.session import Checked, Session
from faultlab.core.errors import Problem
from faultlab.oncall.journal import Event
from faultlab.oncall.shift import Shift, There
from faultlab.run.phase import CHECK, Phase
from faultlab.run.readings import sentences

_LOOKS = 3  # after a repair: one can have begun before it, and two must find nothing
_POLL = 0.5  # seconds
_ENDS = 60.0  # seconds for the last command of an agent


class Paged(Session):
    """The session of an agent with one page. What it looks at and answers is in the journal."""

    def __init__(self, shift: Shift, there: There) -> None:
        super().__init__(shift.run, CHECK)
        self._shift, self._there = shift, there
        self.ticket = there.lab.ticket
        self._seen: set[str] = set()

    def run(self, machine: str, command: str, timeout: float = 60) -> Output:
        """Run a command as `Session.run` does, and note the machine once."""
        if machine in self._run.stack and machine not in self._seen:
            self._seen.add(machine)
            self._shift.journal.add(Event.LOOKED, machine=machine)
        return super().run(machine, command, timeout)

    def diagnose(self, component: str, resource: str, cause: str) -> dict[str, str]:
        """Keep a diagnosis, and note it. Raises BadInput as `Session.diagnose` does."""
        answer = super().diagnose(component, resource, cause)
        self._shift.journal.add(Event.ANSWERED, **answer)
        return answer

    def _measured(self, phase: Phase) -> Checked:
        """Wait for the next looks of the shift, and tell whether the page is over."""
        until = self._shift.looks + _LOOKS
        while not self._there.over and self._shift.looks < until and not self._shift.ended:
            time.sleep(_POLL)
        return Checked(self._there.over, sentences(self._shift.found))


class Taker:
    """The agent's thread. It is given pages, and works at one after the other."""

    def __init__(self, agent: Agent, shift: Shift) -> None:
        self._agent = agent
        self._shift = shift
        self._pages: queue.Queue[There | None] = queue.Queue()
        self._session: Paged | None = None
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def take(self, there: There) -> None:
        """Put a page into the queue."""
        self._pages.put(there)

    def close(self) -> None:
        """End its session, and wait for the end of its last command."""
        self._pages.put(None)
        if self._session:
            self._session.aborted = "The shift is over."
        self._thread.join(timeout=_ENDS)

    def _work(self) -> None:
        folder = self._shift.run.record.folder
        while there := self._pages.get():
            if there.over:
                continue
            self._session = Paged(self._shift, there)
            try:
                adapter.work(self._agent, self._session, Path(folder, f"agent-{there.number}.log"))
            except Problem as problem:
                self._shift.amiss(f"the agent at page {there.number}: {problem.message}")
