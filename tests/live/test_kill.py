"""Kill: a command that is killed at a random moment leaves nothing that a sweep does not find."""

from __future__ import annotations

import os
import random
import time

import pytest

from faultlab.engine.docker.local import LocalEngine
from tests.live.commandline import finish, kill_9, spawn
from tests.live.host import differences, snapshot

pytestmark = [
    pytest.mark.rotates(minutes=0.1),
    pytest.mark.usefixtures("nothing_up"),
    pytest.mark.alone,
]
KILLS = int(os.environ.get("FAULTLAB_KILLS", "10"))
SEED = int(os.environ["FAULTLAB_SEED"])  # conftest.py
LAB = "mtu"
# How long each command runs if it is not killed, in seconds, with room above.
LENGTHS = {"start": 7.0, "reset": 7.0, "verify": 25.0, "fix": 1.0, "down": 1.0}


@pytest.mark.parametrize("number", range(KILLS))
def test_kill_9(number: int) -> None:
    """Killed at a random moment; a sweep removes all that is ours and touches nothing else."""
    dice = random.Random(SEED + number)
    verb = dice.choice(sorted(LENGTHS))
    before = snapshot()
    if verb in ("down", "fix"):
        assert finish(spawn("start", LAB))[0] == 0
    process = spawn(verb, LAB)
    moment = dice.uniform(0, LENGTHS[verb])
    time.sleep(moment)
    kill_9(process)
    code, said = finish(spawn("sweep"))
    where = f"seed {SEED + number}: {verb} killed after {moment:.2f} s"
    assert code == 0, f"{where}: {said}"
    assert LocalEngine().stacks() == [], where
    assert differences(before, snapshot()) == [], where
