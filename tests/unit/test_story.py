"""Recorded runs: listed, told, and judged again, also old and damaged ones."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from faultlab.report import judge
from faultlab.run.readings import Measured
from faultlab.run.record import Record
from tests.unit.conftest import REPO, Project, Run

RUN = "20261121-221004-mtu-4f1e"
DOCUMENT = REPO / "docs/run-record.md"


@pytest.fixture
def whole(project: Project) -> dict[str, Any]:
    """A verify of mtu, as it was recorded."""
    facts: dict[str, Any] = json.loads((REPO / "tests/recorded/run/mtu.json").read_text())
    facts["remedies"] = ["alternative 1", "cheat 1"]  # those that mtu had then
    keep(project, facts)
    return facts


def keep(project: Project, facts: dict[str, Any]) -> None:
    folder = project.root / "runs" / facts["id"]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text(json.dumps(facts))


def test_what_a_test_does_not_expect_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """A learner's run looked for no evidence, and a record can have no packets to divide by."""

    def divides(_: Measured) -> None:
        raise ZeroDivisionError

    def needs_evidence(ran: Measured) -> None:
        if ran.reading("faulty").before is None:
            raise AssertionError  # without the words that pytest adds to an assert
        raise AssertionError("lost 3 of 3")

    def judged(before: object) -> list[tuple[str, str]]:
        reading = SimpleNamespace(before=before)
        ran: Any = SimpleNamespace(phases=["faulty"], reading=lambda _: reading)
        return [(test.test, test.verdict) for test in judge.verdicts(ran)]

    tests = [("divides", divides), ("needs_evidence", needs_evidence)]
    monkeypatch.setattr(judge, "_tests", lambda _: tests)
    assert judged(None) == [("divides", "unknown"), ("needs_evidence", "unknown")]
    assert judged(()) == [("divides", "unknown"), ("needs_evidence", "fail")]


def test_no_run_yet(project: Project, faultlab: Run) -> None:
    assert faultlab("runs").out.strip() == "No run is recorded yet."
    assert json.loads(faultlab("runs", "--json").out) == {"runs": [], "recorded": 0}


def test_the_newest_run_comes_first(project: Project, faultlab: Run) -> None:
    for day in ("01", "03", "02"):
        project.run(f"202601{day}-000000-mtu-aaaa")
    project.run("20260104-000000-netem-loss-aaaa")
    (project.root / "runs/notes").mkdir()
    (project.root / "runs/20260109-000000-mtu-aaaa").write_text("not a folder")
    listed = json.loads(faultlab("runs", "mtu", "--last", "2", "--json").out)
    assert [row["run"][:8] for row in listed["runs"]] == ["20260103", "20260102"]
    assert listed["recorded"] == 3
    assert "1 older ones: --last 3" in faultlab("runs", "mtu", "--last", "2").out


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ({"tests": [{"test": "a", "verdict": "pass"}]}, "pass"),
        (
            {"tests": [{"test": "a", "verdict": "pass"}, {"test": "b", "verdict": "fail"}]},
            "fail",
        ),
        ({"events": [{"t": 1.0, "event": "ready"}]}, "started for a learner"),
        ({"readings": {"healthy": {}, "faulty": {}}}, "faulty, not judged"),
        ({}, "nothing measured"),
        ({"schema": 7}, "has the version 7, and this faultlab reads 2"),
        ({"events": "many"}, "is damaged: events: "),
    ],
)
def test_how_a_run_ended(facts: dict[str, Any], says: str, project: Project, faultlab: Run) -> None:
    project.run(RUN, **facts)
    (row,) = json.loads(faultlab("runs", "--json").out)["runs"]
    assert says in row["came_to"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("nolab",), "There is no lab called 'nolab'."),
        (("--last", "0"), "--last takes a number from 1 up."),
    ],
)
def test_runs_of_nothing(arguments: tuple[str, ...], says: str, faultlab: Run) -> None:
    got = faultlab("runs", *arguments)
    assert (got.code, got.err.splitlines()[0]) == (2, f"faultlab: {says}")


def test_the_story_of_a_run(whole: dict[str, Any], faultlab: Run) -> None:
    got = faultlab("show", whole["id"])
    assert (got.code, got.err) == (0, "")
    assert max(len(line) for line in got.out.splitlines()) <= 80
    assert f"{whole['id']}: pass" in got.out
    assert "web# ip link set dev eth0 mtu 100" in " ".join(got.out.split())
    (row,) = (line for line in got.out.splitlines() if line.startswith("page: curl's"))
    assert re.search(r" 0 +28 +0 +exactly 0 +exactly 28", row)
    told = json.loads(faultlab("show", whole["id"], "--json").out)
    assert [m["event"] for m in told["moments"]][:6] == [
        "up", "healthy", "inject", "faulty", "fix", "fixed",
    ]  # fmt: skip
    assert {line["kind"] for line in told["lines"]} == {"measure", "evidence"}


@pytest.mark.parametrize("verb", ["show", "judge", "plot"])
@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (None, "has no run.json."),
        ("", "is damaged: "),
        ('{"schema": 1, "lab": "mtu", "read', "is damaged: "),
        ("[1]", "is damaged: no object."),
        ('{"schema": 3}', "has the version 3, and this faultlab reads 2."),
        ('{"schema": 1}', "is damaged: id: Field required."),
        ('{"lab": "mtu"}', "is damaged: id: Field required."),
    ],
)
def test_a_record_that_cannot_be_read(
    damage: str | None, says: str, verb: str, project: Project, faultlab: Run
) -> None:
    folder = project.run(RUN)
    (folder / "run.json").unlink()
    if damage is not None:
        (folder / "run.json").write_text(damage)
    got = faultlab(verb, RUN)
    assert got.code == 2 and len(got.err.splitlines()) == 2
    assert got.err.startswith("faultlab: The r") and says in got.err and "  next: " in got.err


