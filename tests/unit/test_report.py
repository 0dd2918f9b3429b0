"""Reports: lines from samples, the page of a run, and the page of all of them; no browser here."""

from __future__ import annotations

import json
import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from faultlab.core.statistics import wilson
from faultlab.report import page
from faultlab.run import series
from faultlab.run.record import Record
from tests.unit.conftest import REPO, Project, Run

RUN = "20261121-211714-mtu-779c"
NETWORK = dict.fromkeys(
    ("rx_bytes", "tx_bytes", "drops", "retransmits", "overflows", "time_wait"), 0
)


def sample(t: float, machine: str = "web", **change: Any) -> dict[str, Any]:
    """One line of a timeline, in which half of the host's processors idle."""
    return {
        "t": t,
        "machine": machine,
        "network": NETWORK | change.pop("network", {}),
        "host": {"us": t / 2, "sy": 0, "si": 0, "idle": t / 2, "steal": 0},
        "containers": change,
    }


def chart(samples: list[dict[str, Any]], title: str) -> series.Chart | None:
    by_machine: series.Samples = {}
    for each in samples:
        by_machine.setdefault(each["machine"], []).append(each)
    return next((c for c in series.charts(by_machine) if c.title == title), None)


def nginx(us: float, **more: float) -> dict[str, float]:
    return {"us": us, "sy": 0.0, "throttled": 0.0, "memory": 5e6, "swap": 0, **more}


def test_counters_become_rates() -> None:
    found = chart([sample(t, nginx=nginx(0.8 * t)) for t in (1.0, 1.5, 2.0)], "Processor time")
    assert found is not None and found.unit == "%"
    assert found.lines == {"nginx": [None, 80, 80]}  # no container was throttled: no line for that


def test_a_rate_needs_two_samples_of_one_life() -> None:
    """A daemon that is restarted counts from 0 again; one that is away has no counters."""
    lives = [nginx(5.0), nginx(5.4), nginx(0.1), None, nginx(0.3), nginx(0.5)]
    samples = [sample(t / 2) for t, _ in enumerate(lives, 2)]
    for each, life in zip(samples, lives, strict=True):
        each["containers"] = {"nginx": life} if life else {}
    found = chart(samples, "Processor time")
    assert found is not None
    assert found.lines["nginx"] == [None, 80, None, None, None, 40]


def test_what_is_no_counter_stays_as_it_is() -> None:
    samples = [sample(t, network={"time_wait": 7}) for t in (1.0, 1.5)]
    found = chart(samples, "Sockets in TIME_WAIT")
    assert found is not None and found.lines == {"web": [7, 7]}
    assert chart(samples, "Tracked connections") is None, "this kernel does not tell"


def test_bits_and_the_host() -> None:
    samples = [sample(t, network={"tx_bytes": 1e6 * t}) for t in (0.0, 0.5, 1.0)]
    network, host = chart(samples, "Network"), chart(samples, "Processors of the host")
    assert network is not None and network.lines == {"web out": [None, 8, 8]}
    assert host is not None and host.lines == {"us": [None, 50, 50]}


def test_machines_share_one_grid() -> None:
    samples = [
        *(sample(t, "web", network={"time_wait": 1}) for t in (1.02, 1.52, 2.02)),
        *(sample(t, "client", network={"time_wait": 2}) for t in (1.99, 2.51)),
    ]
    found = chart(samples, "Sockets in TIME_WAIT")
    assert found is not None
    assert found.lines == {"web": [1, 1, 1, None], "client": [None, None, 2, 2]}


@pytest.mark.parametrize("text", ["", "\n", '{"machine": "web"', "[1]\n", '{"t": 1}\n', "null\n"])
def test_a_timeline_that_was_cut_off(text: str, tmp_path: Path) -> None:
    """The last line of a run that was killed may be half of one."""
    file = tmp_path / "timeline.jsonl"
    whole = [sample(1.0), sample(1.5)]
    file.write_text("".join(json.dumps(each) + "\n" for each in whole) + text)
    assert series.read(file) == {"web": whole}
    assert series.read(tmp_path / "none") == {}


