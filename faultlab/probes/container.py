"""Probe: how a daemon's container is doing, as `docker inspect` tells."""

from __future__ import annotations

import time
from dataclasses import dataclass

from faultlab.engine.contract import Machine


@dataclass(frozen=True)
class State:
    """Running or not, the exit code, and whether the kernel's OOM killer ended it."""

    running: bool
    exit_code: int
    oom_killed: bool
    restarts: int


def state(machine: Machine) -> State:
    """Read the state now."""
    facts = machine.state
    return State(
        running=facts.running,
        exit_code=facts.exit_code,
        oom_killed=facts.oom_killed,
        restarts=facts.restarts,
    )


def settled(machine: Machine, seconds: float) -> State:
    """Its state when it has ended, or after so many seconds: Docker hears of an end a bit later."""
    deadline = time.monotonic() + seconds
    while (now := state(machine)).running and time.monotonic() < deadline:
        time.sleep(0.1)
    return now
