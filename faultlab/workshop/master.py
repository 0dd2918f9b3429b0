"""Master: what a trainer does in a running class: surprises, raised hands, hints and lines to all.

A surprise is written into the journal before it happens. One that was interrupted goes on when the
server is back: what has joined a stack is not put in twice.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import Any

from faultlab.core.errors import BadInput, CannotRun, Problem
from faultlab.lab import decoys
from faultlab.lab import loader as labs
from faultlab.lab.collection import Collection
from faultlab.learn import hints
from faultlab.run import harmless, joining
from faultlab.workshop.agenda import Item
from faultlab.workshop.journal import Event
from faultlab.workshop.roster import Seat
from faultlab.workshop.session import Session, in_one_line
from faultlab.workshop.surprise import Surprise

LATEST = 24 * 60  # minutes from now at which a surprise by hand can come
_DOING = "the machine is busy for a moment"  # so that no page tells what comes
_WORKING = ("red", "amber", "green")


class Master:
    """The trainer's tools of one class. All of it runs in the session's event loop."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.roster = session.roster
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self) -> None:
        """Go on with what was interrupted."""
        for item in self.roster.agenda.items.values():
            for number in item.pending:
                self._later(item, self.roster.seat(number))

    async def leave(self) -> None:
        """Stop what is in progress; `begin` of the next server goes on with it."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def tick(self, now: float) -> None:
        """Fire what is due."""
        for item in self.roster.agenda.due(now):
            self._fire(item.id, item.what, self._seats(item.what))

    def surprise(self, what: Surprise, minutes: float = 0) -> None:
        """Let a surprise happen now, or so many minutes later.

        Raises BadInput with the reason if it can come at none of its seats, CannotRun at the end.
        """
        if self.roster.ended:
            raise CannotRun("The class has ended.")
        if not 0 <= minutes <= LATEST:
            raise BadInput(f"A surprise comes within {LATEST} minutes.")
        seats, agenda = self._seats(what), self.roster.agenda
        refused = [
            self._never(seat, what) if minutes else self.refusal(seat, what) for seat in seats
        ]
        if seats and all(refused):
            raise BadInput(f"Not at {seats[0].name}: {refused[0]}.")
        if minutes:
            due = agenda.clock.seconds(self.session.journal.now()) + 60 * minutes
            facts = what.model_dump(exclude_defaults=True)
            self.session.note(Event.SET, id=agenda.next_id(), surprise=facts, due=round(due, 3))
        else:
            self._fire(agenda.next_id(), what, seats)

    def call_off(self, name: Any) -> None:
        """Let a surprise not happen. Raises BadInput for one that does not wait."""
        item = self.roster.agenda.items.get(name) if isinstance(name, str) else None
        if item is None or item.state != "waiting":
            raise BadInput("This surprise does not wait any more.")
        self.session.note(Event.CALLED_OFF, id=item.id)

    def hand(self, seat: Seat, up: Any) -> None:
        """Raise the hand of a seat, or lower it. Raises BadInput, CannotRun at the end."""
        if not isinstance(up, bool):
            raise BadInput("Expected up as true or false.")
        if self.roster.ended:
            raise CannotRun("The class has ended.")
        if up != (seat.hand is not None):
            self.session.note(Event.HAND, seat.number, up=up)

    def hint(self, seat: Seat, number: Any) -> None:
        """Send a prepared hint to a seat, which costs it nothing. Raises BadInput."""
        known = [each["number"] for each in prepared(self.session, seat)]
        if isinstance(number, bool) or number not in known:
            raise BadInput(f"{seat.name} has no such hint to get.")
        self.session.note(Event.HINTED, seat.number, number=number, free=True)

    def refusal(self, seat: Seat, what: Surprise) -> str:
        """Return why a surprise cannot come at a seat now; empty if it can."""
        if what.kind == "message":
            return ""
        turn = seat.turn
        if not turn.up or turn.state not in _WORKING or turn.gave_up:
            return "its lab is not up, or over"
        if what.fault and turn.joined:
            return f"{turn.joined} has joined its lab already, and only pairs were proven together"
        return self._never(seat, what)

    def _never(self, seat: Seat, what: Surprise) -> str:
        """Return why a surprise cannot come at the lab of a seat, whenever it is."""
        if what.kind == "message":
            return ""
        turn = seat.turn
        if what.fault:
            labs.load(what.fault)
            if why := joining.refusal(labs.loaded(turn.lab), what.fault):
                return why
            no_room = f'its stack has no room for it: write room = ["{what.fault}"] in class.toml'
            return "" if what.fault == turn.room else no_room
        lab = labs.loaded(turn.whole)
        its = labs.decoy(lab.collection, what.decoy)
        if what.decoy not in [each["id"] for each in _harmless(lab.collection)]:
            return "it was not proven to be harmless"
        return decoys.clash(its, labs.loaded(turn.stacked)) or decoys.clash(its, lab)

    def _seats(self, what: Surprise) -> list[Seat]:
        return [seat for seat in self.roster.seats if not what.seats or seat.name in what.seats]

    def _fire(self, name: str, what: Surprise, seats: Sequence[Seat]) -> None:
        """Write a surprise down, and then let it happen where it can."""
        why = {seat.number: self.refusal(seat, what) for seat in seats}
        turns = [seat.at + 1 for seat in seats]
        facts = what.model_dump(exclude_defaults=True, exclude={"at", "block"})
        self.session.note(Event.FIRED, id=name, surprise=facts, seats=[*why], turns=turns)
        item = self.roster.agenda.items[name]
        for seat in seats if what.kind != "message" else ():
            if why[seat.number]:
                self.session.note(Event.NOT_JOINED, seat.number, id=name, why=why[seat.number])
            else:
                self._later(item, seat)

    def _later(self, item: Item, seat: Seat) -> None:
        task = asyncio.get_running_loop().create_task(self._join(item, seat))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _join(self, item: Item, seat: Seat) -> None:
        """Let a surprise join the lab that a seat had when it fired."""
        place = item.turns[seat.number] - 1
        why = "its lab had ended"
        try:
            async with self.session.at_stack(seat, _DOING):
                turn = seat.turns[place]
                if seat.at == place and not (why := self.refusal(seat, item.what)):
                    outcome = await self.session.stacks.join(seat, item.what)
                    why = (outcome.error or "no answer") if outcome.code else ""
                    why = why if seat.turns[place] is turn else "its lab was started over"
        except Exception as error:
            why = in_one_line(error)
            print(f"faultlab: {seat.name}: {why}", file=sys.stderr)
        if not self.roster.ended:
            with suppress(Problem):  # a full disk: the next server goes on with it
                self._tell(item, seat, place, why)

    def _tell(self, item: Item, seat: Seat, place: int, why: str) -> None:
        where = {"id": item.id, "turn": place + 1}
        if why:
            self.session.note(Event.NOT_JOINED, seat.number, why=why, **where)
            return
        what = {"fault": item.what.fault} if item.what.fault else {"decoy": item.what.decoy}
        self.session.note(Event.JOINED, seat.number, **what, **where)


def prepared(session: Session, seat: Seat) -> list[dict[str, Any]]:
    """Return the hints of its lab that a seat has not: the number of each, and its text."""
    lab, given = session.lab(seat.turn), seat.turn.hints
    return [
        {"number": number, "text": hints.as_typed(lab, hint.text)}
        for number, hint in enumerate(lab.hint, 1)
        if number not in given and seat.turn.up
    ]


def told(session: Session) -> dict[str, Any]:
    """Return what the trainer's page has for surprises: those of the class, and what can come.

    A fault can come where a stack has room for it, and a decoy that was proven to be harmless.
    """
    roster, now = session.roster, session.journal.now()
    names = {seat.number: seat.name for seat in roster.seats}
    ours = labs.loaded(roster.seats[0].turn.lab).collection
    room = [turn.room for seat in roster.seats for turn in [seat.turn] if not turn.joined]
    return {
        "surprises": [
            {
                "id": item.id,
                "text": item.what.text,
                "seats": item.what.seats,
                "state": item.state,
                "when": roster.agenda.when(item, now),
                "t": item.at,
                "there": sum(not why for why in item.came.values()),
                "pending": len(item.pending),
                "not": [f"{names[n]}: {why}" for n, why in item.came.items() if why],
            }
            for item in roster.agenda.items.values()
        ],
        "faults": sorted({*filter(None, room)}),
        "decoys": _harmless(ours),
    }


@cache
def _harmless(its: Collection) -> list[dict[str, str]]:
    return [{"id": each.id, "title": each.title} for each in harmless.proven(its)]