@pytest.mark.parametrize(
    ("failed", "of", "low", "high"),
    # Brown, Cai, DasGupta (2001) and R's binom.confint(method="wilson")
    [(0, 5, 0, 0.4345), (1, 10, 0.0179, 0.4042), (5, 10, 0.2366, 0.7634), (0, 0, 0, 1)],
)
def test_wilson(failed: int, of: int, low: float, high: float) -> None:
    assert wilson(failed, of) == pytest.approx((low, high), abs=1e-4)


class Page(HTMLParser):
    """The addresses that a browser would fetch, and the text of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del tag
        self.fetched += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture
def whole(project: Project) -> Path:
    """A verify of mtu, as it was recorded, with its timeline."""
    facts = json.loads((REPO / "tests/recorded/run/mtu.json").read_text())
    folder = project.run(RUN, **{**facts, "id": RUN})
    timeline = (REPO / "tests/recorded/run/timeline.jsonl").read_text()
    (folder / "timeline.jsonl").write_text(timeline)
    return folder


def test_the_page_of_a_run(whole: Path, faultlab: Run) -> None:
    got = faultlab("report", RUN)
    assert (got.code, got.err) == (0, "")
    html = (whole / "report.html").read_text()
    assert all(link.startswith("data:") for link in Page(html).fetched)
    text = " ".join(Page(html).text.split())
    assert "The port answers, the page never comes" in text
    assert "What broke it web# ip link set dev eth0 mtu 100" in text
    assert "What fixed it web# ip link set dev eth0 mtu 1500" in text
    assert "exactly 28" in text and "Processor time" in text
    before, during = text.partition("During")[::2]
    assert "The page arrives whole." in before and "The page does not arrive." not in before
    assert "The page does not arrive." in during.partition("After")[0]
    assert "The page arrives whole." in during.partition("After")[2]
    data = json.loads(re.search(r'id="data">(.*?)</script>', html)[1])  # type: ignore[index]
    assert [mark["text"] for mark in data["marks"]] == [
        "healthy", "injected", "symptom proven", "fixed",
    ]  # fmt: skip
    assert [band["kind"] for band in data["bands"]] == ["well", "ill", "well", "tried"]
    titles = [chart["title"] for chart in data["charts"]]
    assert titles[0] == "page: curl's exit code" and "Processor time" in titles
    assert {28.0, 0.0, None} == set(data["charts"][0]["lines"]["measured"])
    lengths = {len(line) for c in data["charts"] for line in c["lines"].values()}
    assert lengths == {len(data["seconds"])}


def test_the_newest_run_is_the_one_that_is_meant(whole: Path, faultlab: Run) -> None:
    told = json.loads(faultlab("report", "--json").out)
    assert (told["run"], Path(told["file"])) == (RUN, whole / "report.html")
    assert told["bytes"] == (whole / "report.html").stat().st_size


def test_nothing_of_a_run_can_end_the_script(whole: Path, faultlab: Run) -> None:
    facts = json.loads((whole / "run.json").read_text())
    evil = "</script><script>alert(1)</script>"
    facts["events"][1]["steps"] = [{"at": "web", "run": evil}]
    facts["commit"] = evil
    (whole / "run.json").write_text(json.dumps(facts))
    line = (whole / "timeline.jsonl").read_text().splitlines()[0]
    (whole / "timeline.jsonl").write_text(line.replace('"nginx"', json.dumps(evil)) + "\n")
    assert faultlab("report", RUN).code == 0
    assert "<script>alert" not in (whole / "report.html").read_text()


def test_a_run_without_a_timeline(whole: Path, faultlab: Run) -> None:
    (whole / "timeline.jsonl").unlink()
    assert faultlab("report", RUN).code == 0
    assert "recorded before there were any" in (whole / "report.html").read_text()


def test_a_run_that_was_cut_off(project: Project, faultlab: Run) -> None:
    folder = project.run(RUN)
    assert faultlab("report", RUN).code == 0
    assert "nothing measured" in (folder / "report.html").read_text()


def test_a_picture_that_is_too_large_is_named(whole: Path, faultlab: Run) -> None:
    facts = json.loads((whole / "run.json").read_text())
    for name, size in (("flame", 1000), ("flame-2", 900_000)):
        (whole / f"{name}.svg").write_text("<svg>" + "x" * size + "</svg>")
        facts["events"].append({"t": 9.0, "event": "flame", "file": f"{name}.svg"})
    (whole / "run.json").write_text(json.dumps(facts))
    faultlab("report", RUN)
    html = (whole / "report.html").read_text()
    assert html.count("data:image/svg+xml") == 1
    assert "Too large for this page: flame graph: flame-2.svg" in html


def test_no_run_yet(project: Project, faultlab: Run) -> None:
    assert (faultlab("report").code, faultlab("report", "--all").code) == (2, 3)


def test_all_labs(whole: Path, project: Project, faultlab: Run) -> None:
    facts = json.loads((whole / "run.json").read_text())
    failed = {"test": "test_fix", "verdict": "fail", "text": "no"}
    project.run("20261122-000000-mtu-bbbb", **{**facts, "tests": [failed]})
    sign = {"name": "n", "value": 1, "unit": "", "wanted": "at least 1", "holds": True}
    cells = [{"of": "mtu", "evidence": [sign]}, {"of": "netem-loss", "evidence": []}]
    project.run("20261122-000001-mtu-cccc", matrix=cells)
    (project.root / "runs/20261122-000002-mtu-dddd").mkdir()
    faultlab("report", RUN)
    told = json.loads(faultlab("report", "--all", "--json").out)
    row = next(row for row in told["labs"] if row["lab"] == "mtu")
    assert (row["verdict"], row["verified"], row["failed"]) == ("fail", 2, 1)
    html = unescape((project.root / "runs/index.html").read_text())
    assert all(link.startswith(("data:", "2026")) for link in Page(html).fetched)
    assert "page: curl's exit code while faulty, last 2 runs: 28 to 28" in html
    assert 'title="mtu in mtu: own"' in html


def test_in_a_control_nothing_is_ill() -> None:
    events = [
        {"t": 1.0, "event": "up"},
        {"t": 3.0, "event": "measured", "phase": "healthy", "took": 1.5},
        {"t": 3.1, "event": "inject"},
        {"t": 5.0, "event": "measured", "phase": "faulty", "took": 1.5},
        {"t": 5.1, "event": "fix"},
        {"t": 7.0, "event": "measured", "phase": "fixed", "took": 1.5},
        {"t": 7.5, "event": "down"},
    ]
    record = Record(Path("none"), {"events": events})
    assert {band.kind for band in page.bands(record, control=True)} == {"well"}
    marks = [mark.text for mark in page.marks(record, control=True)]
    assert marks == ["healthy", "set up", "still well", "put back"]
    assert [(b.kind, b.begin, b.end) for b in page.bands(record, control=False)] == [
        ("well", 0.0, 3.1),
        ("ill", 3.1, 5.1),
        ("well", 5.1, 7.0),
    ]
    assert [mark.t for mark in page.marks(record, control=False)] == [1.5, 3.1, 5.0, 5.1]


def test_a_learners_run_goes_on_after_its_last_event() -> None:
    """The samples of `watch` are shown; in a verified run nothing comes after the end."""
    events = [
        {"t": 3.0, "event": "measured", "phase": "healthy", "took": 1.5},
        {"t": 3.1, "event": "inject"},
        {"t": 5.0, "event": "measured", "phase": "faulty", "took": 1.5},
    ]
    ready = [*events, {"t": 5.1, "event": "ready"}]
    found = page.bands(Record(Path("none"), {"events": ready}), control=False, watched=300.0)
    assert [(b.kind, b.begin, b.end) for b in found] == [
        ("well", 0.0, 3.1),
        ("ill", 3.1, 5.1),
        ("tried", 5.1, 300.0),
    ]
    found = page.bands(Record(Path("none"), {"events": events}), control=False, watched=300.0)
    assert [b.kind for b in found] == ["well", "ill"]


def test_several_repairs_are_counted() -> None:
    events = [
        {"t": 1.0, "event": "measured", "phase": "healthy"},
        {"t": 2.0, "event": "inject"},
        {"t": 3.0, "event": "fix"},
        {"t": 4.0, "event": "fix"},
        {"t": 5.0, "event": "measured", "phase": "fixed"},
    ]
    found = page.marks(Record(Path("none"), {"events": events}), control=False)
    assert [mark.text for mark in found] == ["healthy", "injected", "fixed 1", "fixed 2"]