@pytest.mark.parametrize("verb", ["show", "judge"])
@pytest.mark.parametrize("run_id", ["nothing", "", "../runs", "20260101-000000-mtu-0000"])
def test_a_run_that_is_not_there(run_id: str, verb: str, project: Project, faultlab: Run) -> None:
    (project.root / "runs").mkdir()
    got = faultlab(verb, run_id)
    assert (got.code, got.err.splitlines()[0]) == (2, f"faultlab: There is no run {run_id!r}.")


def test_a_run_whose_lab_is_gone(project: Project, faultlab: Run) -> None:
    project.run("20260101-000000-gone-aaaa")
    got = faultlab("show", "20260101-000000-gone-aaaa")
    assert got.code == 2 and "There is no lab called 'gone'." in got.err


def test_readings_of_another_shape(whole: dict[str, Any], project: Project, faultlab: Run) -> None:
    whole["readings"]["healthy"]["look"] = {"colour": "red"}
    keep(project, whole)
    for verb in ("show", "judge"):
        got = faultlab(verb, whole["id"])
        assert got.code in (2, 3) and "does not fit this lab's check any more" in got.err


def test_judged_again_it_is_the_same(whole: dict[str, Any], faultlab: Run) -> None:
    got = faultlab("judge", whole["id"])
    assert (got.code, got.err) == (0, "")
    assert "pass when it was recorded, now pass" in got.out
    assert "No limit has changed since." in got.out
    told = json.loads(faultlab("judge", whole["id"], "--json").out)
    renamed = {"test_stages": "test_each_fault"}  # since 30 November 2026
    names = {renamed.get(test["test"], test["test"]) for test in whole["tests"]}
    names -= {"test_nothing_left"}
    assert {test["test"] for test in told["tests"]} == names
    assert (told["then"], told["verdict"], told["changed"]) == ("pass", "pass", [])


def test_a_changed_limit_shows_what_would_have_changed(
    whole: dict[str, Any], project: Project, faultlab: Run
) -> None:
    project.change("checks/test_mtu.py", "exactly(28)", "exactly(7)")
    got = faultlab("judge", whole["id"], "--json")
    told = json.loads(got.out)
    assert (got.code, told["then"], told["verdict"]) == (1, "pass", "fail")
    faulty = next(c for c in told["changed"] if (c["phase"], c["held"]) == ("faulty", True))
    assert (faulty["wanted_then"], faulty["wanted_now"]) == ("exactly 28", "exactly 7")
    assert faulty["holds"] is False and faulty["value"] == "28"
    said = faultlab("judge", whole["id"])
    assert said.err.startswith("faultlab: test_symptom: the symptom does not show")


def test_a_finding_that_is_new(whole: dict[str, Any], project: Project, faultlab: Run) -> None:
    project.change("checks/test_mtu.py", "page: curl's exit code", "exit code of curl")
    told = json.loads(faultlab("judge", whole["id"], "--json").out)
    assert told["verdict"] == "pass"
    assert {(c["held"] is None, c["holds"] is None) for c in told["changed"]} == {
        (True, False),
        (False, True),
    }


def test_a_record_from_before_judgements_were_kept(
    whole: dict[str, Any], project: Project, faultlab: Run
) -> None:
    del whole["judged"], whole["tests"]
    keep(project, whole)
    got = faultlab("judge", whole["id"])
    assert (got.code, "not judged when it was recorded, now pass" in got.out) == (0, True)
    assert "was not kept" in got.out


def test_a_run_that_was_cut_off_is_unknown(
    whole: dict[str, Any], project: Project, faultlab: Run
) -> None:
    whole["readings"] = {"healthy": whole["readings"]["healthy"]}
    whole["judged"] = {}
    keep(project, whole)
    got = faultlab("judge", whole["id"])
    assert got.code == 3 and "did not get to the phase" in got.err


def test_the_document_names_every_key(
    whole: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAULTLAB_ROOT", str(tmp_path))
    table = DOCUMENT.read_text().partition("## What is in")[2].partition("\n\nEvents:")[0]
    first = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    named = {key for cell in first for key in re.findall(r"`(\w+)`", cell)}
    others = {"matrix", "left", "shown", "gone", "processes", "slot", "surroundings", "release"}
    assert set(whole) | set(Record.create("mtu", "s", {}).facts) | others == named


def test_steps_are_told_as_they_are_typed(project: Project, faultlab: Run) -> None:
    """A limit and a restart as the docker command that does the same."""
    steps = [
        {"at": "tomcat", "limit": {"cpus": 0.1}},
        {"at": "tomcat", "restart": True},
        {"at": "web", "run": "ip link"},
    ]
    project.run(RUN, events=[{"t": 1.0, "event": "inject", "steps": steps}])
    said = " ".join(faultlab("show", RUN).out.split())
    for words in (
        "$ docker update --cpus 0.1 …-tomcat",
        "$ docker restart …-tomcat",
        "web# ip link",
    ):
        assert words in said
