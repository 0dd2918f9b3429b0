"""The labs, walked and judged by `faultlab verify`: four side by side, a line each as they end.

A quick run walks every lab that no recorded walk has passed as it is now. The others take turns.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import pytest

from faultlab.core import paths
from faultlab.engine import libvirt
from faultlab.engine.local import LocalEngine
from faultlab.lab import load as labs
from faultlab.run import placement, rotation
from faultlab.verify import proof, walks
from tests.live.commandline import spawn

# Of the labs in the VM a quick run takes one, of those that it can afford: without KVM the others
# take three minutes and more.
AFFORDED = ("conntrack", "netem-loss")


@dataclass(frozen=True)
class Walked:
    """Verify's cases of the labs that it walked, and why the others were left out."""

    cases: dict[str, dict[str, Any]]
    left_out: dict[str, str]


@dataclass(frozen=True)
class Plan:
    """The labs to walk in the VM and here, and why the others are left out."""

    in_vm: list[str]
    here: list[str]
    left_out: dict[str, str]


def resting(lab_ids: Sequence[str]) -> list[str]:
    """Return the labs that passed as they are now and whose turn it is not.

    Each turn takes about the same time, by the recorded walks.
    """
    kept = walks.read(paths.root() / "docs" / "reliability.json")
    seconds: dict[str, float] = {}
    for lab_id in lab_ids:
        passed = [w for w in proof.current(kept, labs.load(lab_id)) if w.verdict == "pass"]
        if passed:
            seconds[lab_id] = median(walk.seconds for walk in passed)
    turns = rotation.shared_out(list(seconds.values()), rotation.turns())
    now = rotation.commit() % rotation.turns()
    return [lab_id for lab_id, turn in zip(seconds, turns, strict=True) if turn != now]


def plan() -> Plan:
    """Choose the labs of this run."""
    engine = LocalEngine()
    engine.images.ensure(lambda _: None)
    why = {lab_id: placement.cannot_run(engine, labs.load(lab_id)) for lab_id in labs.ids()}
    in_vm = [lab_id for lab_id in labs.ids() if why[lab_id]]
    here = [lab_id for lab_id in labs.ids() if not why[lab_id]]
    out: dict[str, str] = {}
    if libvirt.state() != "running":
        out = {lab_id: f"{why[lab_id]}, and the lab VM is {libvirt.state()}" for lab_id in in_vm}
    elif rotation.quick():
        out = dict.fromkeys(in_vm, "a quick run takes one lab in the VM: make test-all")
        afforded = [lab_id for lab_id in in_vm if lab_id in AFFORDED]
        for lab_id in afforded[rotation.commit() % len(AFFORDED) :][:1]:
            del out[lab_id]
    if rotation.quick():
        passed = f"it passed as it is now, and is walked once in {rotation.turns()} commits"
        out |= dict.fromkeys(resting(here), passed)
    return Plan(
        [lab_id for lab_id in in_vm if lab_id not in out],
        [lab_id for lab_id in here if lab_id not in out],
        out,
    )


def walks_of(chosen: list[str], name: str, commits: int) -> dict[str, dict[str, Any]]:
    """Let verify walk labs that are walked once in so many commits; return its case of each lab.

    Its lines go to the terminal as they come. The walks stay in a file for `faultlab reliability`.
    """
    if not chosen:
        return {}
    file = paths.runs() / name
    file.parent.mkdir(exist_ok=True)
    file.unlink(missing_ok=True)  # these are the walks of this run, and of no earlier one
    quick = ["--quick"] if rotation.quick() else []
    turns = {rotation.QUICK: str(commits) if quick else ""}
    process = spawn("verify", *chosen, *quick, "--jobs", "4", "--json", str(file), env=turns)
    assert process.stdout is not None
    try:
        for line in process.stdout:
            print(f"  {line}", end="", flush=True)
    finally:
        process.terminate()  # unless it has ended; it takes its stacks down
        process.wait()
    return {case["lab"]: case for case in json.loads(file.read_text())["cases"]}


@pytest.fixture(scope="module")
def walked(request: pytest.FixtureRequest) -> Walked:
    """The cases of the labs that have their turn, those in the VM first."""
    chosen = plan()
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        print()
        cases = walks_of(chosen.in_vm, "tested-vm.json", len(AFFORDED))
        cases |= walks_of(chosen.here, "tested.json", rotation.turns())
    return Walked(cases, chosen.left_out)


@pytest.mark.parametrize("lab_id", labs.ids())
def test_the_contract_of_a_lab(lab_id: str, walked: Walked) -> None:
    """Healthy, faulty, fixed, and what else has its turn: faultlab/run/contract.py."""
    if lab_id in walked.left_out:
        pytest.skip(walked.left_out[lab_id])
    case = walked.cases[lab_id]
    assert case["verdict"] == "pass", f"{case['reason']} (less runs/{case['run']}/run.json)"
