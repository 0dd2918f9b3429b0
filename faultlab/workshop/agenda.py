"""Agenda: the surprises of a class: what is to come, what came, and how that went at each seat.

All of it follows from class.toml and the events of the journal. A surprise that has fired is in the
journal before anything happens, so it fires once, also after a restart of the server.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from faultlab.core.text import minutes
from faultlab.workshop.journal import Entry, Event
from faultlab.workshop.surprise import Surprise, Timed
from faultlab.workshop.timetable import Clock, Timetable

State = Literal["waiting", "fired", "called off"]


@dataclass
class Item:
    """One surprise. `id`: its name in the journal. `due`: by the clock of the class, if by hand.

    `turns`: of the seats at which it fired, from 1; `came`: how it went there, so far: an empty
    text where it is there, else why not.
    """

    id: str
    what: Surprise
    due: float = 0.0
    state: State = "waiting"
    at: float = 0.0  # when it fired, in seconds since 1970
    turns: dict[int, int] = field(default_factory=dict)
    came: dict[int, str] = field(default_factory=dict)

    @property
    def pending(self) -> list[int]:
        """Return the seats at which it fired, and of which the journal says no more."""
        if self.what.kind == "message" or self.state != "fired":
            return []
        return [number for number in self.turns if number not in self.came]


class Agenda:
    """The surprises of a class, those of class.toml first, and the clock by which they come.

    `clock`: runs while the class has a server and is not paused. `began`: what it showed when the
    class began, which is with its first block if it has blocks.
    """

    def __init__(self, events: Sequence[Timed], timetable: Timetable) -> None:
        self.items = {f"plan {n}": Item(f"plan {n}", its) for n, its in enumerate(events, 1)}
        self.timetable = timetable
        self.clock = Clock()
        self.began: float | None = None if timetable.blocks else 0.0
        self._paused = False

    def apply(self, event: Entry) -> None:
        """Update it with one event."""
        self._keep_time(event)
        match event["event"]:
            case Event.SET:
                what = Surprise.model_validate(event["surprise"])
                self.items[event["id"]] = Item(event["id"], what, event["due"])
            case Event.CALLED_OFF:
                self.items[event["id"]].state = "called off"
            case Event.FIRED:
                what = Surprise.model_validate(event["surprise"])
                item = self.items.setdefault(event["id"], Item(event["id"], what))
                item.state, item.at = "fired", float(event["t"])
                item.turns = dict(zip(event["seats"], event["turns"], strict=True))
            case Event.JOINED | Event.NOT_JOINED:
                self.items[event["id"]].came[event["seat"]] = event.get("why", "")

    def _keep_time(self, event: Entry) -> None:
        now = float(event["t"])
        match event["event"]:
            case Event.OPENED:
                self.clock.skip(max(0.0, now - event.get("alive", now)))
                if not self._paused:
                    self.clock.go_on(now)
            case Event.BLOCK:
                self.began = self.clock.seconds(now) if self.began is None else self.began
            case Event.PAUSED | Event.ENDED:
                self._paused = True
                self.clock.stop(now)
            case Event.RESUMED:
                self._paused = False
                self.clock.go_on(now)

    def next_id(self) -> str:
        """Return the name of a new one."""
        return f"hand {len(self.items) + 1}"

    def due(self, now: float) -> list[Item]:
        """Return those whose time has come. None comes while the class is paused."""
        waiting = [item for item in self.items.values() if item.state == "waiting"]
        lefts = [] if self._paused else [(item, self.left(item, now)) for item in waiting]
        return [item for item, its in lefts if its is not None and its <= 0]

    def left(self, item: Item, now: float) -> float | None:
        """Return the seconds until a surprise comes; None if its clock does not run yet, or ever.

        One of a block comes in that block only.
        """
        if not isinstance(item.what, Timed):
            return item.due - self.clock.seconds(now)
        if item.what.block is not None:
            of_block = item.what.block == self.timetable.at
            return item.what.seconds - self.timetable.seconds(now) if of_block else None
        if self.began is None or (self.clock.since is None and not self.clock.ran):
            return None
        return item.what.seconds - (self.clock.seconds(now) - self.began)

    def when(self, item: Item, now: float) -> str:
        """Return when a surprise comes, or came, in words."""
        its = self.left(item, now)
        if item.state != "waiting" or its is not None:
            later = f"in {minutes(max(1, round((its or 0) / 60)))}"
            return later if item.state == "waiting" else item.state
        timed = item.what
        assert isinstance(timed, Timed)
        if timed.block is None:
            return f"{timed.at} after the class began"
        over = timed.block < self.timetable.at
        return "its block is over" if over else f"{timed.at} into block {timed.block}"
