"""Journal: what happened in a shift, one line of JSON each, from which its report is made.

The shift and the verbs in other terminals append to it. A line is written at once and whole.
"""

from __future__ import annotations

import json
import time
from enum import StrEnum
from pathlib import Path
from typing import Any

from faultlab.core import paths
from faultlab.core.errors import BadInput

FILE = "shift.jsonl"


class Event(StrEnum):
    """The kinds of lines."""

    BEGAN = "began"  # seed, seconds, plan
    CAME = "came"  # number, fault
    FELT = "felt"  # number, fault: users meet it, and the one on call is paged
    CLEAR = "clear"  # number, fault: users do not meet it any more, after two looks
    WENT = "went"  # number, fault: by itself
    VISITED = "visited"  # visits, lost
    LOOKED = "looked"  # machine: a shell was opened
    ANSWERED = "answered"  # component, resource, cause
    AMISS = "amiss"  # text: what could not be done or measured
    ENDED = "ended"


class Journal:
    """The journal in the folder of a run."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / FILE

    def add(self, event: Event, **facts: Any) -> None:
        """Append an event with the time of now. Raises CannotRun if it cannot be written."""
        row = {"t": round(time.time(), 3), "event": str(event), **facts}
        paths.add_line(self._file, json.dumps(row, ensure_ascii=False))

    def events(self) -> list[dict[str, Any]]:
        """Return what happened so far, without a last line that was cut off. Raises BadInput."""
        try:
            lines = self._file.read_text().splitlines()
        except OSError as error:
            raise BadInput(f"There is no shift in {self._file.parent}.", "faultlab runs") from error
        found = []
        for line in lines:
            try:
                found.append(json.loads(line))
            except ValueError:
                if line is not lines[-1]:
                    raise BadInput(f"{self._file} is damaged.", f"less {self._file}") from None
        return found
