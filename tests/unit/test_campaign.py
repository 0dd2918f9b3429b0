"""A campaign of walks goes on where it was cut off, and never takes old verdicts for new."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from faultlab.core import terminal
from faultlab.engine.batch import Ended as TaskEnd
from faultlab.engine.batch import Task
from faultlab.lab.model import Lab
from faultlab.verify import task
from faultlab.verify.case import Case, CaseEnd, Runner
from tests.unit.conftest import Project, Result, Run, told
from tests.unit.fake import FakeEngine, engines

TEST = {"test": "test_fix", "verdict": "pass", "text": ""}
LABS = ["gzip", "mtu"]  # mtu can share the machine, gzip loads it


class Place(FakeEngine):
    """An engine that runs no walks itself."""

    name = "local"


class Walks:
    """Takes the place of pytest: counts the walks, and can be cut off at one of them."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.cut_at = 99
        self.verdict = "pass"

    def walk(self, lab: Lab, file: Path, _said: Path) -> CaseEnd:
        if len(self.made) >= self.cut_at:
            raise KeyboardInterrupt
        self.made.append(lab.id)
        test = {**TEST, "verdict": self.verdict, "text": self.verdict}
        file.write_text(json.dumps({"run": "", "collected": ["test_fix"], "tests": [test]}))
        return CaseEnd(0 if self.verdict == "pass" else 1, "ended")


@pytest.fixture
def walks(project: Project, monkeypatch: pytest.MonkeyPatch) -> Walks:
    made = Walks()
    # On a busy machine a sign of life would come before the lines that the tests expect.
    monkeypatch.setattr(terminal, "_PATIENCE", 60.0)
    monkeypatch.setattr(Runner, "_pytest", made.walk)
    engines(monkeypatch, local=Place)
    return made


@pytest.fixture
def again(faultlab: Run, tmp_path: Path) -> Callable[..., Result]:
    def run(*words: str) -> Result:
        done = faultlab("verify", *LABS, "--json", str(tmp_path / "r.json"), *words)
        return replace(done, out=re.sub(r"^doctor .*\n", "", done.out))

    return run


def of_file(tmp_path: Path) -> list[tuple[str, int, bool]]:
    return [(c["lab"], c["number"], c["kept"]) for c in told(tmp_path)["cases"]]


@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize("point", range(4))
def test_cut_off_at_each_point(
    point: int, jobs: str, walks: Walks, again: Callable[..., Result], tmp_path: Path
) -> None:
    walks.cut_at = point
    assert again("--repeat", "2", "--jobs", jobs).code == 3
    assert not told(tmp_path)["campaign"]["finished"]
    there = len(told(tmp_path)["cases"])
    # A walk that waits for another one of its lab does not begin any more.
    assert there == point or (jobs == "2" and there == point - 1)
    walks.cut_at = 99
    done = again("--repeat", "2", "--jobs", jobs)
    assert done.code == 0
    said = [line for line in done.out.splitlines() if " … " not in line]  # signs of life
    assert said[0] == f"resuming: {there} of 4 walks are there"
    assert len(walks.made) == 4, "none of them twice"
    cases = of_file(tmp_path)
    assert {case[:2] for case in cases} == {(lab, number) for lab in LABS for number in (1, 2)}
    assert sum(kept for _, _, kept in cases) == there
    assert told(tmp_path)["campaign"]["finished"]


def test_a_whole_campaign_is_made_afresh(
    walks: Walks, again: Callable[..., Result], tmp_path: Path
) -> None:
    """Otherwise: every night the same file, and after the first night no test at all."""
    assert "afresh" not in again().out
    done = again()
    assert done.out.startswith("afresh: the campaign in r.json was complete and is replaced\n")
    assert len(walks.made) == 4
    assert not any(kept for _, _, kept in of_file(tmp_path))


def test_a_fail_is_a_verdict_and_not_made_again(
    walks: Walks, again: Callable[..., Result], tmp_path: Path
) -> None:
    walks.verdict, walks.cut_at = "fail", 1
    assert again().code == 3
    walks.verdict, walks.cut_at = "pass", 99
    assert again().code == 1, "what failed before the cut still counts"
    assert sorted(case["verdict"] for case in told(tmp_path)["cases"]) == ["fail", "pass"]


