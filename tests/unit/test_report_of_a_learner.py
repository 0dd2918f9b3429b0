"""The report of a learner's run: what each check found, when, and what the last one came to."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from faultlab.report import history, page
from faultlab.run import series
from faultlab.run.phase import PHASES
from faultlab.run.record import Record
from tests.unit.conftest import REPO, Project, Run
from tests.unit.test_report import RUN, sample

EXIT = "page: curl's exit code"


@pytest.fixture
def learned(project: Project) -> Path:
    """A run of mtu that a learner has repaired: after a check in vain, at second 300.

    A `watch` recorded the counters during the last check, which records none itself.
    """
    facts = json.loads((REPO / "tests/recorded/run/mtu.json").read_text())
    healthy, faulty = (
        next(e for e in facts["events"] if e.get("phase") == phase) for phase in PHASES[:2]
    )
    inject = next(e for e in facts["events"] if e["what"] == "inject")
    t = faulty["t"]
    events = [
        *(healthy, inject, faulty, {"t": t + 1, "event": "ready"}),
        {"t": t + 60, "event": "hint", "number": 2},
        {"t": t + 100, "event": "measured", "phase": "check", "took": 3.0},
        {"t": t + 101, "event": "check", "fixed": False, "found": {EXIT: 28.0}},
        {"t": t + 300, "event": "measured", "phase": "check", "took": 3.0},
        {"t": t + 301, "event": "check", "fixed": True, "found": {EXIT: 0.0}},
    ]
    readings = {name: facts["readings"][name] for name in ("healthy", "faulty")}
    readings["check"] = facts["readings"]["fixed"]
    whole = {**facts, "id": RUN, "events": events, "readings": readings, "tests": []}
    folder = project.run(RUN, **whole)
    lines = [sample(s / 2, network={"time_wait": 3}) for s in range(round(2 * t))]
    lines += [sample(t + 297 + s / 2, network={"time_wait": 9}) for s in range(6)]
    (folder / "timeline.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def shown(folder: Path, faultlab: Run) -> tuple[str, dict[str, Any]]:
    """The text of the page of a run, and its data."""
    got = faultlab("report", RUN)
    assert (got.code, got.err) == (0, "")
    html = (folder / "report.html").read_text()
    data = json.loads(re.search(r'id="data">(.*?)</script>', html)[1])  # type: ignore[index]
    return html, data


def test_each_check_is_drawn_when_it_was(learned: Path, faultlab: Run) -> None:
    """Not at the second of the symptom, where the recording had stopped."""
    _, data = shown(learned, faultlab)
    chart = next(each for each in data["charts"] if each["title"] == EXIT)
    found = dict(zip(data["seconds"], chart["lines"]["measured"], strict=True))
    events = json.loads((learned / "run.json").read_text())["events"]
    faulty, first, second = (events[i]["t"] for i in (2, 5, 7))
    at = [found[max(s for s in found if s <= t)] for t in (faulty, first, second)]
    assert at == [28.0, 28.0, 0.0]
    assert data["seconds"] == sorted(data["seconds"]) and len(data["seconds"]) < 200


def test_counters_after_a_long_gap_are_in_their_place(learned: Path, faultlab: Run) -> None:
    _, data = shown(learned, faultlab)
    chart = next(each for each in data["charts"] if each["title"] == "Sockets in TIME_WAIT")
    line = chart["lines"]["web"]
    assert line.count(9.0) == 6 and None in line
    assert {len(each) for c in data["charts"] for each in c["lines"].values()} == {len(line)}


def test_there_is_a_card_after_the_repair(learned: Path, faultlab: Run) -> None:
    html, data = shown(learned, faultlab)
    cards = re.findall(r'class="card (\w+)">\s*<h2>([^<]+)</h2>', html)
    assert cards == [("well", "Before"), ("ill", "During"), ("well", "After")]
    assert [band["kind"] for band in data["bands"]][:3] == ["well", "ill", "well"]
    events = json.loads((learned / "run.json").read_text())["events"]
    assert data["bands"][2]["begin"] == events[7]["t"] - 3.0
    marks = [mark["text"] for mark in data["marks"]]
    assert marks == ["healthy", "injected", "symptom proven", "hint 2", "not fixed", "fixed"]


def test_a_run_that_is_not_repaired_says_so(learned: Path, faultlab: Run) -> None:
    facts = json.loads((learned / "run.json").read_text())
    facts["events"] = facts["events"][:7]
    facts["readings"]["check"] = facts["readings"]["faulty"]
    (learned / "run.json").write_text(json.dumps(facts))
    html, data = shown(learned, faultlab)
    assert re.findall(r'class="card (\w+)">\s*<h2>([^<]+)</h2>', html)[-1] == (
        *("ill", "At the last check"),
    )
    assert "well" not in [band["kind"] for band in data["bands"]][1:]


def test_events_have_their_results(learned: Path) -> None:
    told = {m.event: m.text for m in history.moments(Record.read(RUN).facts["events"])}
    assert (told["hint"], told["check"]) == ("hint 2", "fixed")
    answer = {"event": "answer", "component": "web", "resource": "network", "cause": "mtu"}
    assert history.result(answer) == "web, network, mtu"
    assert history.result({"event": "later", "fixed": False}) == "did not last"
    assert learned


def test_a_grid_skips_what_was_not_recorded() -> None:
    samples = {"web": [sample(t) for t in (1.0, 1.5, 2.0)]}
    assert series.seconds(samples, [9000.0]) == [1.0, 1.5, 2.0, 2.5, 9000.0]
    assert series.seconds(samples) == [1.0, 1.5, 2.0]


def test_a_repair_that_did_not_last_is_none() -> None:
    looks = [("check", 10.0, True), ("later", 20.0, False), ("check", 30.0, True)]
    events: list[dict[str, Any]] = []
    for phase, t, fixed in looks:
        events += [
            {"t": t, "event": "measured", "phase": phase, "took": 1.0},
            {"t": t, "event": phase, "fixed": fixed},
        ]
    assert page._repaired(events) == 29.0
    assert page._repaired(events[:4]) is None
