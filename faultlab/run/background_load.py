"""Traffic: a lab's own load, as repeated looks of its check, while something else is measured."""

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from faultlab.core.errors import CannotRun


@contextmanager
def traffic(
    look: Callable[[], object], until: float = math.inf, *, wait: bool = False
) -> Iterator[None]:
    """Repeat a look until the body ends or `until` (of time.monotonic) has passed.

    The last look can still be running then. It ends by itself, or when its stack is removed.
    `wait`: wait for its end.
    """
    over = threading.Event()

    def loop() -> None:
        while not over.is_set() and time.monotonic() < until:
            try:
                look()
            except CannotRun:
                over.wait(1)

    thread = threading.Thread(target=loop, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
    if wait:
        thread.join()
