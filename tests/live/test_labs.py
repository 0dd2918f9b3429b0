"""The labs, walked and judged by `faultlab verify`, a line each as they end.

A lab whose speed is not judged is walked beside other tests. The others are walked by one verify,
which lets their loads take turns. A quick run walks every lab that no recorded walk has passed as
it is now. The others take turns, and one that the machine was too busy to judge is left out: a
quick run does not wait until its hypervisor has time.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from faultlab.core import paths
from faultlab.lab import loader as labs
from faultlab.run import rotation
from faultlab.run.looks import TOO_BUSY
from tests.live import turns
from tests.live.commandline import spawn
from tests.live.turns import Plan

LABS = {lab_id: turns.mark(lab_id) for lab_id in labs.ids()}


@pytest.fixture(scope="module")
def planned() -> Plan:
    """Choose the labs."""
    return turns.plan()


def verify(planned: Plan, lab_ids: list[str], to: str, jobs: int) -> dict[str, dict[str, Any]]:
    """Let verify walk labs and return its cases by lab. What is unknown is walked once more."""
    cases = walk(planned, lab_ids, to, jobs)
    unknown = [case for case in cases.values() if case["verdict"] == "unknown"]
    if again := [case["lab"] for case in unknown if not can_wait(case)]:
        cases |= walk(planned, again, f"again-{to}", jobs)
    return cases


def can_wait(case: dict[str, Any]) -> bool:
    """Return whether the machine was too busy to judge a lab that has passed as it is now."""
    return rotation.quick() and case["lab"] in turns.proven() and TOO_BUSY in case["reason"]


def walk(planned: Plan, lab_ids: list[str], to: str, jobs: int) -> dict[str, dict[str, Any]]:
    """Let verify walk labs, print its lines as they come, and return its cases by lab.

    Their walks stay in a file, which `faultlab reliability` reads.
    """
    file = paths.runs() / to
    file.parent.mkdir(exist_ok=True)
    file.unlink(missing_ok=True)  # these are the walks of this run, and of no earlier one
    words = ["verify", *lab_ids, "--jobs", str(jobs), "--json", str(file)]
    if rotation.quick():
        words.append("--quick")
    process = spawn(*words, env={rotation.QUICK: planned.words})
    assert process.stdout is not None
    try:
        for line in process.stdout:
            # Nobody sees what a worker of pytest-xdist writes to its standard output.
            print(f"  {line}", end="", file=sys.stderr, flush=True)
    finally:
        process.terminate()  # unless it has ended; it takes its stacks down
        process.wait()
    return {case["lab"]: case for case in json.loads(file.read_text())["cases"]}


@pytest.fixture(scope="module")
def walked(request: pytest.FixtureRequest, planned: Plan) -> dict[str, dict[str, Any]]:
    """Let verify walk the labs that are not walked beside others; its lines are shown."""
    alone = [lab_id for lab_id in planned.turns if not LABS[lab_id]]
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        print(file=sys.stderr)
        return verify(planned, alone, "tested.json", jobs=4)


@pytest.mark.parametrize("lab_id", [pytest.param(lab_id, marks=LABS[lab_id]) for lab_id in LABS])
def test_the_contract_of_a_lab(lab_id: str, planned: Plan, request: pytest.FixtureRequest) -> None:
    """Healthy, faulty, fixed, and what else has its turn: faultlab/run/contract.py."""
    if lab_id in planned.left_out:
        pytest.skip(planned.left_out[lab_id])
    if LABS[lab_id]:
        cases = verify(planned, [lab_id], f"tested-{lab_id}.json", jobs=1)
    else:
        cases = request.getfixturevalue("walked")
    case = cases[lab_id]
    if case["verdict"] == "unknown" and can_wait(case):
        pytest.skip(f"it passed as it is now, and today: {case['reason']}")
    assert case["verdict"] == "pass", f"{case['reason']} (less runs/{case['run']}/run.json)"
