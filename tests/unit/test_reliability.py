"""Reliability: distances in sigmas against known values, pieces that add up, and the page."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from faultlab.lab import loader as labs
from faultlab.lab.limits import Bound, at_least, at_least_times, at_most, at_most_times, exactly
from faultlab.run import digest
from faultlab.verify import reliability, reliability_page, walks
from faultlab.verify.reliability import sigmas
from faultlab.verify.walks import Limit, Walk, Walks
from tests.unit.conftest import Project, Run

E = math.e


def beside(*values: float, healthy: float = 1.0) -> list[tuple[float, float]]:
    return [(value, healthy) for value in values]


@pytest.mark.parametrize(
    ("bound", "pairs", "distance"),
    [
        (at_most(20), beside(10, 12, 14), 4.0),  # mean 12, standard deviation 2
        (at_least(20), beside(10, 12, 14), -4.0),
        (at_least(6), beside(10, 12, 14), 3.0),
        (at_most(15), beside(2, 4, 4, 4, 5, 5, 7, 9), 10 / math.sqrt(32 / 7)),
        (at_least_times(1), beside(E, E**2, E**3), 2.0),  # logarithms 1, 2, 3
        (at_most_times(E**5), [(2 * E, 2), (3 * E**2, 3), (E**3, 1)], 3.0),
        (at_most_times(0.5), beside(0, 0.1, 0.2), 4.0),  # a 0: the ratios themselves
        (at_least(5), beside(7, 7, 7), math.inf),
        (at_most(0), beside(0, 0), math.inf),
        (at_most(0), beside(1, 1), -math.inf),
        (at_most(0), beside(0, 0, 3), -1 / math.sqrt(3)),
        (at_least_times(5), beside(math.inf, math.inf), math.inf),
        (at_least(1), beside(math.inf, 2, 4), math.sqrt(2)),  # of those that are numbers
        (at_most(9), beside(math.inf, 2, 4), -math.inf),
        (exactly(28), beside(28, 28), math.inf),
        (exactly(28), beside(28, 7), -math.inf),
        (at_least_times(2), [(1.0, 0.0), (2.0, 0.0)], -math.inf),  # a ratio to nothing
        (at_most(20), beside(12), None),
        (at_most(20), [], None),
    ],
)
def test_sigmas(bound: Bound, pairs: list[tuple[float, float]], distance: float | None) -> None:
    assert sigmas(bound, pairs) == (None if distance is None else pytest.approx(distance))


def test_after_a_cheat_the_limit_must_fail() -> None:
    assert sigmas(at_most(8), beside(10, 12, 14), holds=False) == pytest.approx(2)
    assert sigmas(exactly(0), beside(28, 28), holds=False) == math.inf
    assert sigmas(exactly(0), beside(28, 0), holds=False) == -math.inf


def limit(phase: str, kind: walks.Kind, name: str, bound: Bound) -> Limit:
    return Limit(phase, kind, name, "", bound.op, bound.limit, bound.times)


TODAY = digest.walk("mtu")


def walk(number: int = 1, verdict: Any = "pass", **more: Any) -> Walk:
    facts = {"run": f"run-{number}", "lab_digest": TODAY, **more}
    return Walk("mtu", number, verdict, 10.0 + number, **facts)


def several(*walked: Walk) -> Walks:
    return Walks(walks={each.key: each for each in walked})


def test_the_smallest_distance_of_a_lab() -> None:
    """Of a phase every limit must hold; after a cheat it is enough that one of them fails."""
    phases = ["healthy", "fixed", "cheat 1"]
    kept = several(
        walk(1, phases=phases, values={"a": [1, 10, 10], "b": [1, 1, 1]}),
        walk(2, phases=phases, values={"a": [1, 12, 12], "b": [1, 2, 1]}),
        walk(3, phases=phases, values={"a": [1, 14, 14], "b": [1, 3, 1]}),
    )
    kept.limits["mtu"] = [
        limit("fixed", "well", "a", at_most(26)),  # 7
        limit("fixed", "well", "b", at_most(8)),  # 6
        limit("cheat 1", "cheat", "a", at_most(2)),  # 5
        limit("cheat 1", "cheat", "b", at_most(2)),  # not told by this one
        limit("alternative 1", "well", "a", at_most(2)),  # no walk went there
    ]
    ((row,), _) = reliability.rows(kept)
    least = row.smallest
    assert least is not None
    assert (least.phase, least.measure, least.text) == ("cheat 1", "a", "5.0")
    assert [each.text for each in row.distances] == ["7.0", "6.0", "5.0", "crossed", "-"]
    assert not row.weak
    kept.limits["mtu"][2] = limit("cheat 1", "cheat", "a", at_most(5))
    ((row,), _) = reliability.rows(kept)
    assert row.weak and reliability_page.as_markdown(kept).count("| mtu | 3.5 | a | cheat 1 |") == 1


def test_what_is_counted() -> None:
    kept = several(
        *(walk(i, looks=9) for i in range(8)),
        walk(8, "fail", reason="no effect", looks=9, again=["57% of the time was stolen"]),
        walk(9, "unknown", looks=9, again=["p99: measured 2 s, wanted at most 1 s; 3% was stolen"]),
        Walk("mtu", 1, "pass", 99.0, engine="vm", lab_digest=TODAY),
        most := walk(10, most={"stolen": 0.25, "others": 0.5}),
    )
    (row, vm), left = reliability.rows(kept)
    assert (row.name, vm.name, left) == ("mtu", "mtu (vm)", 0)
    assert [row.count(v) for v in ("pass", "fail", "unknown")] == [9, 1, 1]
    low, high = row.passes.interval  # R: binom.confint(9, 10, method="wilson")
    assert (low, high) == pytest.approx((59.585, 98.212), abs=1e-3)
    assert row.unknown.text.startswith("1 of 11, 9%")
    assert row.seconds == (15, 10, 20)
    assert row.again.text.startswith("2 of 90, 2%")
    assert reliability.reasons(row.walks) == {
        "…% of the time was stolen": 1,
        "p99: not within a limit": 1,
        "…% was stolen": 1,
    }
    assert reliability.burdens([most]) == {"stolen": (0.25, 0.25), "others": (0.5, 0.5)}


def test_walks_of_a_lab_that_has_changed_since_are_left_out() -> None:
    kept = several(
        walk(1, began="2026-01-01", lab_digest="old"),
        walk(2, began="2026-01-02"),
        walk(3, began="2026-01-03"),
        Walk("gzip", 1, "pass", 9.0, began="2026-01-03", lab_digest="old"),
    )
    ((row,), left) = reliability.rows(kept)
    assert ([each.number for each in row.walks], left) == ([2, 3], 2)
    assert "left out: 2 walks" in reliability_page.as_markdown(kept)


@pytest.mark.parametrize("lab_id", labs.ids())
def test_every_lab_has_limits_in_every_phase(lab_id: str) -> None:
    lab = labs.load(lab_id)
    found = list(walks.limits(lab))
    phases = {one.phase for one in found}
    assert phases >= {"healthy", "fixed", "alternative 1"}
    ill = [f"only {fault.id}" for fault in lab.fault] or ["faulty", "alternative 1, before"]
    kind = "well" if lab.control else "ill"
    assert all({one.kind for one in found if one.phase == phase} == {kind} for phase in ill)
    assert {one.kind for one in found if one.phase.startswith("cheat")} == {"cheat"}


RUN = "20260101-000000-mtu-aaa{}"


def finding(value: float) -> dict[str, Any]:
    return {"name": "page: size", "value": value, "unit": "bytes", "wanted": "", "holds": True}


def a_campaign(project: Project, name: str, numbers: range, **more: Any) -> str:
    """A file of cases with their records."""
    cases = []
    for i in numbers:
        run = RUN.format(i)
        if not (project.root / "runs" / run).exists():
            judged = {
                phase: {"good": [finding(value + i)], "bad": [], "evidence": []}
                for phase, value in (("healthy", 252), ("faulty", 0), ("fixed", 252))
            }
            events = [
                {"t": 2.0, "event": "undecided", "phase": "healthy", "text": "9% was stolen"},
                {"t": 3.0, "event": "measured", "phase": "healthy", "stolen": 0.01, "delay": 0.2},
            ]
            readings: dict[str, Any] = {phase: {} for phase in judged}
            facts = {"judged": judged, "events": events, "commit": "abc", "kernel": "6.1"}
            project.run(run, **facts, readings=readings, engine="local", cpus=2)
        case = {"lab": "mtu", "number": i, "verdict": "pass", "seconds": 20.0 + i, "run": run}
        case["lab_digest"] = TODAY
        cases.append({**case, **more})
    file = project.root / name
    file.write_text(json.dumps({"schema": 1, "counts": {}, "cases": cases}))
    return str(file)


def test_from_campaigns_to_the_compact_file(project: Project, faultlab: Run) -> None:
    one, two = a_campaign(project, "1.json", range(3)), a_campaign(project, "2.json", range(2, 5))
    into = str(project.root / "compact.json")
    assert faultlab("reliability", one, "--collect", into).code == 0
    done = faultlab("reliability", two, "--collect", into)
    assert done.code == 0 and "5 walks, 0 unknown (0%)" in done.out
    assert "10 looks, 5 taken again (50.0%)" in done.out
    assert "taken again 5 x: …% was stolen" in done.out
    assert "delay, the most in a walk: median 0.2, largest 0.2" in done.out
    assert max(map(len, done.out.splitlines())) <= 80
    text = Path(into).read_text()
    assert text.count("\n") == 10, "a line for each walk and for the limits of a lab"
    again = faultlab("reliability", one, two, into, "--collect", into)
    assert again.out == done.out and Path(into).read_text() == text
    assert faultlab("reliability", into).out == faultlab("reliability", one, two).out == done.out
    told = json.loads(faultlab("reliability", into, "--json").out)
    (row,) = told["labs"]
    assert (row["walks"], row["pass"], row["seconds"]["median"]) == (5, 5, 22.0)
    assert (row["looks"], row["again"], row["why_again"]) == (10, 5, {"…% was stolen": 5})
    size = {d["phase"]: d for d in row["distances"] if d["measure"] == "page: size"}
    assert size["healthy"]["sigmas"] == pytest.approx((254 - 100) / math.sqrt(2.5))
    assert size["faulty"]["text"] == "-1.3" and row["weak"]
    assert done.out.startswith("Under 4 sigmas: needs a stronger fault or a better measure.\n")


def test_values_are_not_lost_where_a_record_is_not(project: Project, faultlab: Run) -> None:
    file, into = a_campaign(project, "1.json", range(2)), str(project.root / "compact.json")
    assert faultlab("reliability", file, "--collect", into).code == 0
    before = Path(into).read_text()
    for run in (project.root / "runs").iterdir():
        (run / "run.json").unlink()
    assert "2 walks have no values here" in faultlab("reliability", file).out
    assert faultlab("reliability", file, "--collect", into).code == 0
    assert Path(into).read_text() == before


def test_what_no_number_can_say_survives_the_file(tmp_path: Path) -> None:
    values = {"p99": [0.1, math.inf]}
    kept = several(walk(1, phases=["healthy", "faulty"], values=values))
    kept.write(tmp_path / "c.json")
    assert "Infinity" not in (tmp_path / "c.json").read_text()
    assert walks.read(tmp_path / "c.json") == kept


def test_what_is_no_walk(project: Project, faultlab: Run) -> None:
    for more in ({"verdict": "skip"}, {"verdict": "unknown", "interrupted": True}):
        file = a_campaign(project, "1.json", range(2), **more)
        done = faultlab("reliability", file)
        assert done.code == 3 and "There is no walk in it." in done.err


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "holds no walks: "),
        ("[]", "holds no walks: no object."),
        ('{"schema": 1, "trials": []}', "is not a result of verify"),
        ('{"schema": 9, "walks": []}', "has the version 9, and this faultlab reads 1."),
        ('{"schema": 1, "walks": [{"lab": "mtu"}], "limits": {}}', "is damaged: walks.0.number: "),
        ('{"schema": 1, "walks": [], "limits": {"mtu": [[1]]}}', "is damaged: limits.mtu.0."),
        ('{"schema": 1, "walks": []}', "is damaged: "),
    ],
)
def test_bad_files(text: str, says: str, faultlab: Run, tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text(text)
    for command in (["reliability", str(file)], ["reliability", "a", "--collect", str(file)]):
        done = faultlab(*command)
        assert (done.code, done.out) == (2, "")
        assert len(done.err.splitlines()) == 2 and says in done.err
    assert file.read_text() == text


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["none.json"], "There is no file none.json."),
        (["--collect", "x.json"], "Name the files to collect from."),
        (["none.json", "--collect", "/nowhere/x.json"], "There is no folder for /nowhere/x.json."),
        (["none.json", "--collect", "/tmp"], "/tmp holds no walks: "),
    ],
)
def test_bad_input(words: list[str], says: str, faultlab: Run) -> None:
    done = faultlab("reliability", *words)
    assert done.code == 2 and done.err.startswith(f"faultlab: {says}")
