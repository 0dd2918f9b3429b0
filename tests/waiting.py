"""Waiting: until something holds that takes its time."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(holds: Callable[[], bool], seconds: float = 10, shown: object = None) -> None:
    """Wait until something holds; `shown` says what there is instead."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, shown
        time.sleep(0.02)
