"""Probe: the state of a daemon's container, as `docker inspect` shows it."""

import time

from faultlab.engine.contract import Machine, State


def settled(machine: Machine, seconds: float) -> State:
    """Return its state when it has ended, or after `seconds`: Docker learns of an end later."""
    deadline = time.monotonic() + seconds
    while (now := machine.state).running and time.monotonic() < deadline:
        time.sleep(0.1)
    return now
