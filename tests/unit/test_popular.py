"""After a refused check a learner reads which public answers are in place, and what they gave."""

from __future__ import annotations

import json

import pytest

from faultlab.core.defaults import JUDGED
from faultlab.core.errors import CannotRun
from faultlab.engine.shell import Done, Shell
from faultlab.lab import loader as labs
from faultlab.learn import popular
from faultlab.run import judge_error
from faultlab.run.judge_error import Seen, Tried
from tests.unit.conftest import Project

FILE = "labs/mtu/repairs.toml"
REPAIR = """\
[[repair]]
title    = "TCP probes for the MTU"
expected = "refuse"
kind     = "public"
why      = "Probing changes what web sends."
source   = "TCP MTU Path Discovery, example.org"
steps    = [{ at = "web", run = "probe" }]
when     = { at = "web", run = "probes" }
"""
FAILED = Seen("page: size", "0 bytes", "at least 100 bytes", False)
SHARE = Seen("right answers", "60 %", "exactly 100 %", False)
HELD = Seen("SYNs without an answer", "0", "at most 0", True)


class Machine(Shell):
    """Knows one command."""

    name = "web"

    def __init__(self, code: int) -> None:
        self.code = code

    def run(self, command: str, timeout: float = 30) -> Done:
        """Fail, or succeed, or do not answer."""
        if self.code < 0:
            raise CannotRun("It is gone.")
        return Done(command, self.code, "", "", 0.0)


def row(got: judge_error.Got, *findings: Seen) -> Tried:
    known = {"kind": "public", "expected": "refuse", "why": "", "findings": [*findings]}
    return Tried(lab="mtu", title="TCP probes for the MTU", got=got, **known)  # type: ignore[arg-type]


def recorded(project: Project, *rows: Tried) -> None:
    (project.root / "docs").mkdir(exist_ok=True)
    judge_error.write(rows, project.root / JUDGED)


SAID = "A public answer says this: TCP probes for the MTU."


@pytest.mark.parametrize(
    ("rows", "code", "wanted"),
    [
        ([row("refuse", HELD, FAILED)], 1, []),
        ([row("refuse", HELD, FAILED)], -1, []),
        ([row("accept", HELD)], 0, []),
        ([], 0, [f"{SAID} It is not the whole repair here."]),
        ([row("unknown")], 0, [f"{SAID} It is not the whole repair here."]),
        (
            [row("refuse", HELD, FAILED)],
            0,
            [f"{SAID} Alone it gave this here: page: size: 0 bytes, wanted at least 100 bytes."],
        ),
        (
            [row("refuse", HELD, FAILED, SHARE)],
            0,
            [f"{SAID} Alone it gave this here: right answers: 60 %, wanted exactly 100 %."],
        ),
    ],
)
def test_what_is_said(rows: list[Tried], code: int, wanted: list[str], project: Project) -> None:
    project.write(FILE, REPAIR)
    recorded(project, *rows)
    assert popular.sentences(labs.load("mtu"), {"web": Machine(code)}) == wanted


def test_several_sources(project: Project) -> None:
    project.write(FILE, REPAIR.replace("example.org", "example.org; Another one, example.com"))
    (said,) = popular.sentences(labs.load("mtu"), {"web": Machine(0)})
    assert said.startswith("Several public answers say this: ")


def test_a_secret_lab_says_nothing(project: Project) -> None:
    project.write(FILE, REPAIR)
    machines = {"web": Machine(0)}
    assert popular.sentences(labs.load("mtu"), machines)
    assert popular.sentences(labs.load("mtu").called("mystery"), machines) == []


def test_no_file_spoils_a_check(project: Project) -> None:
    project.write(FILE, "[[repair")
    assert popular.sentences(labs.load("mtu"), {"web": Machine(0)}) == []
    project.write(FILE, REPAIR)
    (project.root / "docs").mkdir()
    project.write(JUDGED, json.dumps({"schema": 1, "rows": [{"lab": 1}]}))
    assert popular.sentences(labs.load("mtu"), {"web": Machine(0)}) == []
