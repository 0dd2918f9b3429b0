"""Hints know the state: after half a repair another hint comes next than before it."""

from __future__ import annotations

import time

import pytest

from faultlab.core import lock
from faultlab.core.naming import stack_name
from faultlab.lab import load as labs
from faultlab.lab.model import Lab
from faultlab.learn import hints
from faultlab.run import inject
from faultlab.run.run import Run
from faultlab.run.standing import standing
from tests.live.stacks import engine_for

HALF = [
    (lab_id, number)
    for lab_id in labs.ids()
    for number, rung in enumerate(labs.load(lab_id).hint, 1)
    if rung.when
]
# Others take half a minute, with other workers beside them. Those of the VM start more slowly, and
# so does swap's Tomcat.
MINUTES = {
    "conntrack": 1.5,
    "netem-loss": 1.5,
    "packet-loss": 1,
    "softirq": 1,
    "swap": 3,
    "throughput": 2,
}


def marks(lab_id: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.rotates(minutes=MINUTES.get(lab_id, 0.5)), pytest.mark.beside]


def held(run: Run, lab: Lab) -> set[int]:
    """Return the numbers of the hints with `when` that apply now."""
    return {
        number
        for number, rung in enumerate(lab.hint, 1)
        if rung.when and hints.holds(run.stack[rung.when.at], rung.when)
    }


def injected(run: Run, lab: Lab) -> set[int]:
    """Set the fault up, and return the hints with `when` that apply then."""
    inject.apply(run.stack, lab.inject)
    time.sleep(3)  # files and processes have their time in whole seconds
    return held(run, lab)


@pytest.mark.parametrize(
    ("lab_id", "number"), [pytest.param(*half, marks=marks(half[0])) for half in HALF]
)
def test_half_a_repair_leads_to_another_hint(lab_id: str, number: int) -> None:
    lab, name = labs.load(lab_id), stack_name("hints")
    with lock.hold(name, "hints"), standing(engine_for(lab), lab, name, collects=False) as run:
        assert injected(run, lab) == set()
        inject.apply(run.stack, lab.hint[number - 1].half)
        assert number in held(run, lab)


@pytest.mark.parametrize(
    "lab_id", [pytest.param(lab_id, marks=marks(lab_id)) for lab_id in dict(HALF)]
)
def test_after_the_whole_repair_none_is_about_a_half(lab_id: str) -> None:
    lab, name = labs.load(lab_id), stack_name("hints")
    with lock.hold(name, "hints"), standing(engine_for(lab), lab, name, collects=False) as run:
        injected(run, lab)
        inject.apply(run.stack, lab.fix)
        assert held(run, lab) == set()
