"""Looks: readings of a stack that is up, taken again if they prove nothing."""

import secrets
import time
from collections.abc import Collection
from contextlib import nullcontext, suppress
from dataclasses import asdict, replace
from random import Random
from typing import Any

from faultlab.core import lock
from faultlab.core.errors import CannotRun
from faultlab.engine import cpu_slots
from faultlab.engine.contract import Engine, Say
from faultlab.engine.measure import cpu_reference, load_scale
from faultlab.engine.measure.cpu_interference import CpuInterference
from faultlab.engine.stack import Stack
from faultlab.lab.check import Check
from faultlab.lab.model import Lab
from faultlab.lab.outage import Outage
from faultlab.lab.reading import Reading
from faultlab.probes import answers
from faultlab.run import leftovers, outages, serving
from faultlab.run.leftovers import Leftovers
from faultlab.run.phase import CHECK, FAULTY, HEALTHY, LATER, Phase
from faultlab.run.readings import Measured, shows
from faultlab.run.record import GONE, SHOWN, Record

PACE, PROCESSES = "pace", "processes"  # keys of a record
# What a check does after it has measured what users meet, as it says it. No text names a lab.
ANSWERS = "comparing the responses with healthy ones"
PROGRAMS = "finding out which programs respond"
TOO_BUSY = "too busy to judge"  # in the reason of a case
_LOOKS = 3  # at most, in one phase, if the values lie between the limits
# Seconds that a run, and a quick walk, can lose to a busy machine.
_PATIENCE, QUICK_PATIENCE = 180.0, 60.0


