"""Probe: how a daemon's container is doing, as `docker inspect` tells."""

import time

from faultlab.engine.contract import Machine, State


def settled(machine: Machine, seconds: float) -> State:
    """Its state when it has ended, or after so many seconds: Docker hears of an end a bit later."""
    deadline = time.monotonic() + seconds
    while (now := machine.state).running and time.monotonic() < deadline:
        time.sleep(0.1)
    return now
