"""Late: the look a few minutes after a repair, which tells whether it lasts.

Nothing is locked until then, so everybody can work on, in this stack too.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from faultlab.core.text import minutes
from faultlab.engine.contract import Say
from faultlab.run.phase import CHECK, LATER

MINUTES = 3.0  # unless another number is given
MOST = 60.0
_STEP = 5.0  # seconds between two signs of life


def wait(after: float, note: Say, pause: Callable[[float], None]) -> None:
    """Wait for so many minutes; `note` hears how long it still takes. `pause`: of the engine."""
    left = 60 * after
    while left > 0:
        note(f"looked at again in {int(left) // 60}:{int(left) % 60:02}")
        pause(min(left, _STEP))
        left -= _STEP


def announced(after: float) -> str:
    """Return the sentence for a repair that is not the verdict yet."""
    return f"repaired; looked at again in {minutes(after)}"


def repaired(events: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether the last verdict that counts was yes.

    A check that is looked at again later is no verdict. A late look overrules all before it.
    """
    found = False
    for event in events:
        if event["event"] == LATER:
            found = event["fixed"]
        elif event["event"] == CHECK and event.get("fixed") and not event.get(LATER):
            found = True
    return found
