"""Run: one walk through a lab: up, healthy, inject, symptom, fix, down.

Every reading is written to the run's record before it is judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from itertools import groupby
from typing import Any

from faultlab import __version__
from faultlab.core import git, lock
from faultlab.core.command import meanwhile, uninterrupted
from faultlab.core.errors import CannotRun, SaidNo
from faultlab.core.naming import stack_name
from faultlab.engine.contract import Engine
from faultlab.engine.fact import Facts
from faultlab.engine.measure.load_scale import LoadScale
from faultlab.engine.stack import Stack
from faultlab.lab import checks, images, release
from faultlab.lab import loader as labs
from faultlab.lab.finding import Finding
from faultlab.lab.model import Lab, Step
from faultlab.run import inject, surroundings
from faultlab.run.looks import PACE, Looks
from faultlab.run.phase import FAULTY, FIXED, HEALTHY, STILL, Phase
from faultlab.run.readings import as_seen
from faultlab.run.record import ROOM, Record
from faultlab.run.timeline import Timeline

# After a reload nginx's old workers accept connections for another 100 ms (ngx_msleep, its master).
_TAKES_EFFECT = 0.3  # seconds

_TRIES = 6  # looks at a baseline that moves
_TIDIES_UP = 300.0  # seconds to wait for a turn: longer than a look


def _own_kernel(engine: Engine, lab: Lab, name: str) -> None:
    """Refuse to share a kernel that a lab changes. Raises CannotRun with the other lab."""
    if not engine.owns_kernel:
        if lab.scope == "kernel":
            raise CannotRun(
                f"{lab.alias} changes a whole kernel, and this engine's must not be changed.",
                f"faultlab start {lab.alias} --engine vm",
            )
        return
    for other, lab_id in engine.all_stacks().items():
        if other == name or not lab_id:  # a helper is of no lab
            continue
        # Of a lab that must stay secret we know only that it can be one of these.
        its = labs.load(lab_id).scope if labs.here(lab_id) else "kernel"
        if "kernel" in (lab.scope, its):
            mine = other == stack_name(lab_id)
            raise CannotRun(
                f"{other} is up on the same kernel, and one of the two changes it.",
                f"make down-{lab_id}" if mine else "faultlab status",
            )


def _up(
    engine: Engine, lab: Lab, name: str, record: Record, slot: str, *, collects: bool = True
) -> tuple[Stack, Timeline | None]:
    """Bring the stack up, and note the kernel's settings first if the lab will change them.

    `slot`: its CPUs. `collects`: record its counters from the moment its containers run.
    """
    if lab.scope == "kernel":
        engine.note_kernel(name)
    engine.launch(lab, name, record.id, record.folder, slot)
    stack = Stack(engine, name)
    if not collects:
        stack.make_ready()
        return stack, None
    timeline = Timeline(stack, lab.services, record)
    try:
        with meanwhile(timeline.start):
            stack.make_ready()
    except BaseException:
        timeline.stop()
        raise
    return stack, timeline


class Run(Looks):
    """One lab on one stack, with its record."""

    timeline: Timeline | None = None

    @classmethod
    def begin(cls, engine: Engine, lab: Lab, name: str, collects: bool = True) -> Run:
        """Bring up a fresh stack under this name and start a record. Raises CannotRun.

        `collects`: record its counters as long as it is up.
        """
        check = checks.load(lab)
        with engine.slot(name) as slot, lock.turn(alone=False, slot=slot):
            engine.down(name)
            _own_kernel(engine, lab, name)
            facts = engine.facts()
            record = Record.create(lab.alias, name, _context(engine, lab, facts, slot))
            try:
                stack, timeline = _up(engine, lab, name, record, slot, collects=collects)
            except BaseException:
                engine.down(name)
                raise
        run = cls(engine, lab, check, stack, record)
        run.timeline = timeline
        try:
            with meanwhile(partial(run.note_surroundings, facts)):
                record.facts["machines"] = run.machines_started()
            record.event("up")
        except BaseException:
            run.down()
            raise
        return run

    @classmethod
    def attach(cls, stack: Stack, lab: Lab) -> Run:
        """Go on with the learner's stack of a lab. Raises CannotRun if it is not up."""
        if not stack:
            raise CannotRun(f"{lab.alias} is not up.", lab.to_start)
        lacking = [n for n in lab.services.needed(lab.daemons) if n not in stack]
        if lacking:
            raise CannotRun(
                f"{lab.alias} has lost {', '.join(lacking)}.", f"make reset-{lab.alias}"
            )
        record = Record.ready(stack.run_id)
        if record is None:
            raise CannotRun(
                f"{lab.alias} was interrupted while it started, or its record is lost.",
                f"make reset-{lab.alias}",
            )
        if ROOM in record.facts:
            lab = labs.load(record.facts[ROOM]).called(lab.alias)
        record.refuse_other_release()
        if PACE in record.facts:
            stack.pace = LoadScale(record.facts[PACE])
        return cls(stack.engine, lab, checks.load(lab), stack, record)

    def note_surroundings(self, below: Facts) -> None:
        """Record what the stack was given by its machine, which engine and kernel are `below`."""
        found = surroundings.read(self.stack.user(), below)
        with self.record.changing:
            self.record.facts["surroundings"] = found

    def collect(self, on: bool = True) -> None:
        """Start or stop recording the counters of the stack."""
        if self.timeline is not None:
            self.timeline.stop()
        self.timeline = None
        if on:
            self.timeline = Timeline(self.stack, self.lab.services, self.record)
            self.timeline.start()

    def healthy(self) -> None:
        """Measure the untouched stack. Raises CannotRun if it is not healthy before any fault.

        If speed is judged against the healthy phase, two looks must agree. Otherwise a moment of
        other load would make a slow stack the standard for everything that follows.
        """
        if self.check.relative:
            self._agree()
        else:
            self.measure(HEALTHY)
        if amiss := self._amiss(self.good(HEALTHY)):
            raise CannotRun(
                f"The stack is not healthy before any fault: {amiss[0]}.", self.lab.to_examine
            )

    def _agree(self) -> None:
        """Look until one look agrees with an earlier one. Raises CannotRun if none does."""
        inspects, self.inspects = self.inspects, False
        self.measure(HEALTHY)
        self.inspects = inspects
        before = [self.reading(HEALTHY)]
        for _ in range(_TRIES):
            self.measure(HEALTHY)
            now = self.reading(HEALTHY)
            apart = self.check.apart(before[-1], now)
            if not all(self.check.apart(earlier, now) for earlier in before):
                return
            before.append(now)
            self.record.event("unsteady", phase=HEALTHY, text="; ".join(apart))
        raise CannotRun(f"The healthy stack is not steady: {'; '.join(apart)}.", self.lab.to_start)

    def healthy_still(self) -> None:
        """Measure a fresh stack late in a walk. Raises CannotRun if the baseline has moved."""
        if not self.check.relative:
            return
        for _ in range(_TRIES):
            self.measure(STILL)
            apart = self.check.apart(self.reading(HEALTHY), self.reading(STILL))
            if apart:
                self.record.event("unsteady", phase=STILL, text="; ".join(apart))
            if not self.moved():
                return
        self.must_not_move()

    def enter(self, phase: str) -> None:
        """Do what leads from the phase before into this one."""
        if phase == FAULTY:
            self.inject()
        elif phase == FIXED:
            self.apply("fix", self.lab.fix)

    def pass_by(self, phase: str) -> None:
        """Restart what leads into a phase, and let the users of its proof come, without the phase.

        Then neither counters nor ages tell that this stack was never in it. Raises CannotRun.
        """
        steps = self.lab.inject if phase == FAULTY else self.lab.fix
        if restarts := [step for step in steps if step.restart]:
            self.apply("restarts", restarts)
        self.visit(phase)

    def prove(self, phase: str) -> None:
        """Measure a phase of the main walk. Raises SaidNo or CannotRun if it does not show."""
        how: dict[str, Callable[[], object]] = {FAULTY: self.gate, FIXED: self.fixed}
        how.get(phase, self.healthy)()

    def inject(self) -> None:
        """Inject the fault; for a control, the configuration that it has instead. Decoys first."""
        self.plant()
        self.apply("inject", self.lab.inject)
        self.note_processes()

    def plant(self) -> None:
        """Set up the decoys of the lab, if it has some."""
        if steps := [step for decoy in self.lab.decoys for step in decoy.steps]:
            self.apply("decoys", steps)

    def apply(self, what: str, steps: Sequence[Step], **facts: Any) -> None:
        """Carry out steps and record them, with facts about them."""
        for waits, some in groupby(steps, inject.waits):
            group = list(some)
            # A daemon that starts again would disturb the load of another lab; a pause does not.
            with nullcontext() if waits else lock.turn(alone=False, slot=self.stack.slot):
                inject.apply(self.stack, group)
                if not waits and inject.takes_effect_later(group):
                    self.engine.pause(_TAKES_EFFECT)
        taken = [step.model_dump(exclude_none=True) for step in steps]
        self.record.event(what, steps=taken, **facts)

    def gate(self, phase: Phase = FAULTY) -> list[Finding]:
        """Measure a phase and accept the fault only if its symptom shows. Raises SaidNo."""
        self.inspects = self.inspects or self.lab.silent
        self.measure(phase)
        found = self.expected(phase)
        if self.lab.silent:
            found = [*found, *self.evident(phase)]
        if amiss := self._amiss(found):
            what = "it must stay healthy" if self.lab.control else "the fault has no effect"
            what = "users feel it, or no evidence shows" if self.lab.silent else what
            raise SaidNo(f"{self.lab.alias}: {what}: {'; '.join(amiss)}.", self.lab.to_examine)
        return found

    def fixed(self) -> None:
        """Measure the result of a fix. Raises SaidNo if it did not help."""
        self.measure(FIXED)
        if amiss := self._amiss(self.good(FIXED)):
            raise SaidNo(f"{self.lab.alias}: the fix did not help: {'; '.join(amiss)}.")

    def _amiss(self, findings: Iterable[Finding]) -> list[str]:
        """Return in words what does not hold; a mystery does not name the fault."""
        return [each.words for each in as_seen(self.lab, findings) if not each.holds]

    def again(self) -> None:
        """Bring up a fresh stack, which is judged against the same healthy phase.

        Its counters are not recorded: a report shows the phases before it.
        """
        name = self.stack.name
        was = self.stack.pace
        with self.engine.slot(name) as slot, lock.turn(alone=False, slot=slot):
            self.collect(on=False)
            self.stack.release()
            self.engine.down(name)
            made = _up(self.engine, self.lab, name, self.record, slot, collects=False)
            self.stack, _ = made
        self.stack.pace = was
        self.record.facts["machines"] = self.machines_started()

    def down(self) -> None:
        """Remove the stack and verify that nothing is left."""
        with uninterrupted():
            with lock.turn(alone=False, patience=_TIDIES_UP, slot=self.stack.slot):
                self.collect(on=False)
                self.stack.release()
                self.engine.down(self.stack.name)
            with suppress(CannotRun):
                self.record.event("down")


def _context(engine: Engine, lab: Lab, facts: Facts, slot: str) -> Mapping[str, Any]:
    """Return what a reader of the record needs to know about where it was measured."""
    used = lab.services.images(lab.daemons)
    return {
        "lab": lab.id,
        "faultlab": __version__,
        "commit": git.commit(),
        "engine": engine.name,
        "docker": facts.version,
        "kernel": facts.kernel,
        "system": facts.system,
        "cgroup": facts.cgroup,
        "cpus": facts.cpus,
        **({"slot": slot} if slot else {}),
        "memory_bytes": facts.memory,
        "release": release.now().suite,
        "images": {name: images.tag(name) for name in used},
    }
