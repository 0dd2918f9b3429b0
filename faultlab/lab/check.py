"""Check: the terms in which a lab's readings are judged, and the tests that every lab has.

A lab's `checks/test_<id>.py` says what to look at (`look`, as a user; `inspect`, as an engineer)
and where the limits are. A Measure has two limits with a gap between them: `bad` must hold while
the fault is present, `good` while it is not. In the gap neither holds, so a phase cannot pass as
the other one. Limits on speed are ratios to the healthy phase of the same run. Kinds of measures
that many labs use are in `measures`.
"""

from __future__ import annotations

import math
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import Any, Generic

from pydantic import TypeAdapter

from faultlab.core.errors import BadInput
from faultlab.core.text import number
from faultlab.lab import leftover, outage, reading
from faultlab.lab.asks import FAILED, RIGHT, Ask, bare
from faultlab.lab.finding import Finding
from faultlab.lab.limits import Bound, exactly
from faultlab.lab.reading import L, Reading, W

NO_PROGRAM = "nobody"  # in place of a program: the connection waits to be accepted
_STEADY = 1.25  # two looks at one healthy stack can differ by this factor on a busy day


@dataclass(frozen=True)
class Measure(Generic[L]):
    """A number that a user of the stack experiences, with its limit in each phase.

    `of`: where it is in a look, as a path (`page.bytes`) or a function. If the value must be the
    same in both phases ("the port answers"), `bad` and `good` are equal. A control has no `bad`.
    `fault`: in a lab of several faults, the one that it shows. `when_good`, `when_bad`: what the
    learner reads while `good` holds and while it does not.
    """

    name: str
    of: str | Callable[[L], float]
    good: Bound
    bad: Bound | None = None
    unit: str = ""
    fault: str = ""
    when_good: str = ""
    when_bad: str = ""

    def says(self, when_good: str, when_bad: str) -> Measure[L]:
        """Return the same measure with its sentences for the learner. They must not spoil."""
        return replace(self, when_good=when_good, when_bad=when_bad)

    def value(self, look: L) -> float:
        """Return the number in a look."""
        read: Callable[[L], float] = attrgetter(self.of) if isinstance(self.of, str) else self.of
        return read(look)

    @property
    def steady(self) -> bool:
        """Return whether it must hold in both phases, so that it proves nothing by itself."""
        return self.bad == self.good

    @property
    def relative(self) -> bool:
        """Return whether it is judged against the healthy phase, so that other load disturbs it."""
        return self.good.times and not self.steady

    @property
    def tolerance(self) -> float:
        """Return the factor by which two looks at the same healthy stack can differ.

        It is the square root of the gap, but never less than machines vary by themselves.
        """
        return max(_STEADY, math.sqrt(self.gap))

    @property
    def gap(self) -> float:
        """Return the factor between the two limits; with one limit, the factor between it and 1."""
        other = self.bad.limit if self.bad else 1.0
        ratio = self.good.limit / other if other else math.inf
        return max(ratio, 1 / ratio)

    def expected(self, healthy: float, speed: float) -> float:
        """Return the healthy value on a machine that is now `speed` times as fast."""
        if self.unit == "/s":
            return healthy * speed
        return healthy / speed if self.unit in ("s", "ms") else healthy


@dataclass(frozen=True)
class Evidence(Generic[W]):
    """A trace that an engineer finds: a counter, a log line, a queue.

    `of` takes the inspections before and after the symptom was measured. `fires` must hold while
    the fault is present and at no other time. `command` shows it when typed on `machine`.
    """

    name: str
    of: Callable[[W, W], float]
    fires: Bound
    machine: str = ""
    command: str = ""
    unit: str = ""
    fault: str = ""

    def seen(self, machine: str, command: str) -> Evidence[W]:
        """Return the same evidence with the machine and the command that show it."""
        return replace(self, machine=machine, command=command)


