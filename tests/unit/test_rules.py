"""`faultlab rules` and `counters` on a synthetic data set, with Prometheus' own promtool."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from faultlab.data import counters, lessons, rulefile, rules
from faultlab.data.counters import Moves
from faultlab.data.rulefile import Rule
from tests import synthetic
from tests.unit.conftest import REPO, Project, Run
from tests.unit.test_data_metrics import PROMETHEUS, program

DATA = str(synthetic.FOLDER)
DROPS = """\
      - alert: Drops
        expr: >-
          rate(node_network_receive_drop_total[5m])
          / rate(node_network_receive_packets_total[5m]) > 0.01
        for: 10m
"""
OVERFLOWS = """\
      - alert: Overflows
        expr: web:overflows > 1000
      - record: web:overflows
        expr: increase(node_netstat_TcpExt_ListenOverflows[5m])
"""
GONE = "      - {alert: Gone, expr: absent(mysql_up)}\n"
LOAD = "      - {alert: Load, expr: node_load1 > 5}\n"
QUIET = "      - {alert: Watchdog, expr: vector(1), labels: {severity: none}}\n"
BLIND = "      - {alert: Blind, expr: node_none > 5}\n"
TREND = "      - {alert: Trend, expr: 'predict_linear(node_load1[6h], 3600) > 5'}\n"


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    return tmp_path / "mine.yml"


def write(mine: Path, *parts: str) -> str:
    mine.write_text("groups:\n  - name: mine\n    rules:\n" + "".join(parts))
    return str(mine)


def report(file: Path) -> dict[str, dict[str, Any]]:
    return {rule["alert"]: rule for rule in json.loads(file.read_text())["rules"]}


def test_the_synthetic_data_set_is_what_its_program_writes(tmp_path: Path) -> None:
    synthetic.make(tmp_path / "new")
    for file in (tmp_path / "new").rglob("*"):
        same = synthetic.FOLDER / file.relative_to(tmp_path / "new")
        # The card has the version and the day, and so have the checksums.
        if file.is_file() and file.parent.name != "data":
            assert file.read_text() == same.read_text()
    assert len(list(synthetic.FOLDER.glob("data/items/*/metrics.om"))) == 12
    words = ["sha256sum", "--quiet", "-c", "SHA256SUMS"]
    subprocess.run(words, cwd=synthetic.FOLDER / "data", check=True)


@PROMETHEUS
def test_what_rules_catch_and_their_false_alarms(mine: Path, tmp_path: Path, faultlab: Run) -> None:
    file = write(mine, DROPS, OVERFLOWS, GONE, LOAD, QUIET, BLIND, TREND)
    done = faultlab("rules", file, "--dataset", DATA, "--json", str(tmp_path / "r.json"))
    assert done.code == 0, done.err
    said = report(tmp_path / "r.json")
    assert {name: (rule["caught"], rule["false"]) for name, rule in said.items()} == {
        "Drops": (["mtu"], []),
        "Overflows": (["somaxconn"], []),
        "Gone": (["max-connections"], []),
        "Load": ([], ["busy faulty"]),
        "Watchdog": (["max-connections", "mtu", "somaxconn"], said["Watchdog"]["false"]),
        "Blind": ([], []),
        "Trend": ([], []),
    }
    assert len(said["Watchdog"]["false"]) == 9 and not said["Watchdog"]["counts"]
    assert said["Blind"]["lacking"] == ["node_none"]
    assert said["Trend"]["untold"] == "its trend is longer than a recording"
    assert [name for name, rule in said.items() if rule["cut"]] == ["Drops", "Trend"]
    assert "Caught: 3 of 3 faults." in done.out
    assert "False alarms: 1, in 1 of 9 sound phases." in done.out
    assert max(map(len, done.out.splitlines())) <= 80


@PROMETHEUS
def test_a_wait_that_is_not_over_is_silence(mine: Path, tmp_path: Path, faultlab: Run) -> None:
    """The load is above 0.55 in every second second, and mysql_up is gone for 15 of 24."""
    fires = "      - {alert: Gone, expr: absent(mysql_up), for: WAIT}\n"
    silent = "      - {alert: Gone, expr: absent(mysql_up) and on() (node_load1 > 0.55), for: 2s}\n"
    # A third of 24 seconds is the longest wait, so that of an hour is cut to 8 seconds.
    rules_ = (fires.replace("WAIT", "7s"), fires.replace("WAIT", "1h"), silent)
    for rule, caught in zip(rules_, (True, True, False), strict=True):
        file = write(mine, rule)
        assert faultlab("rules", file, "--dataset", DATA, "--json", str(tmp_path / "r")).code == 0
        assert bool(report(tmp_path / "r")["Gone"]["caught"]) is caught


@PROMETHEUS
@pytest.mark.parametrize(
    ("before", "now", "code", "says"),
    [
        ((DROPS, GONE), (DROPS, GONE), 0, "Nothing differs from the baseline."),
        ((DROPS, GONE), (GONE,), 1, "no longer caught: mtu."),
        ((DROPS,), (DROPS, LOAD), 1, "new false alarms: Load in busy faulty."),
        ((DROPS, LOAD), (DROPS, GONE), 0, "Caught now: max-connections."),
        ((DROPS,), (DROPS, QUIET), 0, "Nothing differs from the baseline."),
    ],
)
def test_against_a_baseline(
    mine: Path, tmp_path: Path, faultlab: Run, *, before: Any, now: Any, code: int, says: str
) -> None:
    old = str(tmp_path / "old.json")
    assert faultlab("rules", write(mine, *before), "--dataset", DATA, "--json", old).code == 0
    done = faultlab("rules", write(mine, *now), "--dataset", DATA, "--baseline", old)
    assert done.code == code
    assert says in (done.err if code else done.out)


@PROMETHEUS
def test_a_comment(mine: Path, tmp_path: Path, faultlab: Run) -> None:
    old = str(tmp_path / "old.json")
    faultlab("rules", write(mine, DROPS), "--dataset", DATA, "--json", old)
    words = ("--dataset", DATA, "--baseline", old, "--markdown")
    done = faultlab("rules", write(mine, LOAD), *words)
    assert done.code == 1
    head, _, *points = done.out.splitlines()
    assert head == "**Alert rules `mine.yml`: worse**"
    assert points[:2] == [
        "- No longer caught: mtu.",
        "- New false alarms: Load in busy faulty.",
    ]
    assert "| `Load` | - | busy faulty |" in points


@PROMETHEUS
@pytest.mark.parametrize(("now", "code"), [((DROPS,), 0), ((GONE,), 1)])
def test_the_last_step_of_the_action(mine: Path, tmp_path: Path, now: Any, code: int) -> None:
    """As a runner does it: by bash with pipefail, with the inputs in the environment."""
    steps = yaml.safe_load((REPO / "action.yml").read_text())["runs"]["steps"]
    for step in steps:
        subprocess.run(["bash", "-n", "-c", step["run"]], check=True)
    (tmp_path / "faultlab/bin").mkdir(parents=True)
    (tmp_path / "faultlab/bin/faultlab").symlink_to(REPO / ".venv/bin/faultlab")
    summary, old = tmp_path / "summary.md", tmp_path / "old.json"
    env = {
        **os.environ,
        **{"RUNNER_TEMP": str(tmp_path), "GITHUB_STEP_SUMMARY": str(summary), "DATASET": DATA},
    }

    def act(*rules: str, **given: str) -> int:
        words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", steps[-1]["run"]]
        given |= {"RULES": write(mine, *rules)}
        return subprocess.run(words, env=env | given, check=False, capture_output=True).returncode

    assert act(DROPS, BASELINE="", RESULT=str(old)) == 0
    assert act(*now, BASELINE=str(old), RESULT=str(tmp_path / "new.json")) == code
    assert summary.read_text().count("**Alert rules `mine.yml`: ") == 2


@PROMETHEUS
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("groups: [{name: a, rules: [{alert: X, expr: 'sum by'}]}]", "parse error"),
        ("groups: [{name: a, rules: [{alert: X}]}]", "expr"),
        ("groups: [{name: a, rules: [{record: 'a:b', expr: up}]}]", "has no alert."),
        ("groups: {", "not valid YAML"),
    ],
)
def test_a_bad_file_of_rules(mine: Path, faultlab: Run, text: str, says: str) -> None:
    mine.write_text(text)
    done = faultlab("rules", str(mine), "--dataset", DATA)
    assert done.code == 2 and says in done.err.splitlines()[0]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "Name a file of rules, or say --lessons."),
        (["x.yml", "--lessons"], "Name a file of rules, or say --lessons."),
        (["--lessons", "--markdown"], "--lessons has no baseline and no Markdown."),
        (["x.yml", "--json", "/nonexistent/r.json"], "There is no folder for /nonexistent/r.json."),
        (["/nonexistent.yml"], "/nonexistent.yml cannot be read: No such file or directory."),
    ],
)
def test_bad_words(faultlab: Run, words: list[str], says: str) -> None:
    done = faultlab("rules", *words)
    assert (done.code, done.err.splitlines()[0]) == (2, f"faultlab: {says}")


@PROMETHEUS
@pytest.mark.parametrize("option", ["--dataset", "--baseline"])
def test_a_folder_or_baseline_that_is_none(
    mine: Path, tmp_path: Path, faultlab: Run, option: str
) -> None:
    nothing = tmp_path / "nothing"
    words = ("--dataset", DATA) if option == "--baseline" else ()
    done = faultlab("rules", write(mine, DROPS), *words, option, str(nothing))
    assert done.code == 2 and str(nothing) in done.err
    nothing.write_text('{"schema": 1}')
    if option == "--baseline":
        done = faultlab("rules", str(mine), *words, option, str(nothing))
        assert done.code == 2 and "is no report of `faultlab rules`" in done.err


@pytest.mark.parametrize("chosen", ["", "/nonexistent/promtool"])
def test_without_promtool(
    mine: Path, faultlab: Run, monkeypatch: pytest.MonkeyPatch, chosen: str
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    if chosen:
        monkeypatch.setenv("FAULTLAB_PROMTOOL", chosen)
    done = faultlab("rules", write(mine, DROPS), "--dataset", DATA)
    why = f"FAULTLAB_PROMTOOL={chosen} is no program." if chosen else "promtool is not installed."
    assert done.code == 3
    assert done.err == f"faultlab: {why}\n  next: apt-get install prometheus\n"


def test_a_promtool_that_fails_is_no_silence(
    mine: Path, tmp_path: Path, faultlab: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its exit code is not 0, and it names no alert."""
    program(tmp_path / "bin", "promtool", '[ "$1" = check ] || { echo killed; exit 9; }')
    monkeypatch.setenv("FAULTLAB_PROMTOOL", str(tmp_path / "bin/promtool"))
    done = faultlab("rules", write(mine, DROPS), "--dataset", DATA)
    assert done.code == 3 and "promtool could not test the rules: killed" in done.err


