"""Every lab, walked and judged by `faultlab verify`: four side by side, a line each as they end."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from faultlab.core import paths
from faultlab.engine import libvirt
from faultlab.engine.local import LocalEngine
from faultlab.lab import load as labs
from faultlab.run import placement, rotation
from tests.live.commandline import spawn

# Of the labs in the VM a quick run takes one, of those that it can afford: without KVM the others
# take three minutes and more.
AFFORDED = ("conntrack", "netem-loss")


@dataclass(frozen=True)
class Walked:
    """Verify's cases of the labs that it walked, and why the others were left out."""

    cases: dict[str, dict[str, Any]]
    left_out: dict[str, str]


def left_out() -> dict[str, str]:
    """Return the labs that this run leaves out, with the reason."""
    engine = LocalEngine()
    engine.images.ensure(lambda _: None)
    why = {lab_id: placement.cannot_run(engine, labs.load(lab_id)) for lab_id in labs.ids()}
    in_vm = [lab_id for lab_id in labs.ids() if why[lab_id]]
    if libvirt.state() != "running":
        return {lab_id: f"{why[lab_id]}, and the lab VM is {libvirt.state()}" for lab_id in in_vm}
    if not rotation.quick():
        return {}
    afforded = [lab_id for lab_id in in_vm if lab_id in AFFORDED]
    now = afforded[rotation.commit() % len(afforded)] if afforded else ""
    reason = "a quick run takes one lab in the VM: make test-all"
    return {lab_id: reason for lab_id in in_vm if lab_id != now}


@pytest.fixture(scope="module")
def walked(request: pytest.FixtureRequest) -> Walked:
    """Let verify walk the labs; its lines go to the terminal as they come.

    Their walks stay in a file, which `faultlab reliability` reads.
    """
    out = left_out()
    chosen = [lab_id for lab_id in labs.ids() if lab_id not in out]
    file = paths.runs() / "tested.json"
    file.parent.mkdir(exist_ok=True)
    file.unlink(missing_ok=True)  # these are the walks of this run, and of no earlier one
    quick = ["--quick"] if rotation.quick() else []
    process = spawn("verify", *chosen, *quick, "--jobs", "4", "--json", str(file))
    assert process.stdout is not None
    capture = request.config.pluginmanager.getplugin("capturemanager")
    try:
        with capture.global_and_fixture_disabled():
            print()
            for line in process.stdout:
                print(f"  {line}", end="", flush=True)
    finally:
        process.terminate()  # unless it has ended; it takes its stacks down
        process.wait()
    told = json.loads(file.read_text())["cases"]
    return Walked({case["lab"]: case for case in told}, out)


@pytest.mark.parametrize("lab_id", labs.ids())
def test_the_contract_of_a_lab(lab_id: str, walked: Walked) -> None:
    """Healthy, faulty, fixed, and what else has its turn: faultlab/run/contract.py."""
    if lab_id in walked.left_out:
        pytest.skip(walked.left_out[lab_id])
    case = walked.cases[lab_id]
    assert case["verdict"] == "pass", f"{case['reason']} (less runs/{case['run']}/run.json)"
