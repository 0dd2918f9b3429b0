"""Traffic: a lab's own load, one look of its check after the other, while something else looks."""

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from faultlab.core.errors import CannotRun


@contextmanager
def traffic(look: Callable[[], object], until: float = math.inf) -> Iterator[None]:
    """Look again and again until the body ends, or the time `until` (of time.monotonic) is there.

    The last look may still be going on then: it ends by itself, at the latest with its stack.
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
