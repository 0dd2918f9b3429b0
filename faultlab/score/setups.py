"""Setups: the stacks that tools look at, each in one phase, and the floors beneath them.

A floor is a look at a stack on which nothing can be wrong. On the empty host there are machines and
no daemons. The idle stack has daemons and no users.
"""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from faultlab.core import lock, paths
from faultlab.core.naming import stack_name
from faultlab.engine.contract import Engine
from faultlab.engine.stack import Stack
from faultlab.lab import collection
from faultlab.lab import loader as labs
from faultlab.lab.model import Lab
from faultlab.run import digest
from faultlab.run.phase import PHASES
from faultlab.run.run import Run
from faultlab.run.stack_in_phase import stack_in_phase
from faultlab.score.results import Trial
from faultlab.score.tool import Tool
from faultlab.score.trial import Outcome

EMPTY, IDLE = "empty", "idle"
FLOORS = (EMPTY, IDLE)
STACK = "exam"  # for every lab, because a tool can read the names of containers
_KEPT = 2000  # lines that a tool has printed
_SETTLES = 10.0  # seconds after which a stack that has just started is idle


@dataclass(frozen=True)
class Setup:
    """One stack in one phase, for the n-th time."""

    lab: Lab
    phase: str
    number: int

    @property
    def text(self) -> str:
        """Return its lab, phase and number."""
        return f"{self.lab.id} {self.phase} {self.number}"


def order(chosen: Sequence[Lab], repeat: int, seed: int, floors: bool = False) -> list[Setup]:
    """Return all looks: one whole repeat after the other, each in a random order.

    `floors`: each repeat also has a look at each floor.
    """
    chance, control = random.Random(seed), collection.ours().control
    found: list[Setup] = []
    for number in range(1, repeat + 1):
        turn = [Setup(lab, phase, number) for lab in chosen for phase in PHASES]
        turn += [named(control, floor, number) for floor in FLOORS] if floors else []
        chance.shuffle(turn)
        found += turn
    return found


def named(lab_id: str, phase: str, number: int) -> Setup:
    """Return the look with this lab, phase and number."""
    return Setup(_whole() if phase in FLOORS else labs.load(lab_id), phase, number)


def made_in(look: Setup, tool: Tool, outcome: Outcome, **facts: Any) -> Trial:
    """Return the trial of a tool in a look; `facts`: the other fields of a trial.

    What the tool has printed is kept in the folder of the run, also if it is no diagnosis.
    """
    its = dict(vars(outcome))
    printed, folder = its.pop("printed"), paths.runs() / facts.get("run", "")
    if printed and facts.get("run") and folder.is_dir():
        lines = [said.text + "\n" for said in printed[:_KEPT]]
        (folder / f"{tool.id}.log").write_text("".join(lines))
    return Trial(
        tool=tool.id,
        lab=look.lab.id,
        phase=look.phase,
        number=look.number,
        tool_digest=tool.digest,
        lab_digest=digest.fault(look.lab),
        **its,
        **facts,
    )


def _whole() -> Lab:
    """Return the control with all daemons of the stack, so that each tool has a place."""
    control = labs.load(collection.ours().control)
    return control.model_copy(update={"daemons": [*control.services.daemons]})


@contextmanager
def on_show(engine: Engine, lab: Lab, phase: str) -> Iterator[Run]:
    """Yield a fresh stack in this phase, proven, without anything that names the lab.

    A floor is not proven, because that would make load. Raises SaidNo or CannotRun if the phase
    cannot be proven.
    """
    name = stack_name(STACK)
    proven = "" if phase in FLOORS else phase
    with (
        lock.hold(name, "score"),
        stack_in_phase(
            engine, lab.called(STACK, examined=True), name, proven, collects=False
        ) as run,
    ):
        if phase == EMPTY:
            _end_daemons(run)
        if phase in FLOORS:
            engine.pause(_SETTLES)
        yield run


def _end_daemons(run: Run) -> None:
    """End the first process of each daemon's container, and so the container, and forget it."""
    pids = " ".join(run.stack[name].pid for name in run.lab.daemons)
    with run.engine.sidecar(run.stack.name, 60, whole=True) as helper:
        helper.must(f"kill -9 {pids}")
    run.stack = _Bare(run.engine, run.stack.name)


class _Bare(Stack):
    """The machines of a stack without its daemons."""

    def __init__(self, engine: Engine, name: str) -> None:
        super().__init__(engine, name)
        self._all = {machine.name: machine for machine in self.machines}