@dataclass(frozen=True)
class Check(Generic[L, W]):
    """A lab's check, as its check file declares it.

    `asks`: requests whose responses must be the same as while the stack was healthy, so that no
    other page passes for the service. `may_stop`: daemons whose end is part of the fault. `idle`,
    in a lab that mostly waits: tells whether a look at the stack as it is now makes no load, so
    that no other load can disturb it.
    """

    look: Callable[[Any], L]
    inspect: Callable[[Any], W]
    symptom: tuple[Measure[L], ...]
    evidence: tuple[Evidence[W], ...] = ()
    asks: tuple[Ask, ...] = ()
    may_stop: tuple[str, ...] = ()
    idle: Callable[[Any], bool] | None = None

    def __post_init__(self) -> None:
        """Refuse two asks of one name, because the second would replace the first."""
        names = [ask.name for ask in self.asks]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"two asks have the name {twice.pop()!r}")

    @property
    def relative(self) -> bool:
        """Return whether some measure is judged against the healthy phase."""
        return any(measure.relative for measure in self.symptom)

    def take(self, machines: Mapping[str, Any], evidence: bool) -> Reading[L, W]:
        """Look once at a running stack and, if asked, inspect it before and after."""
        if not evidence:
            return Reading(self.look(machines))
        before = self.inspect(machines)
        look = self.look(machines)
        return Reading(look, before, self.inspect(machines))

    def good(self, now: Reading[L, W], healthy: Reading[L, W]) -> list[Finding]:
        """Judge whether the phase is healthy. If it is, every finding holds."""
        found = [_find(m, m.good, now, healthy) for m in self._shown(now)]
        found += [_answered(name, now, healthy) for name in now.answers]
        served = (_served(place, now, healthy) for place in now.serving)
        found += [finding for finding in served if not finding.holds]
        found += outage.findings(now.outages)
        found += [] if now.left is None else leftover.findings(now.left)
        if now.frozen is not None:
            frozen = self.good(now.frozen, healthy)
            found.append(leftover.without(now.left or (), [f for f in frozen if not f.holds]))
        return found

    def bad(self, now: Reading[L, W], healthy: Reading[L, W]) -> list[Finding]:
        """Judge whether the symptom shows. If it does, every finding holds."""
        return [_find(m, m.bad, now, healthy) for m in self._shown(now) if m.bad]

    def _shown(self, now: Reading[L, W]) -> tuple[Measure[L], ...]:
        """Return the measures that a reading has values for: none if a machine had ended."""
        return () if now.look is None else self.symptom

    def apart(self, one: Reading[L, W], other: Reading[L, W]) -> list[str]:
        """Return the values that differ too much between two looks at a healthy stack."""
        found = []
        for measure in self.symptom:
            if not measure.relative:
                continue
            was = measure.expected(measure.value(one.look), other.speed(one))
            now = measure.value(other.look)
            low, high = sorted((was, now))
            if low <= 0 or high / low > measure.tolerance:
                unit = measure.unit
                found.append(f"{measure.name}: {number(was, unit)}, then {number(now, unit)}")
        return found

    def undecided(self, now: Reading[L, W], healthy: Reading[L, W]) -> list[Finding]:
        """Return the findings between the two limits, which prove neither health nor a fault."""
        ill = {finding.name: finding.holds for finding in self.bad(now, healthy)}
        well = [finding for finding in self.good(now, healthy) if finding.name in ill]
        found = [finding for finding in well if not finding.holds and not ill[finding.name]]
        return found + (self.undecided(now.frozen, healthy) if now.frozen is not None else [])

    def harmed(self, now: Reading[L, W], healthy: Reading[L, W]) -> bool:
        """Return whether a symptom shows, or what must always hold is far from holding."""
        if now.look is None:
            return True
        every = [(measure, _values(measure, now, healthy)) for measure in self.symptom]
        far = any(m.good.is_far(*values) for m, values in every if m.steady)
        return far or any(m.bad.holds(*values) for m, values in every if m.bad and not m.steady)

    def evident(self, reading: Reading[L, W]) -> list[Finding]:
        """Judge which evidence shows. Raises BadInput for a phase without inspections."""
        if reading.before is None or reading.after is None:
            raise BadInput("This phase was measured without inspections.")
        found = []
        for item in self.evidence:
            value = item.of(reading.before, reading.after)
            wanted = item.fires.words(0, item.unit)
            holds = item.fires.holds(value, 0)
            found.append(Finding(item.name, value, item.unit, wanted, holds, item.fault))
        return found

    def load(self, stored: Mapping[str, Any]) -> Reading[L, W]:
        """Return a reading from its JSON. Raises BadInput for one that cannot be judged."""
        try:
            found = reading.loaded(stored, *self._shapes)
            self._try_measures(found)
        except (LookupError, ArithmeticError, TypeError, ValueError) as error:
            raise BadInput(
                "The stored reading does not fit this lab's check any more.", "faultlab list"
            ) from error
        return found

    def _try_measures(self, now: Reading[L, W]) -> None:
        """Raise what a measure raises when a counter is missing, before anybody counts on it."""
        if now.look is not None:
            for measure in self.symptom:
                measure.value(now.look)
        if now.before is not None and now.after is not None:
            for item in self.evidence:
                item.of(now.before, now.after)

    @cached_property
    def _shapes(self) -> tuple[TypeAdapter[Any], TypeAdapter[Any]]:
        """Return the types of a look and of the inspections, which are optional; slow to make."""
        look = typing.get_type_hints(self.look)["return"]
        inspection = typing.get_type_hints(self.inspect)["return"]
        return TypeAdapter(look), TypeAdapter(inspection | None)


def _values(
    measure: Measure[L], now: Reading[L, Any], healthy: Reading[L, Any]
) -> tuple[float, float]:
    """Return the value of a reading, and the healthy one on a machine as fast as now."""
    expected = measure.expected(measure.value(healthy.look), now.speed(healthy))
    return measure.value(now.look), expected


def _find(
    measure: Measure[L], bound: Bound, now: Reading[L, Any], healthy: Reading[L, Any]
) -> Finding:
    value, reference = _values(measure, now, healthy)
    words = bound.words(reference, measure.unit)
    holds = bound.holds(value, reference)
    says = measure.when_good if measure.good.holds(value, reference) else measure.when_bad
    return Finding(measure.name, value, measure.unit, words, holds, measure.fault, says)


def _served(place: str, now: Reading[Any, Any], healthy: Reading[Any, Any]) -> Finding:
    """Judge whether the same daemon answers at a port as in the healthy phase."""
    found, wanted = now.serving[place], healthy.serving.get(place)
    holds = found == wanted
    if ":" in place:
        who = "no program" if found == NO_PROGRAM else "another program"
        name, says = f"{place} is served by {wanted}", f"At {place} {who} answers now."
    else:
        name, says = f"no {place} {found}", f"There is a {place} {found}, without its limits."
    return Finding(name, float(holds), "", exactly(1).words(0, ""), holds, says=says)


def _answered(name: str, now: Reading[Any, Any], healthy: Reading[Any, Any]) -> Finding:
    """Judge how many of the responses equal those of the healthy service."""
    found, wanted = now.answers[name], healthy.answers.get(name, ())
    pairs = zip(found, wanted, strict=False)
    right = sum(one == other and not one.startswith(FAILED) for one, other in pairs)
    share = 100 * right / max(1, len(found), len(wanted))
    holds = share == 100
    says = f"{bare(name)}: {'every response is' if holds else 'some responses are not'} right."
    return Finding(bare(name) + RIGHT, share, "%", exactly(100).words(0, "%"), holds, says=says)
