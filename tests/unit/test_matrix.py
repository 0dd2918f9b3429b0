"""The matrix: whose evidence may fire where."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest

from faultlab.core.errors import CannotRun
from faultlab.core.terminal import Terminal
from faultlab.engine.contract import Machine
from faultlab.engine.stack import Stack
from faultlab.lab import loader as labs
from faultlab.lab.check import Check, Evidence
from faultlab.lab.limits import at_least
from faultlab.lab.model import Lab
from faultlab.verify import matrix
from faultlab.verify.matrix import Cell, Mark
from tests.unit.conftest import Project, Run
from tests.unit.fake import FakeEngine


@pytest.mark.parametrize(
    ("running", "of", "fires", "there", "expected"),
    [
        ("mtu", "mtu", True, True, "own"),
        ("mtu", "mtu", False, True, "missing"),
        ("mtu", "mtu", False, False, "missing"),
        ("mtu", "iptables-drop", True, True, "twin"),
        ("packet-loss", "mtu", True, True, "twin"),
        ("mtu", "packet-loss", True, True, "twin"),
        ("mtu", "port-range", True, True, "alarm"),
        ("healthy", "mtu", True, True, "alarm"),
        ("healthy", "mtu", False, True, "silent"),
        ("mtu", "swap", False, False, "absent"),
    ],
)
def test_mark(running: str, of: str, fires: bool, there: bool, expected: Mark) -> None:
    assert matrix.mark(labs.load(running), labs.load(of), fires, there) == expected


@dataclass(frozen=True)
class Count:
    drops: int


def test_evidence_that_needs_another_machine_is_absent() -> None:
    def inspect(at: Any) -> Count:
        return Count(at["db"].drops)

    check = Check(
        look=lambda _: 0,
        inspect=inspect,
        symptom=(),
        evidence=(Evidence("drops", lambda a, b: b.drops - a.drops, at_least(1), "db", "nstat"),),
    )

    class Empty(dict[str, Machine]):
        def __missing__(self, name: str) -> Machine:
            raise CannotRun(f"{name} is not there any more.")

    nothing = matrix._inspect(check, cast(Stack, Empty()))
    assert nothing is None and matrix._evident(check, nothing, nothing) == []
    full = cast(Stack, {"db": SimpleNamespace(drops=3)})
    assert matrix._inspect(check, full) == Count(3)
    assert [item.holds for item in matrix._evident(check, Count(1), Count(3))] == [True]


def test_the_evidence_of_the_lab_itself_is_that_of_the_look_that_counts(
    project: Project, engine: FakeEngine, faultlab: Run
) -> None:
    """Of some counters a rate is taken over the time between the inspections."""
    got = faultlab("matrix", "mtu", "--engine", "fake", "--json")
    assert got.code == 0, got.err
    (run,) = (project.root / "runs").iterdir()
    facts = json.loads((run / "run.json").read_text())
    (cell,) = facts["matrix"]
    assert cell["of"] == "mtu" and all(sign["holds"] for sign in cell["evidence"])
    assert facts["readings"]["faulty"]["before"] and engine.stacks() == []


def test_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    rows = {
        "healthy": [Cell("healthy", "mtu", "silent", []), Cell("healthy", "swap", "absent", [])],
        "mtu": [Cell("mtu", "mtu", "own", []), Cell("mtu", "swap", "alarm", [])],
    }
    matrix._print(Terminal(), rows, ["mtu", "swap"])
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines[1:5] == [
        "",
        "       evidence of lab 12",
        "   healthy             .",
        " 1 mtu                 X!",
    ]


def test_it_takes_some_labs_or_all(faultlab: Run) -> None:
    got = faultlab("matrix")
    assert got.code == 2 and "Name some labs" in got.err and "faultlab matrix --help" in got.err


@pytest.mark.parametrize(
    ("words", "rows", "columns"),
    [
        ("mtu gzip", ["mtu", "gzip"], ["mtu", "gzip"]),
        ("mtu --all", ["mtu"], labs.ids()),
        ("--all", labs.ids(), labs.ids()),
    ],
)
def test_which_labs_run_and_whose_evidence_is_looked_for(
    words: str, rows: list[str], columns: list[str], faultlab: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the rows of the whole matrix can be made in pieces."""
    ran: dict[str, list[str]] = {}

    def row(_engine: object, lab: Lab, of: list[Lab], _checks: object) -> list[Cell]:
        ran[lab.id] = [other.id for other in of]
        return []

    every = {lab_id: None for lab_id in labs.ids()}
    monkeypatch.setattr(matrix, "engines_of", lambda *_, **__: (every, {}))
    monkeypatch.setattr(matrix, "_row", row)
    assert faultlab("matrix", *words.split()).code == 0
    controls = {lab_id for lab_id in labs.ids() if labs.load(lab_id).control}
    assert [*ran] == rows
    assert all(of == [one for one in columns if one not in controls] for of in ran.values())