@PROMETHEUS
def test_prometheus_reads_each_expression_of_the_lessons(faultlab: Run) -> None:
    done = faultlab("rules", "--lessons")
    count = len(lessons.advised())
    assert done.code == 0 and count >= 78
    assert done.out == f"{count} expressions of 52 lessons: Prometheus reads {count}.\n"


@PROMETHEUS
def test_an_expression_with_a_mistake_is_found(project: Project, faultlab: Run) -> None:
    project.change("labs/mtu/README.md", "rate(node_network_receive_drop", "rat(node_network_rec")
    done = faultlab("rules", "--lessons")
    assert done.code == 1
    assert "the first one in mtu" in done.err and "unknown function" in done.err


@PROMETHEUS
@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("", "", ""),
        ("> 0.01", "> 100", "its fault raises no alert"),
        ("> 0.01", ">= 0", "it fires in fixed and healthy"),
    ],
)
def test_an_expression_is_tried_in_its_own_lab(
    project: Project, faultlab: Run, tmp_path: Path, *, old: str, new: str, says: str
) -> None:
    """The lessons with recordings keep an expression each; others are not tried."""
    for lab in ("mtu", "somaxconn", "max-connections"):
        text = (project.root / f"labs/{lab}/README.md").read_text()
        whole = text.split("```promql")
        kept = "```promql".join(whole[:2])
        project.write(f"labs/{lab}/README.md", kept)
    project.write("labs/max-connections/README.md", "```promql\nabsent(mysql_up) > 0\n```\n")
    mtu = "rate(node_network_receive_drop_total[5m])"
    mtu += " / rate(node_network_receive_packets_total[5m]) > 0.01"
    project.write("labs/mtu/README.md", f"```promql\n{mtu.replace(old, new)}\n```\n")
    to = tmp_path / "l.json"
    done = faultlab("rules", "--lessons", "--dataset", DATA, "--json", str(to))
    assert done.code == (1 if says else 0), done.err
    assert says in done.err
    tried = [
        each for each in json.loads(to.read_text())["expressions"] if each["fires"] is not None
    ]
    assert {each["lab"] for each in tried} == {"mtu", "somaxconn", "max-connections"}
    assert "Tried in their own faults: 3;" in done.out


