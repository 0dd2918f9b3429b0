"""Hints know the state of a stack, and nothing on it names its lab."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from faultlab.core import lock
from faultlab.core.naming import stack_name
from faultlab.engine.local import LocalEngine
from faultlab.lab import load as labs
from faultlab.lab.model import Lab
from faultlab.learn import hints
from faultlab.run import inject, rotation
from faultlab.run.run import Run
from faultlab.run.standing import standing
from faultlab.score import trial
from tests.live.stacks import container, engine_for
from tests.live.sweep import sweeper, swept

HALF = [
    (lab_id, number)
    for lab_id in labs.ids()
    for number, rung in enumerate(labs.load(lab_id).hint, 1)
    if rung.when
]
# Others take half a minute, with other workers beside them. Those of the VM start more slowly, and
# so does swap's Tomcat; the look of heap-leak and of idle-drop is long.
MINUTES = {
    "conntrack": 1.5,
    "cpu-quota": 1,
    "heap-leak": 1,
    "idle-drop": 1,
    "netem-loss": 1.5,
    "packet-loss": 1,
    "softirq": 1,
    "swap": 3,
    "throughput": 2,
}
LONG = ("swap", "throughput")  # there a sweep takes ten minutes


def marks(lab_id: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.rotates(minutes=MINUTES.get(lab_id, 0.5)), pytest.mark.beside]


def held(run: Run, lab: Lab) -> set[int]:
    """Return the numbers of the hints with `when` that apply now."""
    return {
        number
        for number, rung in enumerate(lab.hint, 1)
        if rung.when and hints.holds(run.stack[rung.when.at], rung.when)
    }


@pytest.mark.parametrize(
    ("lab_id", "number"), [pytest.param(*half, marks=marks(half[0])) for half in HALF]
)
def test_half_a_repair_leads_to_another_hint(lab_id: str, number: int) -> None:
    lab, name = labs.load(lab_id), stack_name("hints")
    with lock.hold(name, "hints"), standing(engine_for(lab), lab, name, collects=False) as run:
        inject.apply(run.stack, lab.inject)
        time.sleep(3)  # files and processes have their time in whole seconds
        assert held(run, lab) == set()
        inject.apply(run.stack, lab.hint[number - 1].half)
        assert number in held(run, lab)


@pytest.mark.parametrize(
    "lab_id", [pytest.param(lab_id, marks=marks(lab_id)) for lab_id in labs.ids()]
)
def test_only_a_state_gives_a_hint_and_nothing_names_the_lab(lab_id: str, tmp_path: Path) -> None:
    """One stack for both: whatever a tool greps after a look at the fault, it finds no name.

    Then comes the whole repair, and after it no hint is about a half.
    """
    lab = labs.load(lab_id)
    name = stack_name("mystery")
    with (
        lock.hold(name, "check"),
        standing(engine_for(lab), lab.called("mystery"), name, collects=False) as run,
    ):
        run.find_pace()
        run.inject()
        run.check.take(run.stack, evidence=False)
        said = json.dumps([container(m).attrs["Config"]["Labels"] for m in run.stack.values()])
        assert lab_id not in said
        if not (rotation.quick() and lab_id in LONG):
            sweep = sweeper(tmp_path, lab_id)
            assert swept(trial.examine(run.stack, lab, [sweep])[sweep.id]) == []
        inject.apply(run.stack, lab.fix)
        assert held(run, lab) == set()


@pytest.mark.beside
@pytest.mark.rotates
def test_the_sweep_finds_what_is_there(engine: LocalEngine, tmp_path: Path) -> None:
    """On a stack that is named after its lab; else the check above could not fail."""
    lab = labs.load("iptables-drop")
    name = stack_name("iptables-drop")
    with lock.hold(name, "check"), standing(engine, lab, name) as run:
        sweep = sweeper(tmp_path, lab.id)
        found = " ".join(swept(trial.examine(run.stack, lab, [sweep])[sweep.id]))
    assert "mountinfo: " in found or "reverse DNS: " in found, found
