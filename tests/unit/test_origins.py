"""Origins: ratios beside those of the documents, distances beside the gaps between limits."""

from __future__ import annotations

import dataclasses
import json
import math
import typing
from pathlib import Path
from typing import Any

import pytest

from faultlab.lab import checks
from faultlab.lab import loader as labs
from faultlab.report.references import Compared, Limited, ladders, svg
from tests.unit.conftest import Project, Run

REPO = Path(__file__).resolve().parents[2]


def compared(origin: tuple[float | None, float | None], ours: tuple[float, float]) -> Compared:
    return Compared("mtu", "run", "figure", "", origin, ours)


@pytest.mark.parametrize(
    ("origin", "ours", "holds"),
    [
        ((189, 5382), (33, 1510), True),
        ((189, 5382), (100, 1430), True),  # 14.3 times, half of 28.5
        ((189, 5382), (100, 1400), False),
        ((221.5, 259.2), (100, 101), True),  # half of a small ratio: the direction is left
        ((221.5, 259.2), (101, 100), False),
        ((3027, 3), (6.5, 0.002), True),
        ((3027, 3), (6.5, 0.05), False),
        ((50, 0), (30, 0), True),
        ((50, 0), (0, 0), False),
        ((50, 0), (0, 30), False),
        ((344, None), (5, 0), True),
        ((None, 12), (0, 12), True),
        ((None, 12), (12, 12), False),
    ],
)
def test_half_of_the_ratio(
    origin: tuple[float | None, float | None], ours: tuple[float, float], holds: bool
) -> None:
    assert compared(origin, ours).holds is holds


def test_distance_in_gaps() -> None:
    far = Limited("mtu", "run", "loss", "%", 0, 98, 2, "at most 1", "at least 41", 40)
    assert far.distance == pytest.approx(2.4) and far.holds
    near = Limited("mtu", "run", "loss", "%", 0, 50, 2, "at most 1", "at least 41", 40)
    assert near.distance == pytest.approx(1.2) and not near.holds
    assert math.isinf(Limited("mtu", "run", "loss", "%", 0, 50, 2, "", "", 0).distance)


def a_run(project: Project, name: str, **change: Any) -> None:
    """A whole run of mtu, as a run keeps it."""
    page = {"status": 200, "connect": 0.001, "total": 0.001}
    syn = {"sent": 5, "prompt": 5, "late": 0, "rtt_median": 0.5, "rtt_p95": 1.0}
    good = {"syn": syn, "page": {"exit_code": 0, "bytes": 252, **page}}
    bad = {"syn": syn, "page": {"exit_code": 28, "bytes": 0, **page}}
    counters = {"rx_packets": 5, "rx_dropped": 0, "tx_packets": 5, "tx_dropped": 0}
    watch = {"eth0": {"mtu": 1500, **counters}, "mss": 1460}
    readings = {
        phase: {"look": look, "before": watch, "after": watch}
        for phase, look in (("healthy", good), ("faulty", bad), ("fixed", good))
    }
    project.run(name, **{"readings": readings, **change})


def only_the_exit_code(project: Project) -> str:
    """Leave the lab mtu one figure; return its lab.toml."""
    text = (project.root / "labs/mtu/lab.toml").read_text().partition("[[figure]]")[0] + FIGURE
    project.write("labs/mtu/lab.toml", text)
    return text


FIGURE = """
[[figure]]
what   = "exit code"
of     = "page: curl's exit code"
faulty = 28
fixed  = 0
"""


def test_the_newest_whole_run_counts(project: Project, faultlab: Run) -> None:
    only_the_exit_code(project)
    a_run(project, "20260101-000000-mtu-aaaa")
    a_run(project, "20260102-000000-mtu-bbbb")
    a_run(project, "20260103-000000-mtu-cccc", readings={})
    a_run(project, "20260104-000000-mtu-dddd", schema=99)
    got = json.loads(faultlab("origins", "mtu", "--json").out)
    assert [(row["run"], row["ours"], row["holds"]) for row in got["figures"]] == [
        ("20260102-000000-mtu-bbbb", [28, 0], True)
    ]
    (row,) = got["limits"]
    assert (row["what"], row["healthy"], row["faulty"], row["fixed"]) == ("page: size", 252, 0, 252)
    assert row["gap"] == 100 and row["distance"] == 2.52