def test_more_walks_of_a_whole_campaign(
    walks: Walks, again: Callable[..., Result], tmp_path: Path
) -> None:
    assert again().code == 0
    done = again("--repeat", "3")
    assert done.out.startswith("resuming: 2 of 6 walks are there\n")
    assert len(walks.made) == 6 and told(tmp_path)["campaign"]["repeat"] == 3
    assert again("--repeat", "2").out.startswith("afresh: ")


@pytest.mark.parametrize(
    "change",
    [
        ("labs/mtu/lab.toml", "mtu 100", "mtu 99"),
        ("checks/test_mtu.py", "at_least(100)", "at_least(99)"),
    ],
)
def test_a_lab_that_has_changed_is_walked_again(
    change: tuple[str, str, str], walks: Walks, again: Callable[..., Result], project: Project
) -> None:
    walks.cut_at = 3
    again("--repeat", "2")
    walks.cut_at = 99
    project.change(*change)
    walks.made.clear()
    first = again("--repeat", "2").out.splitlines()[0]
    kept, others = (2, 1) if walks.made == ["mtu", "mtu"] else (1, 2)
    assert first == f"resuming: {kept} of 4 walks are there, {others} others are made again"
    assert walks.made.count("mtu") == 2


@pytest.mark.parametrize(
    "change",
    [
        ("labs/mtu/README.md", "Symptom", "What they saw"),
        ("labs/mtu/lab.toml", "[[hint]]", "# nothing\n[[hint]]"),
        ("checks/test_mtu.py", "CHECK = Check(", "# nothing\nCHECK = Check("),
        ("checks/test_mtu.py", '"""Open five', '"""Open some'),
        ("checks/test_mtu.py", "The page arrives whole.", "The whole page is there."),
    ],
)
def test_words_for_people_change_no_walk(
    change: tuple[str, str, str], walks: Walks, faultlab: Run, project: Project
) -> None:
    file, old, new = change
    command = ["verify", "mtu", "--repeat", "2", "--json", str(project.root / "r.json")]
    walks.cut_at = 1
    faultlab(*command)
    project.change(file, old, new)
    walks.cut_at = 99
    assert faultlab(*command).out.startswith("resuming: 1 of 2 walks are there\n")


@pytest.mark.parametrize(
    "change",
    [
        {"engine": "vm"},
        {"program_digest": "another"},
        {"lab_digest": ""},
        {"interrupted": True, "verdict": "unknown"},
    ],
)
def test_what_does_not_count_any_more(
    change: dict[str, Any], walks: Walks, again: Callable[..., Result], tmp_path: Path
) -> None:
    walks.cut_at = 1
    again()
    facts = told(tmp_path)
    facts["cases"][0] |= change
    (tmp_path / "r.json").write_text(json.dumps(facts))
    walks.cut_at = 99
    done = again()
    assert done.code == 0 and len(walks.made) == 3
    assert done.out.startswith("resuming: 0 of 2 walks are there, 1 others are made again\n")


def test_an_unknown_that_was_measured_counts(
    walks: Walks, again: Callable[..., Result], tmp_path: Path
) -> None:
    walks.verdict, walks.cut_at = "unknown", 1
    again()
    walks.verdict, walks.cut_at = "pass", 99
    assert again().code == 3
    assert len(walks.made) == 2


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"schema": 99}',
        '{"schema": 1, "trials": []}',
        '{"schema": 1, "cases": [{"lab": 1}]}',
        '{"schema": 1, "cases": [{"lab": "mtu", "number": 1, "verdict": "ok", "seconds": 1}]}',
        '{"schema": 1, "cases": [], "campaign": {"labs": "mtu", "repeat": 1}}',
        '{"schema": 1, "cases": [], "campaign": {"labs": ["mtu"]}}',
    ],
)
def test_another_file_stays_as_it_is(
    text: str, walks: Walks, again: Callable[..., Result], tmp_path: Path
) -> None:
    (tmp_path / "r.json").write_text(text)
    done = again()
    assert (done.code, done.out) == (2, "")
    first, second = done.err.splitlines()
    assert re.search(
        "r.json (is not a result of verify|has the version 99)", first
    ) and second.startswith("  next: less ")
    assert (tmp_path / "r.json").read_text() == text and not walks.made


