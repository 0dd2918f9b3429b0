"""Alone: the tools look at a proven stack one after the other, each without the others.

The lab's users come beside each tool, unless the fault has ended their daemon. If they do not feel
what the phase shows, the lab's check looks again without the tool. If the phase has gone, the next
tool gets a fresh stack, and so does this one, unless the check had proven the phase just before it.
The stack and its load are on one processor and the tool on another. The tools that read files all
get the same recording.
"""

import math
import statistics
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

from faultlab.core import lock
from faultlab.core.errors import Problem
from faultlab.engine.contract import Engine, Say
from faultlab.lab.check import Check
from faultlab.lab.reading import Reading
from faultlab.run.background_load import traffic
from faultlab.run.phase import FAULTY, HEALTHY, STILL
from faultlab.run.run import Run
from faultlab.score import recording, setups, trial
from faultlab.score.results import ALONE, Effect, Trial
from faultlab.score.schedule import STACK_SECONDS, TRIAL_SECONDS
from faultlab.score.setups import FLOORS, Setup, made_in
from faultlab.score.tool import Tool
from faultlab.score.trial import Outcome

_QUIET = 10.0  # seconds of a recording without users
_TIMED = ("s", "ms", "/s")


@dataclass(frozen=True)
class Alone:
    """How looks are made: the processor of the tools, and whether so many seconds are left."""

    engine: Engine
    cpus: str
    allows: Callable[[float], bool]
    note: Say

    def trials(self, look: Setup, wanted: Sequence[Tool]) -> Generator[Trial, None, None]:
        """Yield the trials of these tools, each when it is made. Raises SaidNo, CannotRun."""
        waiting = list(wanted)
        while waiting and self.allows(STACK_SECONDS + waiting[0].window + TRIAL_SECONDS):
            self.note(f"{look.text}: a stack")
            with setups.on_show(self.engine, look.lab, look.phase) as run:
                yield from self._on(run, look, waiting)

    def _on(self, run: Run, look: Setup, waiting: list[Tool]) -> Iterator[Trial]:
        """Yield trials on one stack while its phase shows, and take their tools off the list."""
        for tool in [each for each in waiting if not trial.seen_from(each, run.stack)]:
            waiting.remove(tool)
            why = f"no machine called {' or '.join(tool.at)} is there"
            yield made_in(look, tool, Outcome("absent", reason=why), run=run.record.id, way=ALONE)
        readers = [tool for tool in waiting if self._reads(tool)]
        waiting[:] = [tool for tool in waiting if tool not in readers]
        if readers:
            yield from self._replayed(run, look, readers)
        proven = not readers  # by the lab's check, just before the next tool
        while waiting and self.allows(waiting[0].window + TRIAL_SECONDS):
            tool, began = waiting[0], time.monotonic()
            self.note(f"{look.text}: {tool.id}")
            outcome, felt = self._live(run, look, tool)
            shows = _felt(run, look.phase, felt)
            again = not shows and _shows(run, look.phase)
            if not (shows or again or proven):
                return  # the tool before can have ended the phase, so this one looks again
            took, own = _since(began), _effect(run, look, felt)
            facts = {"run": run.record.id, "took": took, "effect": own}
            yield made_in(look, waiting.pop(0), outcome, way=ALONE, **facts)
            if not (shows or again):
                return
            proven = again

    def _reads(self, tool: Tool) -> bool:
        """Return whether a recording has what the tool reads; this kernel's log is in none."""
        return bool(tool.replay) and (self.engine.owns_kernel or "SYSLOG" not in tool.capabilities)

    def _live(self, run: Run, look: Setup, tool: Tool) -> tuple[Outcome, list[Any]]:
        """Let one tool look, and the lab's users beside it if any can come; return both."""
        felt: list[Any] = []
        load = partial(traffic, lambda: felt.append(run.check.look(run.stack)), wait=True)
        with lock.turn(alone=True), load() if _visited(run, look) else nullcontext():
            outcome = trial.examine(run.stack, look.lab, [tool], self.cpus)[tool.id]
        return outcome, felt

    def _replayed(self, run: Run, look: Setup, readers: Sequence[Tool]) -> Iterator[Trial]:
        """Record one look of the lab's check, and let each of these tools read its machines."""
        self.note(f"{look.text}: recording")
        users = partial(run.check.look, run.stack)
        act = users if _visited(run, look) else partial(time.sleep, _QUIET)
        with lock.turn(alone=True):
            files = recording.span(run, act)
        for tool in readers:
            if not self.allows(tool.window + TRIAL_SECONDS):
                return
            self.note(f"{look.text}: {tool.id}, from the recording")
            began = time.monotonic()
            seen = {*trial.seen_from(tool, run.stack), recording.KERNEL}
            its = {path: text for path, text in files.items() if path.partition("/")[0] in seen}
            archive = recording.Bundle({}, {look.phase: its}).phase(look.phase)
            outcome = trial.replay(self.engine, tool, archive, run.stack.name, self.cpus)
            facts = {"run": run.record.id, "took": _since(began), "replayed": True}
            yield made_in(look, tool, outcome, way=ALONE, **facts)


