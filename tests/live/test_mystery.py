"""Mystery: somebody who is not told which lab it is finds out, repairs it, and is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from faultlab.core.naming import stack_name
from faultlab.engine.docker.local import LocalEngine
from faultlab.engine.stack import Stack
from faultlab.lab import loader as labs
from faultlab.learn import mystery
from faultlab.score import trial
from tests.live.commandline import finish, spawn
from tests.live.stacks import container
from tests.live.sweep import sweeper, swept

pytestmark = [pytest.mark.rotates(together=True, minutes=0.9), pytest.mark.beside]
LAB = "mtu"
RIGHT = ("--component", "web", "--resource", "network", "--cause", "mtu")


@pytest.fixture
def up() -> Iterator[str]:
    """A mystery that is mtu; gives what the command said."""
    found = mystery.candidates("web", 2)
    seed = next(s for s in range(1000) if next(mystery.order(found, s)).alias == LAB)
    code, said = finish(spawn("mystery", "--seed", str(seed), "--tier", "web", "--level", "2"))
    try:
        assert code == 0, said
        yield said
    finally:
        finish(spawn("down", "mystery"))
        assert LocalEngine().leftovers(stack_name("mystery")) == []


def test_from_the_ticket_to_the_debrief(up: str, tmp_path: Path) -> None:
    """Nothing says which lab it is before the debrief, which opens after an answer and a repair."""
    said = [up]

    def run(*words: str) -> int:
        code, told = finish(spawn(*words))
        said.append(told)
        return code

    assert run("status") == 0
    assert run("mystery") == 3  # one is up
    assert run("hint", "mystery") == 0
    assert run("fix", "mystery") == 3  # it would say what it is
    assert run("check", "mystery") == 1
    assert run("debrief", "mystery") == 3
    assert run("diagnose", *RIGHT) == 0
    assert run("debrief", "mystery") == 3  # not repaired
    stack = Stack(LocalEngine(), stack_name("mystery"))
    sweep = sweeper(tmp_path, LAB)
    assert swept(trial.examine(stack, labs.load(LAB), [sweep])[sweep.id]) == []
    labels = json.dumps([container(each).attrs["Config"]["Labels"] for each in stack.values()])
    stack["web"].must("ip link set dev eth0 mtu 1500")
    assert run("check", "mystery", "--later", "0.05") == 0
    before = "\n".join(said).replace(" ".join(RIGHT), "")
    assert LAB not in before.split() and f"-{LAB}" not in before, before
    assert f"-{LAB}" not in labels
    assert run("debrief", "mystery") == 0
    assert f"It was {LAB}" in said[-1]
    assert "39 of 40 points: repaired, hints for 1, 1 answer," in said[-1]


def test_who_gives_up_is_told(up: str) -> None:
    """Then the fix may say it, too."""
    code, said = finish(spawn("debrief", "mystery", "--give-up", "--json"))
    assert code == 0, said
    told = json.loads(said)
    assert (told["lab"], told["points"], told["gave_up"]) == (LAB, 0, True)
    code, said = finish(spawn("fix", "mystery"))
    assert code == 0, said
    assert "ip link set dev eth0 mtu 1500" in said


def test_without_one_every_command_says_what_to_type() -> None:
    """No traceback where none is up."""
    for words in (("check", "mystery"), ("hint", "mystery"), ("diagnose", *RIGHT)):
        code, said = finish(spawn(*words))
        assert code == 3
        assert "No mystery is up." in said and "make mystery" in said


def test_start_blind_says_what_is_up(up: str) -> None:
    """The same lab goes on as it is; another one does not take its place."""
    code, said = finish(spawn("start", LAB, "--blind"))
    assert code == 0 and "mystery is up already" in said
    code, said = finish(spawn("start", "iptables-drop", "--blind"))
    assert code == 3 and "Another mystery is up already." in said
