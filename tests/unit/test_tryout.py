"""`faultlab try`: what a tool printed and how it is read; on a fake engine, without Docker."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from faultlab.engine.contract import Process, Program
from faultlab.run import run as runs
from tests.unit.conftest import Project, Run
from tests.unit.fake import FakeEngine, FakeProcess, only_fake

TOOL = """\
title   = "Drops"
at      = ["client", "web"]
window  = 5
output  = "lines"
command = "COMMAND"

[[alarm]]
match = "refused"

[[alarm]]
match  = "drops"
causes = ["mtu"]
"""


class Speaking(FakeProcess):
    """A program that prints on both streams and ends with a code."""

    def __init__(self, out: bytes, err: bytes, code: int) -> None:
        super().__init__(out)
        self.output = iter([(out, err)])
        self.code = code

    def wait(self, seconds: float) -> int:
        """Return its code."""
        return self.code


SAYS = {
    "loud": (b"reading\n7 drops\n", b"careful\n", 0),
    "quiet": (b"reading\n", b"", 0),
    "mute": (b"", b"", 0),
    "crashes": (b"", b"no such file\n", 1),
}


@pytest.fixture
def mine(project: Project, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of a tool, on an engine where its command decides what it prints."""

    usual = FakeEngine.process

    @contextmanager
    def process(engine: FakeEngine, program: Program) -> Iterator[Process]:
        if (command := program.command[-1]) in SAYS:
            yield Speaking(*SAYS[command])
        else:  # ours, beside a stack that was started
            with usual(engine, program) as its:
                yield its

    only_fake(monkeypatch)
    monkeypatch.setattr(FakeEngine, "process", process)
    monkeypatch.setattr(runs, "_TAKES_EFFECT", 0.0)
    folder = project.root / "tools/mine"
    folder.mkdir(parents=True)
    return folder


def tried(mine: Path, faultlab: Run, command: str, *words: str) -> tuple[int, str, str]:
    (mine / "tool.toml").write_text(TOOL.replace("COMMAND", command))
    done = faultlab("try", "mine", "mtu", "--engine", "fake", *words)
    return done.code, done.out, done.err


def test_what_it_printed_and_how_that_is_read(mine: Path, faultlab: Run) -> None:
    code, out, _ = tried(mine, faultlab, "loud")
    assert code == 0
    lines = [line.split(maxsplit=3) for line in out.splitlines() if " web " in line]
    assert [line[2:] for line in lines] == [
        ["out", "reading"],
        ["out", "7 drops  <- [[alarm]] 2: mtu"],
        ["err", "careful"],
        ["end", "exit code 0"],
    ]
    assert re.search(r"Read as an alarm after \S+ s: mtu, at (client|web)[.]", out)
    assert out.splitlines()[-1] == "The fault is mtu at web: caught and named."


@pytest.mark.parametrize(
    ("command", "phase", "says"),
    [
        ("quiet", "faulty", "The fault is mtu at web: missed."),
        ("quiet", "healthy", "Nothing is wrong here."),
        ("loud", "fixed", "Nothing is wrong here, so this is a false alarm."),
    ],
)
def test_right_and_wrong(mine: Path, faultlab: Run, command: str, phase: str, says: str) -> None:
    code, out, _ = tried(mine, faultlab, command, "--phase", phase)
    assert (code, out.splitlines()[-1]) == (0, says)


def test_a_lab_that_is_up_is_looked_at_as_it_is(mine: Path, faultlab: Run) -> None:
    """On the learner's stack, which stays; a phase that is asked for has a fresh one."""
    assert faultlab("start", "mtu", "--engine", "fake").code == 0
    (there,) = FakeEngine.reach().stacks_up
    _, out, _ = tried(mine, faultlab, "loud")
    assert "mtu as it is now" in out
    assert out.splitlines()[-1] == "The fault is mtu at web: caught and named."
    told = json.loads(tried(mine, faultlab, "quiet", "--json")[1])
    assert (told["phase"], told["caught"], told["named"]) == ("now", False, False)
    assert [*FakeEngine.reach().stacks_up] == [there]
    fresh = tried(mine, faultlab, "loud", "--phase", "healthy")[1].splitlines()[-1]
    assert fresh == "Nothing is wrong here, so this is a false alarm."
    assert faultlab("fix", "mtu").code == 0
    said = tried(mine, faultlab, "loud")[1].splitlines()[-1]
    assert said == "The users are served now, so this is a false alarm."
    told = json.loads(tried(mine, faultlab, "quiet", "--json")[1])
    assert (told["phase"], told["caught"], told["named"]) == ("now", None, None)


def test_a_tool_that_prints_nothing(mine: Path, faultlab: Run) -> None:
    assert "It printed nothing." in tried(mine, faultlab, "mute")[1]


def test_a_crash_is_shown_with_its_reason(mine: Path, faultlab: Run) -> None:
    code, out, err = tried(mine, faultlab, "crashes")
    assert code == 3 and "err no such file" in out
    first, second = err.splitlines()
    assert first.startswith("faultlab: mine has given no diagnosis: it ended with exit code 1 on ")
    assert second.startswith("  next: edit tools/mine/tool.toml")


@pytest.mark.parametrize(("command", "code"), [("loud", 0), ("crashes", 3)])
def test_as_json(mine: Path, project: Project, faultlab: Run, command: str, code: int) -> None:
    """Also without a diagnosis; and the output is kept in the folder of the run."""
    got, out, _ = tried(mine, faultlab, command, "--json")
    told = json.loads(out)
    told = told.get("result", told)
    assert got == code and (told["diagnosis"] is None) is bool(code)
    kept = (project.root / "runs" / told["run"] / "mine.log").read_text().splitlines()
    assert len(kept) == len(told["lines"]) and kept[0].split()[2] in ("out", "err")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["none-such", "mtu"], "There is no tool called 'none-such'; there are "),
        (["mine", "mut"], "There is no lab called 'mut'; did you mean mtu?"),
        (["mine", "mtu", "--phase", "ill"], "Invalid value for '--phase': 'ill' is not one of "),
        (["mine"], "Missing argument 'LAB'."),
        (["far", "mtu"], "far looks from db, and mtu has client, web."),
    ],
)
def test_bad_input(mine: Path, faultlab: Run, words: list[str], says: str) -> None:
    far = mine.parent / "far"
    far.mkdir()
    (mine / "tool.toml").write_text(TOOL)
    (far / "tool.toml").write_text(TOOL.replace('"client", "web"', '"db"'))
    done = faultlab("try", *words)
    assert done.code == 2 and done.err.startswith(f"faultlab: {says}"), done.err
