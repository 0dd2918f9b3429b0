"""Turns: the labs that a run of the tests walks, and which of them are walked beside others."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from statistics import median

import pytest

from faultlab.core import naming, paths
from faultlab.engine import libvirt, trial
from faultlab.engine.local import LocalEngine
from faultlab.lab import checks
from faultlab.lab import load as labs
from faultlab.run import placement, rotation
from faultlab.verify import walks
from tests.live.stacks import needs_vm

# Of the labs in the VM a quick run takes one, of those that it can afford: without KVM the others
# take three minutes and more.
AFFORDED = ("conntrack", "netem-loss")
# A walk takes about two minutes, and these more or fewer. The labs of the first three lines are
# walked alone on this machine, the others with three walks beside them.
MINUTES = {
    **dict.fromkeys(("time-wait", "slow-log", "temp-tables", "cpu-quota"), 4),
    **dict.fromkeys(("php-workers", "query-cache"), 3),
    **dict.fromkeys(("busy", "healthy", "latent", "port-range"), 1),
    **dict.fromkeys(("retry-storm", "heap-leak", "idle-drop", "syn-flood"), 6),
    **dict.fromkeys(("keepalive-race", "stampede"), 4),
}
# Each look of these takes a quarter of a minute and more, or a remedy waits a minute for the
# kernel. They have two turns, with half of their remedies each.
HALVES = ("heap-leak", "idle-drop", "retry-storm", "slow-log", "time-wait")


@dataclass(frozen=True)
class Plan:
    """The labs to walk, each with the commits within which it has one turn, and the others."""

    turns: dict[str, int]
    left_out: dict[str, str]

    @property
    def words(self) -> str:
        """Return the value of FAULTLAB_QUICK; empty if everything runs."""
        if not rotation.quick():
            return ""
        return " ".join(["1", *(f"{lab_id}={turns}" for lab_id, turns in self.turns.items())])


def proven() -> dict[str, float]:
    """Return the labs that passed as they are now, with the seconds of a recorded walk."""
    kept = walks.read(paths.root() / "docs" / "reliability.json")
    passed = {
        lab_id: [w.seconds for w in kept.of(lab_id) if w.verdict == "pass"] for lab_id in labs.ids()
    }
    return {lab_id: median(seconds) for lab_id, seconds in passed.items() if seconds}


def mark(lab_id: str) -> list[pytest.MarkDecorator]:
    """Return the mark of a lab that is walked beside others; none if its loads take turns."""
    lab = labs.load(lab_id)
    alone = needs_vm(lab) or (lab.load and checks.load(lab_id).relative)
    return [] if alone else [pytest.mark.beside]


@cache
def plan() -> Plan:
    """Choose the labs of this run.

    A turn depends on the list of labs alone. If it depended on the records, a lab could miss its
    turn whenever a record is added.
    """
    why = _not_here()
    out: dict[str, str] = {}
    if libvirt.state() != "running":
        out = {lab_id: f"{why[lab_id]}, and the lab VM is {libvirt.state()}" for lab_id in why}
    passed = proven()
    # The longest walks begin first, so that none of them is left over at the end.
    long_first = sorted(labs.ids(), key=lambda lab_id: -passed.get(lab_id, math.inf))
    if not rotation.quick():
        return Plan({lab_id: 1 for lab_id in long_first if lab_id not in out}, out)
    number = rotation.commit()
    turns = {}
    for lab_id, turn in _shared_out([lab_id for lab_id in labs.ids() if lab_id not in why]):
        commits = rotation.EVERY // (2 if lab_id in HALVES else 1)
        turns[lab_id] = commits if lab_id in passed else 1
        if turn % commits != number % commits and lab_id in passed:
            out[lab_id] = f"it passed as it is now, and is walked once in {commits} commits"
    afforded = [lab_id for lab_id in AFFORDED if lab_id in why and lab_id not in out]
    one = afforded[number % len(afforded) :][:1] if afforded else []
    turns |= dict.fromkeys(one, len(afforded))
    resting = [lab_id for lab_id in why if lab_id not in [*one, *out]]
    out |= dict.fromkeys(resting, "a quick run takes one lab in the VM: make test-all")
    return Plan({lab_id: turns[lab_id] for lab_id in long_first if lab_id not in out}, out)


def _shared_out(lab_ids: list[str]) -> Iterator[tuple[str, int]]:
    """Yield each lab with its turn; each turn has labs that are walked beside others, and not."""
    for group in (
        [lab_id for lab_id in lab_ids if mark(lab_id)],
        [lab_id for lab_id in lab_ids if not mark(lab_id)],
    ):
        minutes = [MINUTES.get(lab_id, 2) for lab_id in group]
        yield from zip(group, rotation.shared_out(minutes), strict=True)


def _not_here() -> dict[str, str]:
    """Return the labs that this machine's kernel cannot run, with the reason."""
    engine = LocalEngine()
    engine.images.ensure(lambda _: None)
    every = {lab_id: labs.load(lab_id) for lab_id in labs.ids()}
    wanted = sorted({name for lab in every.values() for name in lab.requires})
    lacking = trial.lacking(engine, "machine", wanted, naming.prefix() + "trial")
    why = {lab_id: placement.reason(lab, lacking) for lab_id, lab in every.items()}
    return {lab_id: reason for lab_id, reason in why.items() if reason}
