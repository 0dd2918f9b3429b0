"""The labs, walked and judged by `faultlab verify`: four side by side, a line each as they end.

A quick run walks every lab that no recorded walk has passed as it is now. The others take turns.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from statistics import median
from typing import Any

import pytest

from faultlab.core import paths
from faultlab.engine import libvirt
from faultlab.engine.local import LocalEngine
from faultlab.lab import load as labs
from faultlab.run import placement, rotation
from faultlab.verify import walks
from tests.live.commandline import spawn

# Of the labs in the VM a quick run takes one, of those that it can afford: without KVM the others
# take three minutes and more.
AFFORDED = ("conntrack", "netem-loss")
# A walk takes about two minutes with three others beside it. These take longer.
MINUTES = {
    **dict.fromkeys(("missing-index", "slow-log", "bandwidth", "temp-tables", "syn-flood"), 11),
    **dict.fromkeys(("cpu-quota", "gzip", "php-workers", "query-cache", "retry-storm"), 9),
    **dict.fromkeys(("slow-join", "time-wait", "somaxconn", "heap-leak", "idle-drop"), 7),
    **dict.fromkeys(("port-range", "scale-out", "tls-resumption", "repeat-queries"), 6),
    **dict.fromkeys(("keepalive-race", "stampede", "healthy", "busy"), 4),
}


@dataclass(frozen=True)
class Plan:
    """The labs to walk, each with the commits within which it has one turn, and the others."""

    turns: dict[str, int]
    left_out: dict[str, str]

    @property
    def words(self) -> str:
        """Return the value of FAULTLAB_QUICK."""
        return " ".join(["1", *(f"{lab_id}={turns}" for lab_id, turns in self.turns.items())])


@dataclass(frozen=True)
class Walked:
    """Verify's cases of the labs that it walked, and why the others were left out."""

    cases: dict[str, dict[str, Any]]
    left_out: dict[str, str]


def proven() -> dict[str, float]:
    """Return the labs that passed as they are now, with the seconds of a recorded walk."""
    kept = walks.read(paths.root() / "docs" / "reliability.json")
    passed = {
        lab_id: [w.seconds for w in kept.of(lab_id) if w.verdict == "pass"] for lab_id in labs.ids()
    }
    return {lab_id: median(seconds) for lab_id, seconds in passed.items() if seconds}


def plan() -> Plan:
    """Choose the labs of this run.

    A turn depends on the list of labs alone. If it depended on the records, a lab could miss its
    turn whenever a record is added.
    """
    engine = LocalEngine()
    engine.images.ensure(lambda _: None)
    why = {lab_id: placement.cannot_run(engine, labs.load(lab_id)) for lab_id in labs.ids()}
    in_vm = [lab_id for lab_id in labs.ids() if why[lab_id]]
    out: dict[str, str] = {}
    if libvirt.state() != "running":
        out = {lab_id: f"{why[lab_id]}, and the lab VM is {libvirt.state()}" for lab_id in in_vm}
    if not rotation.quick():
        return Plan(dict.fromkeys(set(labs.ids()) - {*out}, 1), out)
    number, every = rotation.commit(), rotation.turns()
    now = number % every
    turns = dict.fromkeys((lab_id for lab_id in labs.ids() if lab_id not in in_vm), 1)
    passed = {lab_id: seconds for lab_id, seconds in proven().items() if lab_id in turns}
    order = rotation.shared_out([MINUTES.get(lab_id, 2) for lab_id in turns])
    chosen = [lab_id for lab_id, turn in zip(turns, order, strict=True) if turn % every == now]
    for lab_id in passed:
        turns[lab_id] = every
        if lab_id not in chosen:
            out[lab_id] = f"it passed as it is now, and is walked once in {every} commits"
    afforded = [lab_id for lab_id in AFFORDED if lab_id in in_vm and lab_id not in out]
    one = afforded[number % len(afforded) :][:1] if afforded else []
    turns |= dict.fromkeys(one, len(afforded))
    resting = [lab_id for lab_id in in_vm if lab_id not in [*one, *out]]
    out |= dict.fromkeys(resting, "a quick run takes one lab in the VM: make test-all")
    # The longest walks begin first, so that none of them is left over at the end.
    long_first = sorted(turns, key=lambda lab_id: -passed.get(lab_id, math.inf))
    return Plan({lab_id: turns[lab_id] for lab_id in long_first if lab_id not in out}, out)


@pytest.fixture(scope="module")
def walked(request: pytest.FixtureRequest) -> Walked:
    """Let verify walk the labs; its lines go to the terminal as they come.

    Their walks stay in a file, which `faultlab reliability` reads.
    """
    chosen = plan()
    file = paths.runs() / "tested.json"
    file.parent.mkdir(exist_ok=True)
    file.unlink(missing_ok=True)  # these are the walks of this run, and of no earlier one
    words = ["verify", *chosen.turns, "--jobs", "4", "--json", str(file)]
    if rotation.quick():
        words.append("--quick")
    process = spawn(*words, env={rotation.QUICK: chosen.words if rotation.quick() else ""})
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
    return Walked({case["lab"]: case for case in told}, chosen.left_out)


@pytest.mark.parametrize("lab_id", labs.ids())
def test_the_contract_of_a_lab(lab_id: str, walked: Walked) -> None:
    """Healthy, faulty, fixed, and what else has its turn: faultlab/run/contract.py."""
    if lab_id in walked.left_out:
        pytest.skip(walked.left_out[lab_id])
    case = walked.cases[lab_id]
    assert case["verdict"] == "pass", f"{case['reason']} (less runs/{case['run']}/run.json)"
