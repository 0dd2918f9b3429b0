"""The result of verify: lines, JSON and JUnit XML after every case, and the exit code."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from faultlab.core import events
from faultlab.core.errors import CannotRun, SaidNo
from faultlab.core.events import Kind
from faultlab.core.terminal import Terminal
from faultlab.verify.campaign import Campaign
from faultlab.verify.case import Case
from faultlab.verify.result import Result
from tests.unit.conftest import told


def case(verdict: str, lab: str = "mtu", number: int = 1, reason: str = "") -> Case:
    why = reason or ("" if verdict == "pass" else f"why {verdict}")
    tests = [
        {"test": "test_healthy", "verdict": "pass", "text": ""},
        {"test": "test_fix", "verdict": verdict, "text": why},
    ]
    return Case(lab, number, verdict, 12.3, f"run-{lab}", why, tests=tests)


DEAD = Case("mtu", 3, "unknown", 0.4, reason="pytest: killed")


def result(folder: Path, repeat: int = 1) -> Result:
    files = str(folder / "r.json"), str(folder / "r.xml")
    return Result(Terminal(), Campaign(["mtu"], repeat), *files)


def test_the_files_are_there_after_every_case(tmp_path: Path) -> None:
    both = result(tmp_path)
    both.add(case("pass"))
    assert told(tmp_path)["counts"] == {"pass": 1, "skip": 0, "unknown": 0, "fail": 0}
    assert len(ET.parse(tmp_path / "r.xml").getroot()) == 1
    both.add(case("fail"))
    assert told(tmp_path)["counts"] == {"pass": 1, "skip": 0, "unknown": 0, "fail": 1}
    assert len(ET.parse(tmp_path / "r.xml").getroot()) == 2


def test_the_json_holds_everything(tmp_path: Path) -> None:
    result(tmp_path).add(case("fail", reason="loss: measured 3 %, wanted at most 0 %"))
    facts = told(tmp_path)
    assert facts["schema"] == 1
    wanted = {"labs": ["mtu"], "repeat": 1, "quick": False, "finished": True}
    assert facts["campaign"] == wanted
    (one,) = facts["cases"]
    reason = "loss: measured 3 %, wanted at most 0 %"
    assert one == {
        **dict.fromkeys(
            ("began", "commit", "kernel", "lab_digest", "program_digest", "engine"), ""
        ),
        **{"cpus": 0, "interrupted": False, "kept": False, "lab": "mtu", "number": 1},
        **{"verdict": "fail", "seconds": 12.3, "engine": "", "run": "run-mtu", "reason": reason},
        "tests": [
            {"test": "test_healthy", "verdict": "pass", "text": ""},
            {"test": "test_fix", "verdict": "fail", "text": reason},
        ],
    }


def test_the_junit_file(tmp_path: Path) -> None:
    all_kinds = result(tmp_path, repeat=3)
    for one in (case("fail"), case("skip", "somaxconn"), case("unknown", number=2), DEAD):
        all_kinds.add(one)
    suites = list(ET.parse(tmp_path / "r.xml").getroot())
    assert [suite.get("name") for suite in suites] == ["mtu.1", "somaxconn.1", "mtu.2", "mtu.3"]
    counts = ("tests", "failures", "errors", "skipped")
    assert [[suite.get(name) for name in counts] for suite in suites] == [
        ["2", "1", "0", "0"],
        ["2", "0", "0", "1"],
        ["2", "0", "1", "0"],
        ["1", "0", "1", "0"],
    ]
    failed = suites[0].find("testcase[@name='test_fix']/failure")
    assert failed is not None and failed.get("message") == "why fail"
    assert suites[0].find("testcase[@name='test_healthy']/*") is None
    assert suites[3].find("testcase/error[@message='pytest: killed']") is not None


@pytest.mark.parametrize("reason", ["\x1b[31mError\x1b[0m response", "nul \x00", "<&\"'>", "…"])
def test_junit_stays_xml_whatever_a_program_printed(reason: str, tmp_path: Path) -> None:
    result(tmp_path).add(case("unknown", reason=reason))
    assert len(ET.parse(tmp_path / "r.xml").getroot()) == 1


def test_what_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cases = result(tmp_path, repeat=10)
    cases.add(case("pass", number=7))
    cases.add(case("fail", "iptables-drop", 10))
    with pytest.raises(SaidNo):
        cases.conclude()
    assert capsys.readouterr().out.splitlines() == [
        "pass      mtu 7/10                   12.3 s",
        "fail      iptables-drop 10/10        12.3 s",
        "          why fail",
        "2 cases: 1 pass, 1 fail",
    ]


@pytest.mark.parametrize(
    ("verdicts", "kind", "message"),
    [
        ("fail unknown pass", SaidNo, "1 of 3 cases: fail."),
        ("unknown pass skip", CannotRun, "1 of 3 cases: unknown."),
        ("unknown unknown", CannotRun, "2 of 2 cases: unknown."),
    ],
)
def test_what_the_exit_code_is(
    verdicts: str, kind: type[SaidNo | CannotRun], message: str, tmp_path: Path
) -> None:
    cases = result(tmp_path)
    for verdict in verdicts.split():
        cases.add(case(verdict))
    with pytest.raises(kind) as stop:
        cases.conclude()
    assert type(stop.value) is kind
    assert (stop.value.message, stop.value.hint) == (message, "less runs/run-mtu/run.json")


def test_the_hint_without_a_run(tmp_path: Path) -> None:
    cases = result(tmp_path)
    cases.add(DEAD)
    with pytest.raises(CannotRun) as stop:
        cases.conclude()
    assert stop.value.hint == "faultlab doctor"


def test_the_hint_of_a_problem_comes_first(tmp_path: Path) -> None:
    cases = result(tmp_path)
    told = {"test": "test_fix", "verdict": "unknown", "text": "in the way", "hint": "make clean"}
    cases.add(replace(case("unknown"), tests=[told]))
    with pytest.raises(CannotRun) as stop:
        cases.conclude()
    assert stop.value.hint == "make clean"


def test_all_pass_is_silent(tmp_path: Path) -> None:
    cases = result(tmp_path)
    cases.add(case("pass"))
    cases.add(case("skip"))
    cases.conclude()


def test_what_is_kept_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = replace(case("pass"), kept=True)
    files = str(tmp_path / "r.json"), str(tmp_path / "r.xml")
    going_on = Result(Terminal(), Campaign(["mtu"], 2, [old]), *files)
    assert [one["kept"] for one in told(tmp_path)["cases"]] == [True]
    assert not told(tmp_path)["campaign"]["finished"]
    going_on.add(case("pass", number=2))
    going_on.conclude()
    assert capsys.readouterr().out.splitlines() == [
        "pass      mtu 1/2                    12.3 s  kept",
        "pass      mtu 2/2                    12.3 s",
        "2 cases: 2 pass, 1 of them kept from before",
    ]
    first, second = ET.parse(tmp_path / "r.xml").getroot()
    assert first.find("properties/property[@name='kept']") is not None
    assert second.find("properties") is None
    assert told(tmp_path)["campaign"]["finished"]


def test_half_a_session_is_an_error_in_the_junit_file(tmp_path: Path) -> None:
    tests = [{"test": "test_healthy", "verdict": "pass", "text": ""}]
    result(tmp_path).add(Case("mtu", 1, "unknown", 9.0, "r", "too long", tests=tests))
    (suite,) = ET.parse(tmp_path / "r.xml").getroot()
    assert (suite.get("tests"), suite.get("errors")) == ("2", "1")
    assert suite.find("testcase/error[@message='too long']") is not None


def test_events_tell_each_case(capsys: pytest.CaptureFixture[str]) -> None:
    told_by = Result(Terminal(as_events=True), Campaign(["mtu", "gzip"], 2), None, None)
    told_by.add(Case("mtu", 1, "pass", 2.5))
    told_by.add(Case("gzip", 2, "unknown", 1.0, reason="no Docker"))
    told = [events.read(line) for line in capsys.readouterr().out.splitlines()]
    assert told == [
        events.Step(Kind.STEP, "mtu 1/2", "pass", 2.5),
        events.Step(Kind.STEP, "gzip 2/2", "unknown: no Docker", 1.0),
    ]
    with pytest.raises(CannotRun) as problem:
        told_by.conclude()
    assert problem.value.result == told_by.campaign.document