def test_recorded_rows_are_marked_as_twins_says_today(project: Project, faultlab: Run) -> None:
    """The newest row of a lab counts, and evidence of labs that are gone does not."""
    sign = {"name": "n", "value": 1.0, "unit": "", "wanted": "at least 1", "holds": True}
    quiet = {**sign, "holds": False}

    def row(run: str, **signs: dict[str, Any]) -> None:
        cells = [{"of": of.replace("_", "-"), "evidence": [s]} for of, s in signs.items()]
        project.run(run, matrix=cells)

    row("20260101-000000-mtu-aaaa", mtu=quiet)
    row("20260102-000000-mtu-bbbb", mtu=sign, netem_loss=sign, port_range=quiet, gone=sign)
    project.run("20260103-000000-mtu-cccc")
    got = faultlab("matrix", "--recorded")
    assert (got.code, got.err) == (0, "")
    assert "mtu: mtu, netem-loss (20260102-000000-mtu-bbbb)" in got.out
    file = project.root / "labs/mtu/lab.toml"
    project.write("labs/mtu/lab.toml", re.sub(r"twins .*", "twins = []", file.read_text()))
    other = project.root / "labs/netem-loss/lab.toml"
    project.write("labs/netem-loss/lab.toml", re.sub(r"twins .*", "twins = []", other.read_text()))
    got = faultlab("matrix", "--recorded")
    assert got.code == 1 and "Not as declared: netem-loss in mtu." in got.err


def test_rows_kept_in_a_file(project: Project, faultlab: Run) -> None:
    """A newer row takes the place of an older one; a row that runs/ no longer has stays."""

    def row(run: str, **fires: bool) -> None:
        sign = {"name": "n", "value": 1.0, "unit": "", "wanted": "at least 1"}
        cells = [{"of": of, "evidence": [{**sign, "holds": holds}]} for of, holds in fires.items()]
        project.run(run, matrix=cells)

    kept = str(project.root / "kept.json")
    row("20260101-000000-mtu-aaaa", mtu=True, nagle=False)
    row("20260101-000000-nagle-aaaa", nagle=True, mtu=False)
    assert faultlab("matrix", "--collect", kept).code == 0
    shutil.rmtree(project.root / "runs")
    row("20260102-000000-nagle-bbbb", nagle=True, mtu=True)
    got = faultlab("matrix", "--collect", kept)
    assert got.code == 1 and "Not as declared: mtu in nagle." in got.err
    again = faultlab("matrix", "--file", kept)
    assert (again.code, again.out) == (1, got.out)
    assert "mtu: mtu (20260101-000000-mtu-aaaa)" in got.out
    assert "nagle: mtu, nagle (20260102-000000-nagle-bbbb)" in got.out
    missing = faultlab("matrix", "--file", "nothing.json")
    assert missing.code == 2 and "faultlab matrix --collect nothing.json" in missing.err
    project.write("kept.json", '{"schema": 1, "rows": {"mtu": 7}}')
    damaged = faultlab("matrix", "--file", kept)
    assert damaged.code == 2 and "kept.json is damaged" in damaged.err


def test_no_recorded_row(project: Project, faultlab: Run) -> None:
    got = faultlab("matrix", "--recorded")
    assert got.code == 3 and "No row of the matrix is recorded yet." in got.err