def test_the_smallest_set_of_readings(faultlab: Run, tmp_path: Path) -> None:
    done = faultlab("counters", "--dataset", DATA, "--json")
    said = json.loads(done.out)
    assert [
        (each["reading"].split("{")[0], each["up"], each["down"]) for each in said["chosen"]
    ] == [
        ("mysql_up", [], ["max-connections"]),
        ("node_netstat_TcpExt_ListenOverflows", ["somaxconn"], []),
        ("node_network_receive_drop_total", ["mtu"], []),
    ]
    assert said["at_least"] == 3 and not said["alike"] and not said["unseen"]
    assert (said["faults"], said["readings"], said["noise"]) == (3, 5, 1)  # the load of busy
    listed = tmp_path / "metrics.txt"
    listed.write_text("node_network_receive_drop_total  # a comment\nmysql_up\n")
    done = faultlab("counters", "--dataset", DATA, "--metrics", str(listed))
    assert done.code == 0 and "Your exporters cannot see: somaxconn." in done.out


@pytest.mark.parametrize("seed", range(20))
def test_no_smaller_set_would_do(seed: int) -> None:
    """Compared with all sets of so many readings, on small draws."""
    dice = random.Random(seed)
    faults = [f"f{n}" for n in range(5)]
    moves: Moves = {
        f"r{n}": {fault: dice.choice((-1, 1)) for fault in faults if dice.random() < 0.4}
        for n in range(8)
    }
    chosen, at_least, alike, unseen, _ = counters.smallest(moves, faults)
    pairs = {*combinations([counters.NOTHING, *faults], 2)}

    def told(keys: Any) -> set[tuple[str, str]]:
        return {
            p for p in pairs for key in keys if moves[key].get(p[0], 0) != moves[key].get(p[1], 0)
        }

    assert told([each.reading for each in chosen]) == told(moves)
    fewest = next(
        size
        for size in range(len(moves) + 1)
        if any(told(keys) == told(moves) for keys in combinations(moves, size))
    )
    assert len(chosen) == at_least == fewest
    untold = {(counters.NOTHING, fault) for fault in unseen} | {(a, b) for a, b in alike}
    assert untold == pairs - told(moves)


def test_the_bound_where_the_search_ends_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counters, "_NODES", 0)
    moves: Moves = {f"r{n}": {f"f{n}": 1} for n in range(4)}
    chosen, at_least, *_ = counters.smallest(moves, [f"f{n}" for n in range(4)])
    assert len(chosen) == 4 and 1 <= at_least <= 4


@PROMETHEUS
def test_what_prometheus_says_by_the_place_of_a_rule() -> None:
    said = rulefile.wrong([Rule("a", "up == 1"), Rule("b", "sum by"), Rule("c", "rate(up)")])
    assert {*said} == {1, 2} and "parse error" in said[1] and "range vector" in said[2]


def test_a_repeat_that_stays_silent_is_no_catch() -> None:
    its, _ = next(pair for pair in synthetic.items() if pair[0].fault)
    again = type(its)(**{**vars(its), "item": "again", "number": 2})
    assert rules.caught([its, again], {its.item, "again"}) == [its.lab]
    assert rules.caught([its, again], {its.item}) == []


def test_promtool_is_looked_for_in_path() -> None:
    """The mark of these tests says why they are skipped."""
    assert bool(shutil.which("promtool")) is not PROMETHEUS.args[0]
