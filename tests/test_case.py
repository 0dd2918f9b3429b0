"""A case of verify: the worst verdict counts, and a judge that dies is unknown, never pass."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest

from faultlab import lab as labs
from faultlab.case import Case, Runner
from faultlab.lab import Lab
from tests.conftest import Project

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
    time.sleep(30)
"""

LOCAL = {"mtu": "local"}


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
    verdicts: list[str], verdict: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tests = [
        {"test": f"test_{i}", "verdict": v, "text": "" if v == "pass" else f"{i}: {v}"}
        for i, v in enumerate(verdicts)
    ]

    def told(_self: Runner, _lab: Lab, file: Path, _said: Path) -> str:
        file.write_text(json.dumps({"run": "r1", "tests": tests}))
        return "1 failed in 3 s"

    monkeypatch.setattr(Runner, "_pytest", told)
    case = Runner(LOCAL).run(labs.load("mtu"), 2)
    assert case == Case("mtu", 2, verdict, case.seconds, "r1", reason, tests, "local")


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
    assert (case.verdict, case.reason) == ("fail", "measured 5, wanted 0")


def test_pytest_that_dies_is_unknown(project: Project) -> None:
    case = run(project, "import os\ndef test_x() -> None:\n    os._exit(0)\n")
    assert case.verdict == "unknown"
    assert case.reason.startswith("pytest: ")


def test_a_check_that_cannot_be_imported_is_unknown_and_says_why(project: Project) -> None:
    case = run(project, "import nothing_like_it\n")
    assert case.verdict == "unknown"
    assert case.reason, "an unknown without a reason helps nobody"


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
    deadline = time.monotonic() + 20
    while not up.exists():
        assert time.monotonic() < deadline, "the case did not begin"
        time.sleep(0.02)
    runner.stop()
    thread.join()
    assert not up.exists()
    assert cases[0].verdict != "pass"
    after = runner.run(labs.load("mtu"), 2)
    assert (after.verdict, after.reason) == ("unknown", "pytest: stopped")
