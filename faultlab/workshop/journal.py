"""Journal: `events.jsonl`, the events of a class, one per line, on disk before they count.

If the server is killed, no event that a client has seen is lost. A truncated line was never shown
to any client, so it is dropped.
"""

import json
import os
import time
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Any

from faultlab.core import paths
from faultlab.core.errors import CannotRun

Entry = dict[str, Any]  # t: seconds since 1970; event: an Event; seat: from 1, if it concerns one


class Event(StrEnum):
    """The kinds of events in a class, by their names in the journal."""

    PLANNED = "planned"
    OPENED = "opened"
    BLOCK = "block opened"
    PAUSED = "paused"
    RESUMED = "resumed"
    ENDED = "ended"
    STARTING = "starting"
    READY = "ready"
    FAILED = "failed"
    CHECKED = "checked"
    LOOKED = "looked again"
    HINTED = "hinted"
    NO_HINT = "no hint"
    ANSWERED = "answered"
    GAVE_UP = "gave up"
    TIME_OVER = "time over"
    DISK_FULL = "disk full"
    MOVED_ON = "moved on"
    CHOSEN = "chosen"
    REMOVED = "removed"
    REFUSED = "refused"
    NEW_LINK = "new link"
    SET = "set for later"
    CALLED_OFF = "called off"
    FIRED = "fired"
    JOINED = "joined"
    NOT_JOINED = "did not join"
    HAND = "hand"


_TIMED = (Event.PLANNED, Event.OPENED)  # the events that say when the machine was booted
_BOOT = Path("/proc/sys/kernel/random/boot_id")


def _boot() -> tuple[str, float]:
    """Return the boot of this machine, and the seconds since then."""
    with suppress(OSError):
        return _BOOT.read_text().strip(), round(time.clock_gettime(time.CLOCK_BOOTTIME), 3)
    return "", 0.0


class Journal:
    """The events of one class, oldest first."""

    def __init__(self, file: Path, *, mend: bool = False) -> None:
        """Read the file. Raises CannotRun for a line that is not an event.

        `mend`: remove a truncated last line; only for the process that holds the class.
        """
        self.file = file
        self.events: list[Entry] = []
        whole = file.read_bytes() if file.exists() else b""
        kept = whole[: whole.rfind(b"\n") + 1]
        for number, line in enumerate(kept.splitlines(), 1):
            try:
                event = json.loads(line)
                if "what" in event:  # the name of the key in an older journal
                    event["event"] = event.pop("what")
                assert isinstance(event["t"], int | float) and isinstance(event["event"], str)
            except (ValueError, KeyError, TypeError, AssertionError) as error:
                # The first line is the plan, and without it there is no class.
                without = f"mv {file.parent} {file.parent}.damaged"
                raise CannotRun(
                    f"{file.name} is damaged in line {number}.",
                    without if number == 1 else f"sed -i {number}d {file}",
                ) from error
            self.events.append(event)
        # A changed clock or a closed lid must not end a class, so from here on we count seconds.
        self._began = self._now()
        self._since = time.monotonic()
        if mend and len(kept) != len(whole):
            os.truncate(file, len(kept))

    def _now(self) -> float:
        """Return what time it is as a server begins.

        The clock can have been set since the last server began. Since a boot the kernel counts
        seconds as well, which is not set.
        """
        boot, up = _boot()
        found = time.time()
        for event in self.events:
            if event.get("boot") == boot:
                found = float(event["t"]) + up - float(event["up"])
        return max([found, *(float(event["t"]) for event in self.events[-1:])])

    def now(self) -> float:
        """Return the time of the class, in seconds since 1970."""
        return self._began + time.monotonic() - self._since

    def add(self, event: Event, seat: int | None = None, **facts: Any) -> Entry:
        """Write an event, and only then let it count. Raises CannotRun, as on a full disk.

        `facts`: they can have a `t`, if it happened earlier.
        """
        entry: Entry = {"t": round(self.now(), 3), "event": event}
        entry |= {"seat": seat} if seat is not None else {}
        if event in _TIMED:
            entry["boot"], entry["up"] = _boot()
        entry |= facts
        paths.add_line(self.file, json.dumps(entry))
        self.events.append(entry)
        return entry
