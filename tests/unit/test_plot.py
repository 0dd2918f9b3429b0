"""Plot: the sweep of a record as a picture, and what it says to a record that holds none."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from faultlab.core.errors import BadInput
from faultlab.lab import loader as labs
from faultlab.report import plot
from faultlab.verify import transcript
from tests.unit.conftest import REPO, Project, Run

RUN = "20260101-000000-bandwidth-0001"
SVG = "{http://www.w3.org/2000/svg}"


def points(*per_second: float) -> list[dict[str, float]]:
    """A sweep whose link is full from the second point on."""
    return [
        {"connections": 4**i, "operations_per_second": speed, "link_percent": 100.0, "lost": 0}
        for i, speed in enumerate(per_second, 2)
    ]


def readings(**phases: Any) -> dict[str, Any]:
    """The readings of a record whose looks hold these sweeps."""
    return {name: {"look": {"sweep": sweep, "other": 1}} for name, sweep in phases.items()}


def texts(file: Path) -> list[str]:
    """Return the texts that can be read in a picture."""
    return ["".join(node.itertext()).strip() for node in ET.parse(file).iter(f"{SVG}text")]


def test_the_picture_of_a_run(project: Project, faultlab: Run) -> None:
    stored = readings(healthy=points(10, 30, 90), faulty=points(9, 9, 9))
    folder = project.run(RUN, readings=stored)
    got = faultlab("plot", RUN)
    assert (got.code, got.err) == (0, "")
    assert f"runs/{RUN}/sweep.svg" in got.out
    found = texts(folder / "sweep.svg")
    assert {"healthy", "faulty", "operations/s", "link (%)", "16", "64", "256"} <= set(found)
    assert "lost" not in found  # 0 everywhere: there is nothing to show
    assert any(RUN in text for text in found)


def test_the_picture_stands_alone_and_follows_light_and_dark(project: Project) -> None:
    project.run(RUN, readings=readings(healthy=points(10, 30)))
    drawn = plot.svg(plot.find(RUN))
    assert 'href="http' not in drawn and "<image" not in drawn and "<script" not in drawn
    assert "prefers-color-scheme: dark" in drawn
    assert "#000000" not in drawn, "black ink cannot be read in the dark"
    assert drawn == plot.svg(plot.find(RUN)), "the same record gives the same picture"


def test_every_sweep_gets_its_picture_whatever_its_names(project: Project) -> None:
    sweep = [{"orders": 1, "seconds_of_the_page": 2.5}, {"orders": 10, "seconds_of_the_page": 25}]
    project.run(RUN, readings=readings(healthy=sweep))
    found = plot.find(RUN)
    assert (found.load, found.panels) == ("orders", ["seconds_of_the_page"])
    assert "seconds of the page" in plot.svg(found)


def test_the_phase_that_an_alternative_begins_with_is_no_line(project: Project) -> None:
    stored = readings(healthy=points(1, 2)) | readings(**{"alternative 1, before": points(1, 1)})
    project.run(RUN, readings=stored)
    assert list(plot.find(RUN).phases) == ["healthy"]


def test_a_lab_stands_for_its_newest_run_with_a_sweep(project: Project, faultlab: Run) -> None:
    project.run(RUN, readings=readings(healthy=points(1, 2)))
    newer = RUN.replace("2026", "2027")
    project.run(newer, readings=readings(healthy=points(1, 2)))
    project.run(RUN.replace("2026", "2028"), readings={})
    mtu = RUN.replace("2026", "2029").replace("bandwidth", "mtu")
    project.run(mtu, readings=readings(healthy=points(1, 2)))
    (project.root / "runs" / RUN.replace("2026", "2030")).mkdir()
    got = faultlab("plot", "bandwidth", "--json")
    told = json.loads(got.out)
    assert (got.code, told["run"], told["phases"]) == (0, newer, ["healthy"])
    assert Path(told["file"]) == project.root / "runs" / newer / "sweep.svg"


def test_it_goes_where_it_is_sent(project: Project, faultlab: Run, tmp_path: Path) -> None:
    project.run(RUN, readings=readings(healthy=points(1, 2)))
    assert faultlab("plot", RUN, "--to", str(tmp_path / "p.svg")).code == 0
    assert "healthy" in texts(tmp_path / "p.svg")
    got = faultlab("plot", RUN, "--to", str(tmp_path / "nowhere/p.svg"))
    assert (got.code, "There is no folder" in got.err) == (2, True)


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("nothing", "There is no run and no lab called 'nothing'"),
        ("../runs", "There is no run and no lab called '../runs'"),
        ("mtu", "No run of mtu holds a sweep"),
        (RUN.replace("bandwidth", "mtu"), "holds no sweep"),
    ],
)
def test_there_is_no_sweep(what: str, says: str, project: Project, faultlab: Run) -> None:
    project.run(RUN.replace("bandwidth", "mtu"), readings={"healthy": {"look": {"page": 1}}})
    got = faultlab("plot", what)
    assert got.code == 2
    assert says in got.err and "  next: " in got.err and len(got.err.splitlines()) == 2


def test_before_the_first_run(project: Project, faultlab: Run) -> None:
    assert faultlab("plot", "bandwidth").code == 2


@pytest.mark.parametrize(
    "stored",
    [
        {"healthy": {"look": {"sweep": "full"}}},
        readings(healthy=[]),
        readings(healthy=[1, 2]),
        readings(healthy=[{"connections": 16, "operations_per_second": "many"}]),
        readings(healthy=[{"connections": 16}]),
        readings(healthy=points(1, 2), faulty=[{"connections": 16, "pages": 3}]),
        readings(healthy=points(1, 2), faulty=[]),
    ],
)
def test_a_damaged_sweep(stored: Any, project: Project, faultlab: Run) -> None:
    project.run(RUN, readings=stored)
    got = faultlab("plot", RUN)
    assert (got.code, got.err.splitlines()[0]) == (
        2,
        f"faultlab: The record of the run {RUN} is damaged.",
    )


def test_a_record_without_readings(project: Project) -> None:
    project.run(RUN, readings=None)
    with pytest.raises(BadInput, match="is damaged: readings: "):
        plot.find(RUN)


@pytest.mark.parametrize(
    "file", sorted(REPO.glob(f"labs/*/{plot.FILE}")), ids=lambda f: f.parent.name
)
def test_the_picture_of_a_lesson_is_of_a_run_that_it_names(file: Path) -> None:
    lesson = labs.load(file.parent.name).lesson
    assert f"]({plot.FILE})" in lesson
    recorded = {run for _, run, _ in transcript.blocks(lesson)}
    named = set(re.findall(r"\d{8}-\d{6}-[a-z-]+-[0-9a-f]{4}", lesson))
    (run,) = named - recorded or recorded  # one that the text names, else that of the transcripts
    assert any(run in text for text in texts(file))
