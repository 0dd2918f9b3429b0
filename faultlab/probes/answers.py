"""Probe: the service's responses to a check's asks. Source: curl(1), or a database's client."""

import random

from faultlab.engine.shell import Shell
from faultlab.lab.asks import FAILED, GRACE, Ask


def read(user: Shell, ask: Ask, seed: str, number: int = 0) -> dict[str, list[str]]:
    """Send an ask and return its responses under its name and the number of its set.

    `seed` and `number`, below SETS, choose the numbers in it.
    """
    dice = random.Random(f"{seed} {ask.named(number)}")
    numbers = [dice.randint(1, ask.most) for _ in range(ask.count)]
    out = user.run(ask.command(numbers), timeout=ask.seconds + GRACE + 5).out
    return {ask.named(number): out.split("\n")[:-1] or [FAILED]}
