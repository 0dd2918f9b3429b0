"""Hints know the state of a stack, and nothing on it names its lab."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from faultlab.core import lock
from faultlab.core.errors import CannotRun
from faultlab.core.naming import stack_name
from faultlab.engine.docker.local import LocalEngine
from faultlab.engine.measure import load_scale
from faultlab.lab import loader as labs
from faultlab.lab.model import Lab
from faultlab.learn import hints
from faultlab.run import inject, rotation
from faultlab.run.run import Run
from faultlab.run.stack_in_phase import stack_in_phase
from faultlab.score import trial
from tests.live.stacks import container, engine_for, needs_vm
from tests.live.sweep import sweeper, swept

REPAIR = 0  # in place of the number of a hint
# With other workers beside them; the others take less.
MINUTES = {
    "swap": 8.0,
    **dict.fromkeys(("conntrack", "throughput"), 5.0),
    "packet-loss": 4.0,
    **dict.fromkeys(("cpu-quota", "idle-drop", "max-connections", "netem-loss"), 2.6),
    **dict.fromkeys(("heap-leak", "softirq"), 2.0),
    **dict.fromkeys(("metadata-lock", "query-cache", "repeat-queries", "silent-dependency"), 1.1),
    **dict.fromkeys(("slow-log", "thread-limit", "tls-resumption"), 1.1),
}
# In these labs of the VM each half needs a fresh stack, which takes a minute. After this one the
# repair can follow.
APART = {"packet-loss": 2, "softirq": 1, "swap": 1}
LONG = ("softirq", "swap", "throughput")  # there a look and a sweep take up to ten minutes


def cases() -> list[Any]:
    """Return each lab with the numbers of its hints that know a state."""
    found = []
    for lab_id in labs.ids():
        hints_of = enumerate(labs.load(lab_id).hint, 1)
        halves = [number for number, rung in hints_of if rung.when]
        whole = [[REPAIR, *halves]]
        if half := APART.get(lab_id):
            whole = [[half, REPAIR], *([other] for other in halves if other != half)]
        marks = [pytest.mark.rotates(minutes=MINUTES.get(lab_id, 0.7)), pytest.mark.beside]
        for numbers in whole:
            name = "-".join([lab_id, *map(str, numbers)])
            found.append(pytest.param(lab_id, numbers, marks=marks, id=name))
    return found


def holds(run: Run, lab: Lab, number: int) -> bool:
    """Return whether a hint with `when` applies now."""
    when = lab.hint[number - 1].when
    return when is not None and hints.holds(run.stack[when.at], when)


def held(run: Run, lab: Lab) -> set[int]:
    """Return the numbers of the hints with `when` that apply now."""
    return {number for number in range(1, len(lab.hint) + 1) if holds(run, lab, number)}


@contextmanager
def faulty(lab: Lab, name: str) -> Iterator[Run]:
    """Give a stack with the lab's fault, under a name that tells nothing."""
    with stack_in_phase(engine_for(lab), lab.called("mystery"), name, collects=False) as run:
        if needs_vm(lab):  # its first pace is found alone, for which all other tests would pause
            run.stack.pace = load_scale.measure(run.stack.user())
        else:
            run.find_pace()
        run.inject()
        yield run


def fits(run: Run, lab: Lab, number: int, again: bool = False) -> bool:
    """Return whether a hint holds after its half and not before it, or none after the repair.

    `again`: the stack has had other steps, so inject the fault once more.
    """
    steps = lab.fix if number == REPAIR else lab.hint[number - 1].half
    try:
        if again:
            inject.apply(run.stack, lab.inject)
        time.sleep(3)
        if number != REPAIR and holds(run, lab, number):
            return False
        inject.apply(run.stack, steps)
    except CannotRun as problem:
        print(problem.message)
        return False
    return holds(run, lab, number) if number != REPAIR else held(run, lab) == set()


@pytest.mark.parametrize(("lab_id", "numbers"), cases())
def test_only_a_state_gives_a_hint_and_nothing_names_the_lab(
    lab_id: str, numbers: list[int], tmp_path: Path
) -> None:
    """After the fault, and after the whole repair, no hint is about a half; after a half one is.

    Whatever a tool greps after a look at the fault, it finds no name. One stack serves for all
    where the fault can be injected again, and one fault for all halves that can follow each other.
    Elsewhere a half has a fresh one.
    """
    lab, name = labs.load(lab_id), stack_name("mystery")
    with lock.hold(name, "check"), ExitStack() as up:
        run = up.enter_context(faulty(lab, name))
        if REPAIR in numbers:
            said = json.dumps([container(m).attrs["Config"]["Labels"] for m in run.stack.values()])
            assert lab_id not in said
            if not (rotation.quick() and lab_id in LONG):
                run.check.take(run.stack, evidence=False)
                sweep = sweeper(tmp_path, lab_id)
                assert swept(trial.examine(run.stack, lab, [sweep])[sweep.id]) == []
        time.sleep(3)  # files and processes have their time in whole seconds
        assert held(run, lab) == set()
        # The repair is the first, and most labs can have their fault again after it. Elsewhere it
        # follows a half, as learners do it.
        earlier = None
        for number in numbers:
            ways = {None: [False], REPAIR: [True]}.get(earlier, [False, True])
            if not any(fits(run, lab, number, again) for again in ways):
                print(f"{lab_id}: {number} with a fresh stack")
                up.close()
                run = up.enter_context(faulty(lab, name))
                assert fits(run, lab, number), number
            earlier = number


@pytest.mark.beside
@pytest.mark.rotates
def test_the_sweep_finds_what_is_there(engine: LocalEngine, tmp_path: Path) -> None:
    """On a stack that is named after its lab; else the check above could not fail."""
    lab = labs.load("iptables-drop")
    name = stack_name("iptables-drop")
    with lock.hold(name, "check"), stack_in_phase(engine, lab, name) as run:
        run.stack["web"].must(
            "touch /srv/planted; sh -c 'sleep 60; true' planted >/dev/null 2>&1 &"
            " PLANTED=planted sleep 60 >/dev/null 2>&1 &"
        )
        sweeps = [sweeper(tmp_path, word) for word in (lab.id, "planted")]
        outcomes = trial.examine(run.stack, lab, sweeps)
    of_lab, planted = (" ".join(swept(outcomes[each.id])) for each in sweeps)
    assert "mountinfo: " in of_lab and "reverse DNS: " in of_lab, of_lab
    for where in ("environ: ", "cmdline: ", "root/: "):
        assert where in planted, f"not in {where}{planted}"