@pytest.mark.parametrize("words", [["verify", "mtu"], ["verify", "gzip", "mtu", "--repeat", "2"]])
def test_a_part_of_another_campaign_is_not_thrown_away(
    words: list[str], walks: Walks, again: Callable[..., Result], faultlab: Run, tmp_path: Path
) -> None:
    walks.cut_at = 1
    again("--repeat", "3")
    before = (tmp_path / "r.json").read_text()
    done = faultlab(*words, "--json", str(tmp_path / "r.json"))
    assert done.code == 2 and "that was cut off and is not this one (2 labs x 3)" in done.err
    assert (tmp_path / "r.json").read_text() == before


def test_an_empty_file_is_none(walks: Walks, again: Callable[..., Result], tmp_path: Path) -> None:
    """As mktemp makes it."""
    (tmp_path / "r.json").touch()
    assert again().code == 0 and len(walks.made) == 2


def test_a_file_of_an_older_program_is_replaced(
    walks: Walks, again: Callable[..., Result], tmp_path: Path
) -> None:
    one = {"number": 1, "verdict": "pass", "seconds": 1.0, "tests": [TEST]}
    old = [{"lab": lab_id, **one} for lab_id in LABS]
    (tmp_path / "r.json").write_text(json.dumps({"schema": 1, "counts": {}, "cases": old}))
    assert again().out.startswith("afresh: ")
    assert len(walks.made) == 2


def test_a_link_and_a_device_are_written_to(walks: Walks, faultlab: Run, tmp_path: Path) -> None:
    link = tmp_path / "link.json"
    link.symlink_to(tmp_path / "there.json")
    assert faultlab("verify", "mtu", "--json", str(link)).code == 0
    assert link.is_symlink() and json.loads((tmp_path / "there.json").read_text())["cases"]
    assert faultlab("verify", "mtu", "--json", "/dev/null").code == 0
    assert len(walks.made) == 2
    assert sorted(file.name for file in tmp_path.glob("*.part")) == []


def test_a_kill_while_it_writes_leaves_the_old_file(
    walks: Walks, again: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    walks.cut_at = 2
    again("--repeat", "2")
    before = told(tmp_path)

    def killed(*_: object) -> None:
        raise SystemExit

    with monkeypatch.context() as now:
        now.setattr(Path, "replace", killed)
        again("--repeat", "2")
    assert told(tmp_path) == before
    walks.cut_at = 99
    assert again("--repeat", "2").out.startswith("resuming: 2 of 4 walks are there")


class Tasks(FakeEngine):
    """An engine that runs the walks itself; each second one has no result."""

    name = "kubernetes"

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.asked: list[Task] = []

    def batch(self, name: str) -> Tasks:
        self.names.append(name)
        return self

    def run(
        self, tasks: Sequence[Task], at_once: int, note: Callable[[str], None]
    ) -> Generator[TaskEnd]:
        assert at_once == 50
        note("2 on the cluster")
        self.asked += tasks
        for at, each in enumerate(tasks):
            _, lab, number, engine, *_ = each.words.split()
            case = Case(lab, int(number), "pass", 1.5, engine=engine)
            if at % 4 == 3:
                yield TaskEnd(each.words, b"half")
            elif at % 2:
                yield TaskEnd(each.words, problem="its pod failed: MemoryError")
            else:
                yield TaskEnd(each.words, task.pack(case))


def test_a_cluster_runs_the_walks_itself(
    walks: Walks, again: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same command gets the same batch, so that it can continue; one more walk too."""
    engine = Tasks()
    monkeypatch.setattr(Tasks, "one", engine)
    engines(monkeypatch, kubernetes=Tasks)
    how = "--engine", "kubernetes", "--jobs", "50"
    assert again("--repeat", "2", *how).code == 3
    assert [(c["number"], c["verdict"], c["reason"]) for c in told(tmp_path)["cases"]] == [
        (1, "pass", ""),
        (1, "unknown", "its pod failed: MemoryError."),
        (2, "pass", ""),
        (2, "unknown", "The result of its task cannot be read: not a gzip file."),
    ]
    assert [(each.words, each.alone) for each in engine.asked[:2]] == [
        ("verify.task mtu 1 kubernetes", False),
        ("verify.task gzip 1 kubernetes", True),
    ]
    assert not walks.made
    again("--repeat", "3", *how)
    assert len(engine.asked) == 6 and len({*engine.names}) == 1
