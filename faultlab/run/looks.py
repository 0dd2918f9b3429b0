"""Looks: readings of a stack that is up, taken again when they prove nothing."""

import time
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from faultlab.core import lock
from faultlab.core.errors import CannotRun
from faultlab.engine import speed
from faultlab.engine.contention import Contention
from faultlab.engine.contract import Engine
from faultlab.engine.stack import Stack
from faultlab.lab.check import Check
from faultlab.lab.model import Lab
from faultlab.probes import answers
from faultlab.run.readings import BEFORE, FAULTY, HEALTHY, Measured
from faultlab.run.record import Record

_LOOKS = 3  # at a phase, while they lie between the limits
_PATIENCE = 120.0  # seconds of a run that are spent on waiting for a calm machine


class Looks(Measured):
    """A run whose stack is up, so that it can be looked at."""

    def __init__(
        self, engine: Engine, lab: Lab, check: Check[Any, Any], stack: Stack, record: Record
    ) -> None:
        super().__init__(lab, check, record)
        self.inspects = False  # True: every reading also holds inspections, for evidence
        self.engine = engine
        self.stack = stack
        self._patience = _PATIENCE

    def measure(self, phase: str) -> None:
        """Look at the stack now and keep the reading under `phase`. Raises CannotRun.

        A reading that proves nothing is noted and taken again: one that others on this machine
        have spoiled until it is calm, one between its limits three times at most.
        """
        looks, wait = 0, 1.0
        while True:
            idle = self.check.idle is not None and self.check.idle(self.stack)
            # What is not judged by its speed can have stacks that start beside it.
            alone = self.lab.load and self.check.relative
            with nullcontext() if idle else lock.turn(alone):  # to judge it takes CPU time, too
                took, seen = self._look(phase)
                facts = {"phase": phase, "took": round(took, 3), **seen.facts()}
                spoiled = seen.words if self.check.relative and not idle else ""
                unclear = self._unclear(phase)
                looks += not spoiled
                if not spoiled and (not unclear or looks == _LOOKS):
                    return self._keep(phase, facts)
                self.record.event("undecided", **facts, text=spoiled or unclear)
            if spoiled:
                self._wait_for_calm(phase, spoiled, wait)
                wait *= 2

    def _keep(self, phase: str, facts: dict[str, Any]) -> None:
        """Note the look that counts, and judge it."""
        self.record.event("measured", **facts)
        if HEALTHY in self.phases:
            self.record.facts["judged"][phase] = self.findings(phase)
            self.record.save()

    def _unclear(self, phase: str) -> str:
        """Say what lies within neither of its limits, so that it proves nothing."""
        unclear = self.undecided(phase) if HEALTHY in self.phases else []
        return "; ".join(finding.words for finding in unclear)

    def _look(self, phase: str) -> tuple[float, Contention]:
        """Take one reading; return its seconds and what others took meanwhile."""
        observer = self.engine.observer(self.stack.name)
        fast = speed.measure() if self.check.relative else None
        began, before = time.monotonic(), observer.read()
        try:
            reading = self.check.take(self.stack, self.inspects)
            if self.check.asks and not self._faulty(phase):
                reading = replace(reading, answers=self._answers())
        finally:
            self._all_running()
        took, seen = time.monotonic() - began, observer.since(before)
        if fast is not None:  # what the look has left to be done can slow the second one down
            reading = replace(reading, reference=max(fast, speed.measure()))
        self.record.facts["readings"][phase] = self.check.dump(reading)
        return took, seen

    def _answers(self) -> dict[str, list[str]]:
        """Put the asks of the check, each by the users of its machine."""
        found: dict[str, list[str]] = {}
        for ask in self.check.asks:
            found |= answers.read(self.stack.user(ask.at), [ask], self.record.id)
        return found

    def _faulty(self, phase: str) -> bool:
        """Tell whether the fault is in, so that the service need not answer."""
        return not self.lab.control and (phase == FAULTY or phase.endswith(BEFORE))

    def _wait_for_calm(self, phase: str, spoiled: str, least: float) -> None:
        """Wait until the machine is calm. Raises CannotRun when the run has waited long enough.

        It waits `least` seconds, for a machine that does nothing is given all the time that it asks
        for. A reading that others have spoiled is not kept: it is no proof of anything.
        """
        del self.record.facts["readings"][phase]
        with lock.turn(alone=True):  # our own labs are no reason to wait
            waiting = time.monotonic()
            self.engine.observer(self.stack.name).wait_for_calm(self._patience, least)
            self._patience -= time.monotonic() - waiting
        if self._patience <= 0:
            again = (
                f"make check-{self.lab.alias}" if phase == "check" else f"make lab-{self.lab.alias}"
            )
            raise CannotRun(
                f"This machine is too busy to judge {self.lab.alias}: {spoiled}.",
                f"wait until it is calm, then: {again}",
            )

    def _all_running(self) -> None:
        stopped = [s for s in self.stack.stopped() if s.split()[0] not in self.check.may_stop]
        if stopped:
            name = stopped[0].split()[0]
            # A machine that is started again has new namespaces: without the fault, and without us.
            daemon = name in self.lab.daemons and not self.engine.owns_kernel
            raise CannotRun(
                f"{stopped[0]} is not running, so nothing can be judged.",
                self.stack[name].typed("start") if daemon else f"make reset-{self.lab.alias}",
            )
        if self.machines_started() != self.record.facts["machines"]:
            raise CannotRun(
                "A machine was restarted, so its settings are gone.", f"make reset-{self.lab.alias}"
            )

    def machines_started(self) -> dict[str, str]:
        """Return when each machine started: a restart takes namespaces and the fault with it."""
        return {
            machine.name: machine.state.started
            for machine in self.stack.values()
            if machine.name not in self.lab.daemons
        }
