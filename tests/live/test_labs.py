"""Every lab, walked and judged by `faultlab verify`: two side by side, a line each as they end.

`python -m tests.live.test_labs` walks those that others cannot disturb, because they judge no
speed. tests/run.sh does that while the linters and the unit tests run.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from faultlab import check, engines, paths, rotation, vm
from faultlab import lab as labs
from faultlab.engine import Engine
from faultlab.run import ensure_images
from tests.live.commandline import spawn

# Of the labs in the VM a quick run takes one, of those that it can afford: without KVM the others
# take five minutes and more.
AFFORDED = ("conntrack", "netem-loss", "packet-loss")
TESTED = paths.runs() / "tested.json"
BESIDE = paths.runs() / "tested-beside.json"


@dataclass(frozen=True)
class Walked:
    """What verify says of the labs that it walked, and why the others were left out."""

    cases: dict[str, dict[str, Any]]
    left_out: dict[str, str]


def left_out() -> dict[str, str]:
    """Return the labs that this run leaves out, with the reason."""
    engine = Engine()
    ensure_images(engine, lambda _: None)
    why = {lab_id: engines.needs_vm(engine, labs.load(lab_id)) for lab_id in labs.ids()}
    in_vm = [lab_id for lab_id in labs.ids() if why[lab_id]]
    if vm.state() != "running":
        return {lab_id: f"{why[lab_id]}, and the lab VM is {vm.state()}" for lab_id in in_vm}
    if not rotation.quick():
        return {}
    afforded = [lab_id for lab_id in in_vm if lab_id in AFFORDED]
    now = afforded[rotation.commit() % len(afforded)] if afforded else ""
    reason = "a quick run takes one lab in the VM: make test-all"
    return {lab_id: reason for lab_id in in_vm if lab_id != now}


def undisturbed(lab_ids: Iterable[str]) -> list[str]:
    """Return those of these labs that run here and judge no speed, so that none disturbs them."""
    local = Engine()
    known = [(labs.load(lab_id), check.load(lab_id)) for lab_id in lab_ids]
    return [
        lab.id
        for lab, judge in known
        if not judge.relative and judge.idle is None and not engines.needs_vm(local, lab)
    ]


def verify(lab_ids: list[str], file: Path) -> subprocess.Popen[str]:
    """Begin to walk these labs, two at a time; what comes of it goes to the file.

    The walks stay there, where `faultlab reliability` reads them.
    """
    file.parent.mkdir(exist_ok=True)
    file.unlink(missing_ok=True)  # these are the walks of this run, and of no earlier one
    quick = ["--quick"] if rotation.quick() else []
    return spawn("verify", *lab_ids, *quick, "--jobs", "2", "--json", str(file))


def cases(file: Path) -> dict[str, dict[str, Any]]:
    """Return the cases in the file by their labs; none where there is no file."""
    if not file.is_file():
        return {}
    return {case["lab"]: case for case in json.loads(file.read_text())["cases"]}


@pytest.fixture(scope="module")
def walked(request: pytest.FixtureRequest) -> Walked:
    """Let verify walk the labs; its lines go to the terminal as they come."""
    out = left_out()
    already = cases(BESIDE) if os.environ.get("FAULTLAB_WALKED") else {}
    chosen = [lab_id for lab_id in labs.ids() if lab_id not in {**out, **already}]
    process = verify(chosen, TESTED)
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
    return Walked({**already, **cases(TESTED)}, out)


@pytest.mark.parametrize("lab_id", labs.ids())
def test_the_contract_of_a_lab(lab_id: str, walked: Walked) -> None:
    """Healthy, faulty, fixed, and what else has its turn: faultlab/contract.py."""
    if lab_id in walked.left_out:
        pytest.skip(walked.left_out[lab_id])
    case = walked.cases[lab_id]
    assert case["verdict"] == "pass", f"{case['reason']} (less runs/{case['run']}/run.json)"


def main() -> int:
    """Walk the labs that nothing disturbs; say what verify says, and end as it does."""
    ensure_images(Engine(), lambda _: None)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    process = verify(undisturbed(labs.ids()), BESIDE)
    assert process.stdout is not None
    try:
        for line in process.stdout:
            print(line, end="", flush=True)
    finally:
        process.terminate()
        process.wait()
    return process.returncode


if __name__ == "__main__":
    sys.exit(main())
