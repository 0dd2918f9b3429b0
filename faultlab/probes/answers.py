"""Probe: the service's responses to a check's asks. Source: curl(1), or a database's client."""

import random
from collections.abc import Sequence

from faultlab.engine.shell import Shell
from faultlab.lab.asks import FAILED, GRACE, Ask


def read(user: Shell, asks: Sequence[Ask], seed: str) -> dict[str, list[str]]:
    """Send each ask and return its responses by its name; `seed` chooses the numbers in them."""
    return {ask.name: _read(user, ask, random.Random(f"{seed} {ask.name}")) for ask in asks}


def _read(user: Shell, ask: Ask, dice: random.Random) -> list[str]:
    numbers = [dice.randint(1, ask.most) for _ in range(ask.count)]
    out = user.run(ask.command(numbers), timeout=ask.seconds + GRACE + 5).out
    return out.split("\n")[:-1] or [FAILED]
