"""A case of verify: the worst verdict counts, and a judge that dies is unknown, never pass."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from faultlab.lab import loader as labs
from faultlab.lab.model import Lab
from faultlab.run.contract import Contract
from faultlab.run.record import Record
from faultlab.verify.case import Case, CaseEnd, Runner, _judged
from tests.unit.conftest import REPO, Project
from tests.unit.fake import FakeEngine, engines
from tests.waiting import until

CHECK = "checks/test_mtu.py"
MIXED = """
import pytest

def test_well() -> None:
    pass

def test_ill() -> None:
    assert 0, "measured 5, wanted 0"

def test_broken() -> None:
    raise OSError("the socket is gone")

def test_not_here() -> None:
    pytest.skip("no netem")
"""
IN_THE_WAY = """
from faultlab.core.errors import CannotRun

def test_well() -> None:
    pass

def test_kernel() -> None:
    raise CannotRun("gzip is up on the same kernel.", "make down-gzip")
"""
SLOW = """
import time
from pathlib import Path
import pytest

@pytest.fixture
def stack():
    Path("up").touch()
    yield
    Path("up").unlink()

def test_slow(stack) -> None:
    Path("begun").touch()
    time.sleep(30)
"""

HALF = """
import time

def test_healthy() -> None:
    pass

def test_fix() -> None:
    time.sleep(30)
"""
DEAF = """try:
        time.sleep(30)
    except KeyboardInterrupt:
        time.sleep(9)
        open("slept", "w")"""
STOPPED = """
import pytest

def test_healthy() -> None:
    pass

def test_fix() -> None:
    pytest.exit("somebody stopped us", 0)
"""

LOCAL = {"mtu": "local"}

EVERY = [
    *("test_healthy", "test_symptom", "test_evidence", "test_fix", "test_each_fault"),
    *("test_alternatives", "test_cheats", "test_opposite", "test_nothing_left"),
]
FULL = "test_the_table_is_full_and_never_fuller"
OWN = {  # tests that a check file adds for its own lab
    "bandwidth": ["test_more_connections_do_not_help"],
    "conntrack": [FULL],
    "netem-loss": ["test_the_loss_is_what_was_asked_for"],
    "softirq": ["test_no_queue_of_connections_is_full"],
    "syn-flood": ["test_the_crowd_holds_its_slots_also_when_it_is_fixed"],
    "throughput": [FULL],
}


class Told(Runner):
    """It runs no pytest, and has what one would have told."""

    def __init__(self, facts: dict[str, Any], ended: CaseEnd) -> None:
        super().__init__(LOCAL)
        self._facts, self._ended = facts, ended

    def _pytest(self, lab: Lab, file: Path, said: Path) -> CaseEnd:
        file.write_text(json.dumps(self._facts))
        return self._ended


class Impatient(FakeEngine):
    """An engine on which a walk takes few seconds."""

    walk_seconds = 3


@pytest.mark.parametrize(
    ("verdicts", "verdict", "reason"),
    [
        (["pass", "pass"], "pass", ""),
        (["pass", "skip"], "skip", "1: skip"),
        (["skip", "unknown", "pass"], "unknown", "1: unknown"),
        (["pass", "unknown", "fail", "fail"], "fail", "2: fail"),
    ],
)
def test_the_worst_verdict_is_that_of_the_case(
    verdicts: list[str], verdict: str, reason: str
) -> None:
    tests = [
        {"test": f"test_{i}", "verdict": v, "text": "" if v == "pass" else f"{i}: {v}"}
        for i, v in enumerate(verdicts)
    ]

    collected = [test["test"] for test in tests]
    told = Told(
        {"run": "r1", "collected": collected, "tests": tests}, CaseEnd(1, "1 failed in 3 s")
    )
    case = told.run(labs.load("mtu"), 2)
    got = (case.lab, case.number, case.verdict, case.run, case.reason, case.tests, case.engine)
    assert got == ("mtu", 2, verdict, "r1", reason, tests, "local")
    assert case.lab_digest and case.program_digest and not case.interrupted


def run(project: Project, text: str) -> Case:
    project.write(CHECK, text)
    return Runner(LOCAL).run(labs.load("mtu"), 1)


def test_every_kind_of_verdict_comes_through(project: Project) -> None:
    case = run(project, MIXED)
    assert [(t["test"], t["verdict"], t["text"]) for t in case.tests] == [
        ("test_well", "pass", ""),
        ("test_ill", "fail", "measured 5, wanted 0"),
        ("test_broken", "unknown", "OSError: the socket is gone"),
        ("test_not_here", "skip", "no netem"),
    ]
    assert (case.verdict, case.reason, case.hint) == ("fail", "measured 5, wanted 0", "")


def test_a_problem_comes_through_with_its_next_command(project: Project) -> None:
    case = run(project, IN_THE_WAY)
    assert case.verdict == "unknown" and case.reason == "gzip is up on the same kernel."
    assert case.hint == "make down-gzip"


def test_pytest_that_dies_is_unknown(project: Project) -> None:
    case = run(project, "import os\ndef test_x() -> None:\n    os._exit(0)\n")
    assert case.verdict == "unknown"
    assert case.reason.startswith("pytest: ")


def test_a_check_that_cannot_be_imported_is_unknown_and_says_why(project: Project) -> None:
    case = run(project, "import nothing_like_it\n")
    assert case.verdict == "unknown"
    assert case.reason, "an unknown without a reason"


def test_a_check_without_a_test_is_unknown(project: Project) -> None:
    case = run(project, "CHECK = None\n")
    assert case.verdict == "unknown" and case.reason


def test_stopping_lets_the_case_take_its_stack_down(project: Project) -> None:
    project.write(CHECK, SLOW)
    runner = Runner(LOCAL)
    cases: list[Case] = []
    thread = threading.Thread(target=lambda: cases.append(runner.run(labs.load("mtu"), 1)))
    thread.start()
    up = project.root / "up"
    # Not `up`: a fixture that is stopped before its `yield` has nothing to take down.
    until((project.root / "begun").exists, 20, "the case did not begin")
    runner.stop()
    thread.join()
    assert not up.exists()
    assert cases[0].verdict == "unknown" and cases[0].interrupted
    after = runner.run(labs.load("mtu"), 2)
    assert (after.verdict, after.reason) == ("unknown", "pytest: stopped")
    assert after.interrupted


def test_a_case_that_ran_out_of_time_is_no_pass(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tests that it had judged until then had all passed."""
    engines(monkeypatch, local=Impatient)
    case = run(project, HALF)
    assert (case.verdict, case.reason) == ("unknown", "pytest: it did not end within 3 s")
    assert not case.interrupted, "the walk took too long, which counts"


