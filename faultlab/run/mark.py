"""Mark: what fell at a moment: the fault, a check, the fix, a daemon that was restarted."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from faultlab.core import paths
from faultlab.run.phase import CHECK, LATER
from faultlab.run.record import FILE, GAVE_UP, Record

_APART = 3.0  # seconds between two starts of a daemon, at least; Docker says whole ones
_SAID = {"inject": "fault", "fix": "fix", GAVE_UP: "given up"}


@dataclass(frozen=True)
class Mark:
    """Something that fell, in a few words. `at`: in seconds since 1970."""

    at: float
    what: str

    @property
    def letter(self) -> str:
        """Return the letter that has its place in a terminal: F, C, R, or that of another word."""
        return self.what.partition(" ")[2 if self.what.endswith("restarted") else 0][:1].upper()


def marks(record: Record) -> list[Mark]:
    """Return what a record says of the fault, the checks and the fix."""
    return [
        Mark(round(record.began + event["t"], 3), what)
        for event in record.events
        if (what := _what(event))
    ]


def _what(event: Mapping[str, Any]) -> str:
    kind = event["event"]
    if kind in (CHECK, LATER):
        return f"check: {'repaired' if event.get('fixed') else 'not yet'}"
    return _SAID.get(kind, "")


@dataclass
class Restarts:
    """Which machines and daemons of a stack were started again while somebody watched."""

    _began: dict[str, float] = field(default_factory=dict)

    def seen(self, began: Iterable[tuple[str, float]]) -> list[Mark]:
        """Return the restarts since the last time.

        `began`: when each one started, in seconds since 1970; 0 if that is long ago.
        """
        found = []
        for name, at in began:
            if name in self._began and at > self._began[name] + _APART:
                found.append(Mark(at, f"{name} restarted"))
            self._began[name] = max(at, self._began.get(name, 0.0))
        return found


class Marks:
    """The marks of a run, read again only after its record has changed."""

    def __init__(self, run: str) -> None:
        self.run = run
        self._file = paths.runs() / run / FILE
        self._of = -1
        self._found: list[Mark] = []

    def now(self) -> list[Mark]:
        """Return what has fallen so far; what was known before if the record cannot be read."""
        with suppress(OSError):
            if (of := self._file.stat().st_mtime_ns) != self._of:
                record = Record.open(self.run)
                self._of, self._found = of, marks(record) if record else self._found
        return self._found
