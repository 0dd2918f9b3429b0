"""The check of keepalive-race: a watching program that begins late says nothing about the shop."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from faultlab.core.errors import CannotRun
from faultlab.engine.shell import Done, Shell
from faultlab.lab import checks
from faultlab.lab import loader as labs

LOOK = checks.load(labs.load("keepalive-race")).look.__globals__  # the names of its check file
KEPT = [39000, 39001, 39002]


class Machine(Shell):
    """Prints what the programs of one look print; each watching takes the next start, in s."""

    name = "machine"

    def __init__(self, starts: list[float]) -> None:
        self.starts = starts

    def run(self, command: str, timeout: float = 30) -> Done:
        out = ""
        if "def kept" in command:
            start = self.starts.pop(0)
            out = json.dumps([(start, []), (start, KEPT), (start + 2, [])])
        elif "tills" in command:
            out = "100.0\n"
        elif command == LOOK["CLOSED"]:
            out = "".join(f"{port}\n" for port in KEPT)
        return Done(command, 0, out, "", 0.0)


class Stack:
    """A stack of which each machine is the same one."""

    def __init__(self, starts: list[float]) -> None:
        self.machine = Machine(starts)
        self.dice = random.Random(1)

    def user(self) -> Machine:
        return self.machine

    def sidecar(self, name: str) -> Machine:
        return self.machine


def watched(*starts: float) -> Any:
    return LOOK["watched"](Stack(list(starts)), 0)


def test_connections_that_the_shop_closes_first_are_counted() -> None:
    assert watched(99.0)[2] == len(KEPT)


def test_a_watching_that_begins_late_is_done_again() -> None:
    assert watched(103.0, 101.0, 99.0)[2] == len(KEPT)


def test_a_watching_that_is_always_late_is_no_verdict() -> None:
    with pytest.raises(CannotRun, match="watched too late"):
        watched(*[103.0] * LOOK["TRIES"])
