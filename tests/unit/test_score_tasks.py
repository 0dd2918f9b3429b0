"""A score on a cluster: each look is a task, and its trials come back with the records."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from faultlab.core import paths
from faultlab.core.errors import BadInput, CannotRun
from faultlab.core.terminal import Terminal
from faultlab.engine.batch import Ended, Task
from faultlab.run import job_result
from faultlab.score import alone, exam, results, setups, task
from faultlab.score import tool as tools
from faultlab.score.results import ALONE, CROWD
from tests.unit.conftest import Project
from tests.unit.fake import FakeEngine, engines

TOOLS = ["always-alarm", "never-alarm", "one"]


TOOL = """\
title   = "A tool"
at      = ["client"]
window  = 5
output  = "lines"
command = "watch"

[[alarm]]
match  = "drops"

[[expect]]
labs    = ["*"]
detects = "may"
why     = "It can."
"""


def write(folder: Path) -> None:
    """Write a tool."""
    folder.mkdir(parents=True)
    (folder / "tool.toml").write_text(TOOL)


class Cluster(FakeEngine):
    """An engine that makes looks in pods; here a pod is a call. Some of its pods fail."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Task] = []
        self.names: list[str] = []
        self.broken = ""

    def batch(self, name: str) -> Cluster:
        self.names.append(name)
        return self

    def run(
        self, wanted: Sequence[Task], at_once: int, note: Callable[[str], None]
    ) -> Generator[Ended]:
        assert at_once == 50
        note("2 on the cluster")
        self.asked = [*wanted]
        for each in wanted:
            module, engine, way, lab_id, phase, number, *names = each.words.split()
            assert (module, engine) == ("score.task", self.name)
            if self.broken and self.broken in each.words:
                yield Ended(each.words, problem="its pod failed: MemoryError")
                continue
            look = setups.named(lab_id, phase, int(number))
            its = ALONE if way == ALONE else CROWD
            made = task.make(self, its, look, [tools.load(name) for name in names])
            yield Ended(each.words, job_result.pack(asdict(made), {t.run for t in made.trials}))


@pytest.fixture
def cluster(project: Project, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster()
    monkeypatch.setattr(Cluster, "one", made)
    engines(monkeypatch, fake=Cluster)
    for name in TOOLS:
        write(project.root / "tools" / name)
    return made


def score(file: Path, *, tool: str = "one", crowd: bool = False, **how: Any) -> None:
    usual: dict[str, Any] = {"wanted": "fake", "jobs": 50, "repeat": 1, "seed": 0, "network": False}
    exam.score(Terminal(), [tool], ["mtu"], json_file=str(file), crowd=crowd, **{**usual, **how})


@pytest.mark.parametrize(("crowd", "count"), [(False, 5), (True, 3)])
def test_each_look_is_a_task(cluster: Cluster, tmp_path: Path, crowd: bool, count: int) -> None:
    """Alone there are two floors more. What is alone, or judges speed, has a node alone."""
    file = tmp_path / "score.json"
    score(file, crowd=crowd)
    kept = results.read(file)
    assert len(cluster.asked) == count and len(kept.trials) == count * len(TOOLS)
    assert {each.alone for each in cluster.asked} == {not crowd}
    assert not cluster.stacks_up
    for made in kept.trials.values():
        assert made.kind == "diagnosis" and made.way == (CROWD if crowd else ALONE)
        assert (paths.runs() / made.run / "run.json").exists()
    cpus = {key: kept.facts["machine"].get(key) for key in ("stack_cpus", "tool_cpus")}
    assert cpus == ({"stack_cpus": None, "tool_cpus": None} if crowd else dict.fromkeys(cpus, ""))


def test_a_look_whose_pod_failed_is_made_again(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The others are kept, and the same command gets the same batch."""
    file = tmp_path / "score.json"
    cluster.broken = "mtu faulty"
    with pytest.raises(CannotRun, match="1 of 5 looks could not be made: mtu faulty 1: its pod"):
        score(file)
    assert "3 of 5: " in capsys.readouterr().out
    first = {key: t.run for key, t in results.read(file).trials.items()}
    cluster.broken = ""
    score(file)
    assert [each.words.split()[3:5] for each in cluster.asked] == [["mtu", "faulty"]]
    now = {key: t.run for key, t in results.read(file).trials.items()}
    assert len(first) == 12 and len(now) == 15 and {key: now[key] for key in first} == first
    assert len({*cluster.names}) == 1


def test_trials_before_an_error_are_kept(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = alone.Alone.trials

    def cut(self: alone.Alone, *words: Any) -> Generator[results.Trial]:
        yield next(whole(self, *words))
        raise CannotRun("The node is gone.", "kubectl get nodes")

    monkeypatch.setattr(alone.Alone, "trials", cut)
    with pytest.raises(CannotRun, match=r"5 of 5 looks could not be made: .*The node is gone\."):
        score(tmp_path / "score.json")
    found = json.loads((tmp_path / "score.json").read_text())["trials"]
    assert len(found) == 5


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"wanted": "local"}, "On this machine one look is made at a time"),
        ({"hours": 1.0}, "--hours is for this machine"),
        ({"jobs": 0}, "--jobs and --repeat take a number from 1 up"),
    ],
)
def test_what_is_not_possible_there(
    cluster: Cluster, tmp_path: Path, how: dict[str, Any], why: str
) -> None:
    with pytest.raises(BadInput, match=why):
        score(tmp_path / "score.json", **how)
    assert not cluster.names


def test_a_tool_from_elsewhere_is_in_no_pod(cluster: Cluster, tmp_path: Path) -> None:
    write(tmp_path / "own")
    with pytest.raises(BadInput, match="own is not in tools/") as raised:
        score(tmp_path / "score.json", tool=str(tmp_path / "own"))
    assert raised.value.hint == f"cp -r {tmp_path}/own {paths.show(paths.tools())}"
    assert not cluster.names
