"""Stacks for a test: on the engine that a lab needs, under a name of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from faultlab.core import lock
from faultlab.core.errors import CannotRun
from faultlab.core.naming import stack_name
from faultlab.engine.contract import Engine, Machine
from faultlab.engine.docker.container import DockerMachine
from faultlab.lab import loader as labs
from faultlab.lab.model import Lab
from faultlab.run import placement
from faultlab.run.run import Run
from faultlab.run.stack_in_phase import stack_in_phase
from tests.live.commandline import finish, spawn


def engine_for(lab: Lab) -> Engine:
    """Return the engine that can run this lab; skip the test where the VM it needs is not up."""
    try:
        return placement.at_hand(lab)
    except CannotRun as problem:
        pytest.skip(problem.message)


def boot_the_vm() -> None:
    """Boot the lab VM, or wait until another program has done so."""
    code, said = finish(spawn("vm", "up"))
    assert code == 0, said


def container(machine: Machine) -> Any:
    """Return a machine or daemon as Docker's SDK has it."""
    assert isinstance(machine, DockerMachine)
    return machine.container


@contextmanager
def untouched(lab_id: str, name: str, collects: bool = False) -> Iterator[Run]:
    """Give a run of a lab that is up under a name of its own, without its fault; take it down.

    `collects`: record its counters.
    """
    lab, stack = labs.load(lab_id), stack_name(name)
    with (
        lock.hold(stack, name),
        stack_in_phase(engine_for(lab), lab, stack, collects=collects) as run,
    ):
        yield run


def needs_vm(lab: Lab) -> bool:
    """Return whether a lab may need the VM, which holds one of these at a time.

    All that the labs require is in Debian's kernel; many containers' hosts have no netem.
    """
    return lab.scope == "kernel" or "netem" in lab.requires