def share_out(engine: Engine, note: Say) -> str:
    """Give the stacks a slot of their own, and return that of the tools.

    Where there are no two slots, each gets a processor; empty without a second one.
    """
    first, second = [*engine.slots(), "", ""][:2]
    engine.cpus, cpus = (first, second) if second else processors(engine.facts().cpus)
    if not cpus:
        note("This machine has one processor: tools share it with the stack and its load.")
    return cpus


def processors(cpus: int) -> tuple[str, str]:
    """Return the processor of the stack and that of the tools; empty if there is only one."""
    return ("0", str(cpus - 1)) if cpus > 1 else ("", "")


def _shows(run: Run, phase: str) -> bool:
    """Return whether the phase of a stack still shows, by another look of the lab's check."""
    try:
        if phase == HEALTHY:
            run.measure(STILL)
            return all(finding.holds for finding in run.good(STILL))
        if phase not in FLOORS:
            run.prove(phase)
    except Problem:
        return False
    return True


def _visited(run: Run, look: Setup) -> bool:
    """Return whether users come: not to a floor, and not to a daemon that the fault has ended."""
    return look.phase not in FLOORS and not _ended(run)


def _ended(run: Run) -> bool:
    """Return whether a daemon has ended whose end is part of the fault."""
    return not all(run.stack[name].state.running for name in run.check.may_stop)


def _felt(run: Run, phase: str, felt: Sequence[Any]) -> bool:
    """Return whether the users of the last look beside a tool felt what the phase shows."""
    if phase in FLOORS or (phase == FAULTY and _ended(run)):
        return True  # no users came; nothing is wrong, or what the fault has ended is still down
    if not felt:
        return False
    now: Reading[Any, Any] = Reading(felt[-1])
    healthy = run.reading(HEALTHY)
    if phase == FAULTY and not run.lab.control:
        shown = {finding.name for finding in run.ill(FAULTY)}
        wanted = [each for each in run.check.bad(now, healthy) if each.name in shown]
    else:
        wanted = run.check.good(now, healthy)
    return all(finding.holds for finding in wanted)


def _effect(run: Run, look: Setup, felt: Sequence[Any]) -> Effect | None:
    """Return what a tool changed for the users of a stack; None for a floor."""
    if look.phase in FLOORS:
        return None
    before = STILL if STILL in run.phases else look.phase
    return effect(run.check, run.reading(before), felt)


def effect(
    check: Check[Any, Any], without: Reading[Any, Any], found: Sequence[Any]
) -> Effect | None:
    """Return the first measure of a time or a rate, without the tool and in looks beside it."""
    measure = next((each for each in check.symptom if each.unit in _TIMED), None)
    if measure is None or not found:
        return None
    values = measure.value(without.look), statistics.median(map(measure.value, found))
    return Effect(measure.name, measure.unit, *values) if all(map(math.isfinite, values)) else None


def _since(began: float) -> float:
    return round(time.monotonic() - began, 1)


def in_a_crowd(engine: Engine, look: Setup, wanted: Sequence[Tool]) -> Generator[Trial]:
    """Yield the trials of tools that look at the same time, with all processors for everything.
    Raises SaidNo, CannotRun.
    """
    with setups.on_show(engine, look.lab, look.phase) as run:
        with traffic(lambda: run.check.look(run.stack)):
            outcomes = trial.examine(run.stack, look.lab, wanted)
        yield from (made_in(look, tool, outcomes[tool.id], run=run.record.id) for tool in wanted)
