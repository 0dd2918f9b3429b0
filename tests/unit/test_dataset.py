"""`faultlab dataset`: what is recorded of a fake stack, that names are blind, and going on."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from faultlab.data import card, openmetrics
from faultlab.engine.contract import Process, Program
from faultlab.engine.shell import Done
from faultlab.run import run as runs
from tests.unit.conftest import Project, Run
from tests.unit.fake import FakeEngine, FakeMachine, FakeProcess, only_fake

SCRAPES = """\
#= node {at} 1800000000.5
# TYPE node_load1 gauge
node_load1 0.5

#. 0
#= node {at} 1800000001.5
node_load1 0.75

#. 0
"""
SIZE, LOG = [0], "2026/11/21 20:52:40 [error] one\nsecond\n"


@pytest.fixture
def fake(project: Project, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeEngine]:
    """An engine whose exporters answer, and whose machines have files and a log that grows."""
    usual, plain = FakeMachine.run, FakeEngine.process
    SIZE[0] = 0

    @contextmanager
    def process(engine: FakeEngine, program: Program) -> Iterator[Process]:
        if program.image != str(project.root / "tools/prometheus"):
            with plain(engine, program) as other:
                yield other
            return
        assert program.inside is not None
        yield FakeProcess(SCRAPES.replace("{at}", program.inside.name).encode())

    def run(self: FakeMachine, command: str, timeout: float = 30) -> Done:
        out = None
        if command.startswith("find /var/log"):
            out = f"{SIZE[0]} /var/log/nginx/error.log\n"
            SIZE[0] += len(LOG)
        elif command.startswith("find /etc"):
            out = f"/etc/nginx/nginx.conf {packed('user www-data;')}\n"
        elif command.startswith("tail -c"):
            out = packed(LOG)
        elif command.startswith("printf '%s ' addresses"):
            out = f"addresses {packed('1: lo')}\nroutes {packed('')}\n"
        return usual(self, command, timeout) if out is None else Done(command, 0, out, "", 0.0)

    engine = only_fake(monkeypatch)
    monkeypatch.setattr(FakeEngine, "process", process)
    monkeypatch.setattr(FakeMachine, "run", run)
    monkeypatch.setattr(runs, "_TAKES_EFFECT", 0.0)
    yield engine


def packed(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


WORDS = ("--labs", "mtu", "--engine", "fake", "--seconds", "10")


def truths(out: Path) -> dict[str, dict[str, Any]]:
    rows = json.loads((out / "truth/truth.json").read_text())["items"]
    return {row["phase"]: row for row in rows}


@pytest.fixture
def out(fake: FakeEngine, faultlab: Run, tmp_path: Path) -> Path:
    folder = tmp_path / "set"
    done = faultlab("dataset", str(folder), *WORDS)
    assert done.code == 0, done.err
    assert "3 items of 1 labs" in done.out
    return folder


def test_each_phase_has_an_item_and_a_truth(out: Path) -> None:
    its = truths(out)
    assert {phase: row["fault"] for phase, row in its.items()} == {
        "healthy": False,
        "faulty": True,
        "fixed": False,
    }
    assert {(row["lab"], row["cause"], row["component"]) for row in its.values()} == {
        ("mtu", "mtu", "web")
    }
    items = {path.name for path in (out / "data/items").iterdir()}
    assert items == {row["item"] for row in its.values()}


def test_what_an_item_has(out: Path) -> None:
    item = out / "data/items" / truths(out)["faulty"]["item"]
    metrics = openmetrics.read((item / "metrics.om").read_text(), "x")
    load = [(1800000000.5, 0.5), (1800000001.5, 0.75)]
    assert metrics.series['node_load1{job="node",instance="web"}'] == load
    lines = [json.loads(line) for line in (item / "logs.jsonl").read_text().splitlines()]
    bodies = [
        line["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0]["body"]["stringValue"]
        for line in lines
    ]
    assert bodies == LOG.splitlines()
    topology = json.loads((item / "topology.json").read_text())
    assert [(one["name"], one["daemons"], one["users"]) for one in topology["machines"]] == [
        ("client", [], True),
        ("web", ["nginx", "php-fpm"], False),
    ]
    web = json.loads((item / "configuration.json").read_text())["web"]
    assert web["files"] == {"/etc/nginx/nginx.conf": "user www-data;"}
    assert web["settings"] == {"addresses": "1: lo", "routes": ""}


def test_the_part_of_the_examined_does_not_tell(out: Path) -> None:
    """No path, card or topology in data/ names the truth, a phase, a lab or a run."""
    data = out / "data"
    paths = [str(path.relative_to(data)) for path in data.rglob("*")]
    named = ["README.md", "croissant.json", "SHA256SUMS"]
    named += [path for path in paths if path.endswith("topology.json")]
    text = "\n".join([*paths, *((data / name).read_text() for name in named)])
    assert not re.search(r"truth|healthy|faulty|fixed|\bmtu\b", text)
    every = "".join(path.read_text() for path in data.rglob("*") if path.is_file())
    assert not [row["run"] for row in truths(out).values() if row["run"] in every]


def test_the_card_and_the_checksums(out: Path) -> None:
    data = out / "data"
    done = subprocess.run(
        ["sha256sum", "-c", "SHA256SUMS"], cwd=data, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    listed = {line.split("  ")[1] for line in (data / "SHA256SUMS").read_text().splitlines()}
    files = {str(path.relative_to(data)) for path in data.rglob("*") if path.is_file()}
    assert listed == files - {"SHA256SUMS"}
    croissant = json.loads((data / "croissant.json").read_text())
    assert croissant["conformsTo"] == "http://mlcommons.org/croissant/1.0"
    sets = [each for each in croissant["distribution"] if each["@type"] == "cr:FileSet"]
    for each in sets:
        assert len(list(data.glob(each["includes"]))) == 3
    whole = hashlib.sha256()
    lines = (data / "SHA256SUMS").read_text().splitlines(keepends=True)
    whole.update("".join(x for x in lines if "croissant" not in x).encode())
    assert croissant["distribution"][0]["sha256"] == whole.hexdigest()


def test_the_loader_of_the_card_reads_all_samples(out: Path) -> None:
    """Its pattern, without pandas: it matches each sample and no other line."""
    assert len(card.LOADER.splitlines()) <= 5
    pattern = re.search(r'r"(.*)"', card.LOADER)
    assert pattern and card.LOADER in (out / "data/README.md").read_text()
    for file in (out / "data/items").glob("*/metrics.om"):
        text = file.read_text()
        rows = [found for line in text.splitlines() if (found := re.search(pattern[1], line))]
        metrics = openmetrics.read(text, "x")
        assert len(rows) == sum(map(len, metrics.series.values()))
        assert {f"{row['name']}{{{row['labels']}}}" for row in rows} == {*metrics.series}


def test_the_same_command_goes_on(out: Path, fake: FakeEngine, faultlab: Run) -> None:
    before, launched = truths(out), fake.launched
    done = faultlab("dataset", str(out), *WORDS, "--json")
    assert done.code == 0 and fake.launched == launched
    assert json.loads(done.out)["items"] == 3
    assert truths(out) == before


def test_a_lab_that_has_changed_is_recorded_again(
    out: Path, project: Project, faultlab: Run
) -> None:
    before = truths(out)
    project.change("labs/mtu/lab.toml", "mtu 100", "mtu 101")
    assert faultlab("dataset", str(out), *WORDS, "--phases", "faulty").code == 0
    now = truths(out)
    assert now["healthy"] == before["healthy"]
    assert now["faulty"]["item"] != before["faulty"]["item"]
    items = {path.name for path in (out / "data/items").iterdir()}
    assert items == {row["item"] for row in now.values()}


def test_an_item_that_fails_is_named_and_the_others_are_kept(
    fake: FakeEngine, faultlab: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its exporters never answer, as where their image is broken: on the third stack."""
    seen: list[str] = []
    answers = FakeEngine.process

    @contextmanager
    def process(engine: FakeEngine, program: Program) -> Iterator[Process]:
        run = program.inside.run_id if program.inside else ""
        seen.extend([run] if run not in seen else [])
        if len(seen) == 3:
            yield FakeProcess(b"#= node web 5\n#. 7\n")
        else:
            with answers(engine, program) as process:
                yield process

    monkeypatch.setattr(FakeEngine, "process", process)
    done = faultlab("dataset", str(tmp_path / "set"), *WORDS)
    assert done.code == 3
    assert "1 of 3 items could not be recorded: mtu " in done.err
    assert "The node exporter on web never answered." in done.err
    assert len(truths(tmp_path / "set")) == 2