def test_a_field_of_the_look(project: Project, faultlab: Run) -> None:
    text = only_the_exit_code(project)
    of = '["page.bytes", "syn.rtt_p95"]'
    project.write("labs/mtu/lab.toml", text.replace('"page: curl\'s exit code"', of))
    a_run(project, "20260101-000000-mtu-aaaa")
    got = json.loads(faultlab("origins", "mtu", "--json").out)
    assert [row["ours"] for row in got["figures"]] == [[0, 1]]


def test_a_figure_that_nobody_measures(project: Project, faultlab: Run) -> None:
    text = only_the_exit_code(project)
    project.write("labs/mtu/lab.toml", text.replace("curl's exit code", "colour"))
    a_run(project, "20260101-000000-mtu-aaaa")
    got = faultlab("origins", "mtu")
    assert got.code == 3
    assert "labs/mtu/lab.toml: figure.of: nothing measured is called 'page: colour'" in got.err


def test_without_any_run(project: Project, faultlab: Run) -> None:
    got = faultlab("origins")
    assert (got.code, got.out) == (3, "")
    assert "No lab has a whole run yet." in got.err and "faultlab verify --all" in got.err


@pytest.mark.parametrize("lab_id", labs.ids())
def test_a_figure_names_what_its_check_measures(lab_id: str) -> None:
    check = checks.load(labs.load(lab_id))
    names = {m.name for m in check.symptom} | {item.name for item in check.evidence}
    for figure in labs.load(lab_id).figure:
        wanted = [figure.of] if isinstance(figure.of, str) else figure.of
        look = typing.get_type_hints(check.look)["return"]
        fields = {*dir(look), *(field.name for field in dataclasses.fields(look))}
        assert [of for of in wanted if of not in names and of.split(".")[0] not in fields] == []


def test_the_document_has_every_figure() -> None:
    text = (REPO / "docs/origins.md").read_text()
    _, _, without = text.partition("No whole run yet: ")  # not every machine runs every lab
    without, _, _ = without.partition("\n")
    for lab_id in labs.ids():
        for figure in labs.load(lab_id).figure:
            assert lab_id in without.strip().split(", ") or f"| {lab_id} | {figure.what}" in text


def test_a_ladder_of_three_labs() -> None:
    def step(lab: str, origin: tuple[float, float], ours: tuple[float, float]) -> Compared:
        return Compared(lab, "run", "bookings", "/s", origin, ours)

    steps = [
        step("scale-out", (42.79, 85.47), (250, 500)),
        step("missing-index", (19.14, 32.79), (100, 400)),
        Compared("conntrack", "run", "requests", "/s", (189, 5382), (33, 1510)),
        step("repeat-queries", (32.79, 42.79), (200, 300)),
        Compared("mtu", "run", "bookings", "s", (85.47, 90), (1, 2)),  # another unit
        step("busy", (85.47, 85.47), (1, 1)),  # no step
        step("gzip", (85.47, 19.14), (1, 1)),  # back to the beginning
    ]
    (found,) = ladders(steps)
    assert [s.lab for s in found.steps] == ["missing-index", "repeat-queries", "scale-out"]
    assert found.document == [19.14, 32.79, 42.79, 85.47]
    assert found.documents_gain == pytest.approx([1, 1.71, 2.24, 4.47], abs=0.01)
    assert found.our_gain == [1, 4, 6, 12]
    picture = svg([found])
    for text in ("<title>bookings [/s]</title>", "missing-index", "document", "measured", ">12<"):
        assert text in picture


def test_no_ladder_no_picture(project: Project, faultlab: Run) -> None:
    only_the_exit_code(project)
    a_run(project, "20260101-000000-mtu-aaaa")
    got = faultlab("origins", "mtu", "--picture", str(project.root / "ladder.svg"))
    assert got.code == 3 and "No two figures follow each other." in got.err
    assert not (project.root / "ladder.svg").exists()