class Looks(Measured):
    """A run whose stack is up, so that it can be measured."""

    def __init__(
        self, engine: Engine, lab: Lab, check: Check[Any, Any], stack: Stack, record: Record
    ) -> None:
        super().__init__(lab, check, record)
        self.inspects = False  # True: each reading also contains inspections, for the evidence
        self.engine = engine
        self.stack = stack
        self.note: Say = lambda _: None  # hears why a look is taken again
        self.patience = _PATIENCE
        self._first = True  # the look has not been taken again, so no reason for that is shown

    def measure(self, name: str) -> None:
        """Look at the stack now and store the reading as the phase of this name. Raises CannotRun.

        A reading that proves nothing is recorded and taken again. If other load on this machine
        spoiled it, this repeats until the machine is calm. If it is between its limits, or if a
        busy machine can be why something does not show, this looks at most three times.
        """
        self.find_pace()
        phase = Phase(name)
        self._first = True
        looks, wait, unclear, slot = 0, 1.0, "", self.stack.slot
        while True:
            idle = self._idle()
            # If speed is not judged, other stacks can start meanwhile, at least for the first look.
            alone = self.check.relative or bool(unclear)
            # Judging takes CPU time, too.
            with nullcontext() if idle else lock.turn(alone, slot=slot):
                seed = secrets.token_hex(4)  # no examinee can know what the next look asks for
                self.stack.dice = Random(seed)
                with cpu_slots.inside(slot):
                    took, seen = self._look(phase)
                facts = {"phase": phase, "took": round(took, 3), "seed": seed, **seen.facts()}
                busy = "" if idle else seen.words
                spoiled = busy if self.check.relative else ""
                unclear = self._unclear(phase) or (
                    busy if busy and self._late(phase, looks) else ""
                )
                looks += not spoiled
                if not spoiled and (not unclear or looks == _LOOKS):
                    return self._keep(phase, facts)
                self.record.event("undecided", **facts, text=spoiled or unclear)
                self.note(f"again: {(spoiled or unclear).partition(' (')[0]}")
                self._first = False
            if spoiled:
                self.patience -= took
                self._wait_for_calm(phase, spoiled, wait)
                wait *= 2

    def visit(self, name: str) -> None:
        """Let the users come once as a look at a phase of this name does. Raises CannotRun."""
        with lock.turn(alone=False, slot=self.stack.slot):
            self.stack.dice = Random(secrets.token_hex(4))
            self._seen(Phase(name), None)

    def _idle(self) -> bool:
        """Return whether a look makes no load; not if a daemon has ended, which the look finds."""
        with suppress(CannotRun):
            return self.check.idle is not None and self.check.idle(self.stack)
        return False

    def find_pace(self) -> None:
        """Find the pace of a stack once, before its first load."""
        if not self.lab.load or PACE in self.record.facts:
            return
        self.stack.pace = load_scale.find(self.stack.user(), self.stack.slot)
        with self.record.changing:
            self.record.facts[PACE] = self.stack.pace.share

    def _keep(self, phase: Phase, facts: dict[str, Any]) -> None:
        """Record the look that counts, and judge it."""
        self.record.event("measured", **facts)
        if HEALTHY in self.phases:
            found = self.findings(phase)
            traces = self.traces(phase) if self.lab.several else set()
            with self.record.changing:
                if self.lab.several:
                    self._note_gone(traces)
                self.record.judged[phase] = found
                self.record.save()

    def _note_gone(self, traces: set[str]) -> None:
        """Record which of several faults have shown in this run, and which of these are gone.

        One that is hidden by another has not shown yet, so nothing is said about it. They are known
        by their numbers, because a name would give a secret lab away.
        """
        faults = [fault.id for fault in self.lab.faults]
        now = {faults.index(fault) + 1 for fault in traces if fault}
        shown = {*self.record.facts.get(SHOWN, ()), *now}
        self.record.facts[SHOWN], self.record.facts[GONE] = sorted(shown), sorted(shown - now)

    def _unclear(self, phase: Phase) -> str:
        """Return the values that lie between their limits, so that they prove nothing.

        After a cheat that harms the users, no such value can change the answer. While several
        faults are present, those count that hold, and of one that is left only its own do.
        """
        if HEALTHY not in self.phases or (phase.cheat and self.harmed(phase)):
            return ""
        unclear = self.check.undecided(self.reading(phase), self.reading(HEALTHY))
        if self.lab.several and (phase.faulty or phase.left):
            ill = self.ill(phase)
            clear = phase.faulty and all(finding.holds for finding in ill)
            names = set() if clear else {finding.name for finding in ill}
            unclear = [finding for finding in unclear if finding.name in names]
        return "; ".join(finding.words for finding in unclear)

    def _late(self, phase: Phase, looks: int) -> bool:
        """Return whether what should be healthy was not, or whether the fault left no evidence.

        `looks`: at this phase before. A learner whose users meet the whole fault has most often
        repaired nothing: another's busy loops must not make that answer take twice as long, and
        it can be asked for again. A machine that was stopped for a second can look like that too.
        So there is a second look where the verdict counts for good.
        """
        if phase == FAULTY:
            return not shows(self.lab, self.evident(phase))
        if HEALTHY not in self.phases or not phase.wanted_well:
            return False
        if self.reading(phase).outages:
            return False  # no busy machine ends another
        if phase.tried and not self.lab.control and all(f.holds for f in self.ill(phase)):
            return phase.last and looks == 0
        return not all(finding.holds for finding in self.good(phase))

    def _look(self, phase: Phase) -> tuple[float, CpuInterference]:
        """Take one reading; return its seconds and what other programs took meanwhile."""
        self.stack.helper()  # it is one of the stack's containers, whose work is no other load
        observer = self.engine.observer(self.stack.name)
        fast = cpu_reference.measure() if self.check.relative else None
        began, before = time.monotonic(), observer.read()
        reading = self._taken(phase, fast)
        took, seen = time.monotonic() - began, observer.since(before)
        if fast is not None:  # unfinished work of the look can slow the second one down
            reading = replace(reading, reference=max(fast, cpu_reference.measure()))
        dumped = asdict(reading)
        with self.record.changing:
            self.record.readings[phase] = dumped
        return took, seen

    def _taken(self, phase: Phase, fast: float | None) -> Reading[Any, Any]:
        """Return a reading, or what had ended, so that no look was possible. Raises CannotRun."""
        ended = self._outages(phase, self.check.may_stop) if phase.of_examinee else []
        if ended:
            return Reading(None, outages=ended)
        left = self._left(phase)
        reading = self._tried(phase, fast)
        if reading.outages:
            return reading
        reading = replace(reading, outages=self._outages(phase, self.check.may_stop))
        if left is None:
            return reading
        reading = replace(reading, left=left.found)
        if left.can_be_frozen and self._holds(reading):
            with left.frozen():
                reading = replace(reading, frozen=self._seen(phase, fast))
        return reading

    def _tried(self, phase: Phase, fast: float | None, *, again: bool = True) -> Reading[Any, Any]:
        """Return what users see, or why there is no look, which an examinee can cause.

        What fails twice while everything runs and the engine responds is theirs. Raises CannotRun.
        """
        try:
            return self._seen(phase, fast)
        except Exception as problem:
            # Not each look can be taken at a daemon that may stop.
            ended = self._outages(phase, () if phase.of_examinee else self.check.may_stop)
            if ended:
                return Reading(None, outages=ended)
            if not (phase.of_examinee and isinstance(problem, CannotRun)):
                raise
            self.stack.user()  # raises if the engine does not respond
            hindered = " ".join(problem.message.split())[:200]
        if again:
            return self._tried(phase, fast, again=False)
        return Reading(None, outages=[Outage("", None, hindered)])

    def _seen(self, phase: Phase, fast: float | None) -> Reading[Any, Any]:
        """Return what users see, and the programs that answer them if that counts."""
        # A faster machine only raises the bar: what harms the users by `fast` does so by both.
        reading = replace(
            self.check.take(self.stack, self.inspects or self.lab.several), reference=fast
        )
        if self._must_respond(phase, reading):
            reading = replace(reading, answers=self._answers(phase), serving=self._serving(phase))
        return reading

    def _left(self, phase: Phase) -> Leftovers | None:
        """Return what was left over since the fault, in a look whose verdict is the last one."""
        before = self.record.facts.get(PROCESSES)
        return leftovers.find(self.stack, before) if phase.last and before is not None else None

    def note_processes(self) -> None:
        """Record what runs now. What comes later and belongs to no daemon is left over."""
        found = leftovers.noted(self.stack)
        with self.record.changing:
            self.record.facts[PROCESSES] = found
            self.record.save()

    def _holds(self, reading: Reading[Any, Any]) -> bool:
        return all(found.holds for found in self.check.good(reading, self.reading(HEALTHY)))

    def _answers(self, phase: Phase) -> dict[str, list[str]]:
        """Send the asks of the check, each from the users of its machine.

        The healthy service is asked with all sets of numbers, and a later look draws one of them.
        So what one look has asked does not tell what the next one will.
        """
        self._tell(phase, ANSWERS)
        found: dict[str, list[str]] = {}
        for ask in self.check.asks:
            sets = ask.sets
            if phase != HEALTHY:
                known = self.reading(HEALTHY).answers
                sets = [self.stack.dice.choice([n for n in sets if ask.named(n) in known] or [0])]
            for number in sets:
                found |= answers.read(self.stack.user(ask.at), ask, self.record.id, number)
        return found

    def _tell(self, phase: Phase, part: str) -> None:
        """Say which part of a learner's check begins."""
        if self._first and phase in (CHECK, LATER):
            self.note(part)

    def _serving(self, phase: Phase) -> dict[str, str]:
        """Return which program has the connection of a user at each port of the daemons."""
        self._tell(phase, PROGRAMS)
        processes = serving.Processes(self.stack)
        if phase == HEALTHY:
            wanted = serving.ports(self.stack, processes)
        else:
            wanted = [place for place in self.reading(HEALTHY).serving if ":" in place]
        found = serving.served(self.stack, processes, wanted)
        return found | dict.fromkeys(processes.strays(), serving.STRAY)

    def _must_respond(self, phase: Phase, reading: Reading[Any, Any]) -> bool:
        """Return whether the responses of the service count in this phase.

        They do not while the fault is present, or after a cheat if users still feel the fault. The
        asks of such a stack can take a minute.
        """
        if phase.faulty or phase.left:
            return self.lab.control
        if not phase.cheat or HEALTHY not in self.phases:
            return True
        return self._holds(reading)

    def _wait_for_calm(self, phase: Phase, spoiled: str, least: float) -> None:
        """Wait until the machine is calm. Raises CannotRun if the run has lost too long in total.

        It waits at least `least` seconds, because an idle machine gets all the CPU time that it
        asks for and so seems calm. Other labs go on in these seconds. The spoiled reading is
        dropped, because it proves nothing.
        """
        with self.record.changing:
            del self.record.readings[phase]
        least = max(0.0, min(least, self.patience))
        self.engine.pause(least)
        self.patience -= least
        with lock.turn(alone=True, slot=self.stack.slot):  # our own labs are no reason to wait
            waiting = time.monotonic()
            self.engine.observer(self.stack.name).wait_for_calm(self.patience)
            self.patience -= time.monotonic() - waiting
        if self.patience <= 0:
            again = f"make check-{self.lab.alias}" if phase == CHECK else self.lab.to_start
            raise CannotRun(
                f"This machine is {TOO_BUSY} {self.lab.alias}: {spoiled}.",
                f"wait until it is calm, then: {again}",
            )

    def _outages(self, phase: Phase, may_stop: Collection[str]) -> list[Outage]:
        """Return what has ended. Raises CannotRun if no examinee has done that."""
        found = outages.find(self.stack, self.record.facts["machines"], may_stop)
        if not found or phase.of_examinee:
            return found
        name, code = found[0].name, found[0].exit_code
        if code is None:
            raise CannotRun(
                "A machine was restarted, so its settings are gone.", f"make reset-{self.lab.alias}"
            )
        last = self.stack[name].last_log_line()
        raise CannotRun(
            f"{name} (exit code {code}) is not running, so nothing can be judged."
            + (f" Its log ends: {last[:200]}" if last else ""),
            self.to_mend(found[0]),
        )

    def to_mend(self, ended: Outage) -> str:
        """Return the command that brings back what has ended.

        A restarted machine has new namespaces, without the fault and without our settings.
        """
        daemon = ended.name in self.lab.daemons and not self.engine.owns_kernel
        return self.stack[ended.name].typed("start") if daemon else f"make reset-{self.lab.alias}"

    def machines_started(self) -> dict[str, str]:
        """Return when each machine started. A restart removes its namespaces and so the fault."""
        return {
            machine.name: machine.state.started
            for machine in self.stack.values()
            if machine.name not in self.lab.daemons
        }
