"""Trajectory: all that an agent has asked in a session and all that it was answered, in a file.

`run.json` has the commands, and how much each printed. This file also has what they printed.
"""

import json
import threading
import time
from pathlib import Path
from typing import Any

from faultlab.core import paths

FILE = "trajectory.jsonl"  # in the folder of the run
_MOST = 64 << 20  # bytes; an agent can print a MiB with each of 10,000 commands


class Trajectory:
    """A line of JSON for each request, with the seconds since the session began."""

    def __init__(self, folder: Path, most: int = _MOST) -> None:
        self.file = folder / FILE
        self._began = time.monotonic()
        self._left = most
        self._turn = threading.Lock()

    def add(self, did: str, **facts: Any) -> None:
        """Write what was done. When the file is full, its last line says so."""
        seconds = round(time.monotonic() - self._began, 3)
        line = json.dumps({"seconds": seconds, "did": did, **facts})
        with self._turn:
            if self._left <= 0:
                return
            self._left -= len(line)
            if self._left <= 0:
                line = json.dumps({"seconds": seconds, "did": "no more is kept"})
            paths.add_line(self.file, line)