def test_a_case_that_lost_the_signal_is_told_again(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    engines(monkeypatch, local=Impatient)
    monkeypatch.setattr("faultlab.verify.case._END_SECONDS", 0.5)
    lost = HALF.replace("time.sleep(30)", DEAF)
    assert DEAF in lost
    assert run(project, lost).reason == "pytest: it did not end within 3 s"
    assert not (project.root / "slept").exists()


PASSED = [{"test": "test_healthy", "verdict": "pass", "text": ""}]


@pytest.mark.parametrize(
    ("ended", "collected", "verdict", "reason"),
    [
        (CaseEnd(0, ""), ["test_healthy"], "pass", ""),
        (CaseEnd(0, ""), ["test_healthy", "test_fix"], "unknown", "pytest: test_fix never ran"),
        (CaseEnd(0, ""), ["test_healthy"] * 2, "unknown", "pytest: test_healthy never ran"),
        (CaseEnd(0, ""), [], "unknown", "pytest: no test was there"),
        (CaseEnd(None, "too long"), ["test_healthy"], "unknown", "pytest: too long"),
        (CaseEnd(2, "stop"), ["test_healthy"], "unknown", "pytest: stop"),
        (CaseEnd(5, "no tests ran"), ["test_healthy"], "unknown", "pytest: no tests ran"),
        (CaseEnd(-9, "half a li"), ["test_healthy"], "unknown", "pytest: half a li"),
    ],
)
def test_only_a_whole_session_is_judged(
    ended: CaseEnd, collected: list[str], verdict: str, reason: str
) -> None:
    assert _judged(ended, collected, PASSED) == (verdict, reason)


def test_a_record_of_half_a_session_is_no_pass_either(project: Project) -> None:
    run_id = "20260101-000000-mtu-aaaa"
    project.run(run_id, tests=PASSED, commit="abc", kernel="6.1", cpus=2)
    told = Told({"run": run_id, "collected": ["test_fix"], "tests": PASSED}, CaseEnd(0, ""))
    case = told.run(labs.load("mtu"), 1)
    assert (case.commit, case.kernel, case.cpus) == ("abc", "6.1", 2)
    assert (case.verdict, Record.read(run_id).verdict) == ("unknown", "unknown")


def test_tests_that_never_ran_are_no_pass(project: Project) -> None:
    case = run(project, STOPPED)
    assert case.verdict == "unknown"
    assert case.reason == "pytest: test_fix never ran"


def test_pytest_that_was_interrupted_is_no_pass(project: Project) -> None:
    # Our launcher may ignore Ctrl-C, and then pytest would ignore it too.
    me = "import signal\nsignal.signal(2, signal.default_int_handler)\nsignal.raise_signal(2)"
    case = run(project, HALF.replace("import time", "").replace("time.sleep(30)", f"exec({me!r})"))
    assert case.verdict == "unknown" and case.interrupted
    assert case.reason.startswith("pytest: ")


def test_options_of_pytest_in_the_environment_take_no_test_away(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_ADDOPTS", "-k test_well")
    assert len(run(project, MIXED).tests) == 4


def collected(*words: str) -> dict[str, list[str]]:
    """The names of the tests that pytest finds, by file."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--collect-only", *words],
        cwd=REPO,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        if "::" in line:
            file, _, name = line.split("::")
            found.setdefault(Path(file).stem, []).append(name)
    return found


def test_every_check_file_has_the_tests_of_every_lab() -> None:
    alone = [lab_id for lab_id in labs.ids() if not labs.load(lab_id).of]
    names = {lab_id: f"test_{lab_id.replace('-', '_')}" for lab_id in alone}
    assert collected("checks") == {
        name: [*EVERY, *OWN.get(lab_id, [])] for lab_id, name in names.items()
    }
    assert [name for name in vars(Contract) if name.startswith("test_")] == EVERY