def test_what_a_killed_command_left_goes(out: Path, fake: FakeEngine, faultlab: Run) -> None:
    """An item without its truth: it was killed between the two."""
    orphan = out / "data/items/0badf00d"
    orphan.mkdir()
    (orphan / "metrics.om").write_text("# EOF\n")
    assert faultlab("dataset", str(out), *WORDS).code == 0
    assert not orphan.exists() and "0badf00d" not in (out / "data/SHA256SUMS").read_text()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--phases", "healthy,ill"], "There is no phase 'ill'; there are healthy, faulty, fixed."),
        (["--seconds", "5"], "An item takes 10 seconds and five readings at least."),
        (["--every", "0"], "An item takes 10 seconds and five readings at least."),
        (["--labs", "mut"], "There is no lab called 'mut'; did you mean mtu?"),
    ],
)
def test_bad_input(
    fake: FakeEngine, faultlab: Run, tmp_path: Path, words: list[str], says: str
) -> None:
    done = faultlab("dataset", str(tmp_path / "set"), "--engine", "fake", *words)
    assert (done.code, done.err.splitlines()[0]) == (2, f"faultlab: {says}")
    assert not (tmp_path / "set").exists()


def test_a_folder_with_something_else_is_left_alone(
    fake: FakeEngine, faultlab: Run, tmp_path: Path
) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    done = faultlab("dataset", str(tmp_path), *WORDS)
    assert done.code == 2 and "is no data set and not empty" in done.err
