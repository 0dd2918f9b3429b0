"""Roster: who is at which lab and how far, from the events of the journal alone.

Each seat has turns, one a lab: waiting, starting, red (the fault is there), green (repaired), over
(given up, or out of time), failed (it could not be started, or was removed).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

from faultlab.lab import load as labs
from faultlab.lab.model import Lab
from faultlab.learn.mystery import Score, right
from faultlab.workshop.journal import Entry, Event
from faultlab.workshop.plan import Plan

State = Literal["waiting", "starting", "red", "green", "over", "failed"]


@cache
def known(lab_id: str) -> Lab:
    """Return a lab, which is read once only: each view of a page asks for it."""
    return labs.load(lab_id)


_CLOCKED = ("red",)  # the states in which a learner's time runs


DISK_FULL = "It wrote more than a seat may have on the disk, so its machines were removed."


@dataclass
class Turn:
    """One seat at one lab. `ran`: seconds of its clock until `since`, when it was last started."""

    lab: str
    state: State = "waiting"
    ran: float = 0.0
    since: float | None = None
    hints: int = 0
    checks: int = 0
    answers: list[dict[str, str]] = field(default_factory=list)
    findings: list[dict[str, Any]] = field(default_factory=list)
    why: str = ""
    gave_up: bool = False

    def seconds(self, now: float) -> float:
        """Return the seconds that the turn's clock shows."""
        return self.ran + (max(0.0, now - self.since) if self.since is not None else 0.0)

    def stop(self, now: float) -> None:
        """Stop the turn's clock."""
        self.ran, self.since = self.seconds(now), None

    def told(self, blind: bool) -> bool:
        """Tell whether there is nothing left to keep from the learner."""
        if self.gave_up:
            return True
        return self.state == "green" and (bool(self.answers) or not blind)


@dataclass
class Seat:
    """One participant; `number` from 1."""

    number: int
    name: str
    turns: list[Turn]
    at: int = 0
    refused: int = 0

    @property
    def turn(self) -> Turn:
        """The turn that the seat is at."""
        return self.turns[self.at]

    @property
    def last(self) -> bool:
        """True when no lab comes after this one."""
        return self.at == len(self.turns) - 1


class Roster:
    """All seats, and whether the class goes on."""

    def __init__(self, plan: Plan, labs_of: Sequence[Sequence[str]]) -> None:
        self.plan = plan
        self.paused = False
        self.ended = False
        self.seats = [
            Seat(number, name, [Turn(lab_id) for lab_id in chosen])
            for number, (name, chosen) in enumerate(zip(plan.seats, labs_of, strict=True), 1)
        ]

    def seat(self, number: int) -> Seat:
        """The seat with this number, from 1."""
        return self.seats[number - 1]

    def replay(self, events: Iterable[Entry]) -> None:
        """Apply everything that has happened, from the beginning."""
        for event in events:
            self.apply(event)

    def apply(self, event: Entry) -> None:
        """Bring the roster up to date with one event."""
        now = float(event["t"])
        if "seat" in event:
            self._apply(self.seat(event["seat"]), event, now)
            return
        match event["event"]:
            case Event.PAUSED | Event.ENDED:
                self.paused = True
                self.ended = self.ended or event["event"] == Event.ENDED
                for seat in self.seats:
                    seat.turn.stop(now)
            case Event.OPENED:  # nobody could work while there was no server
                for seat in self.seats:
                    if seat.turn.since is not None:
                        seat.turn.since += max(0.0, now - event.get("alive", now))
            case Event.RESUMED:
                self.paused = False
                for seat in self.seats:
                    if seat.turn.state in _CLOCKED and seat.turn.since is None:
                        seat.turn.since = now

    def _apply(self, seat: Seat, event: Entry, now: float) -> None:
        turn = seat.turn
        match event["event"]:
            case Event.STARTING:
                seat.turns[seat.at] = turn = Turn(
                    turn.lab,
                    ran=turn.seconds(now),
                    hints=turn.hints,
                    answers=turn.answers,
                    checks=turn.checks,
                    gave_up=turn.gave_up,
                )
                turn.state = "starting"
            case Event.READY:
                turn.state, turn.since = "red", None if self.paused else now
            case Event.FAILED:
                turn.state, turn.why = "failed", event["why"]
            case Event.DISK_FULL:
                turn.stop(now)
                turn.state, turn.why = "failed", DISK_FULL
            case Event.HINTED:
                turn.hints = event["given"]
            case Event.ANSWERED:
                turn.answers.append(event["answer"])
            case Event.CHECKED:
                self._checked(turn, event, now)
            case Event.GAVE_UP | Event.TIME_OVER:
                turn.gave_up, turn.why = True, event["event"]
                if turn.state != "green":
                    turn.state = "over"
                turn.stop(now)
            case Event.MOVED_ON:
                turn.stop(now)
                seat.at = min(seat.at + 1, len(seat.turns) - 1)
            case Event.REFUSED:
                seat.refused += 1

    def _checked(self, turn: Turn, event: Entry, now: float) -> None:
        turn.checks += 1
        turn.findings = event["findings"]
        turn.why = event.get("why", "")
        if event["fixed"] and turn.state == "red":
            turn.state = "green"
            turn.stop(now)

    def score(self, turn: Turn, now: float) -> Score:
        """Return the score of a turn so far."""
        lab = known(turn.lab)
        cost = self.plan.hint_cost
        rungs = [rung.cost if cost is None else cost for rung in lab.hint[: turn.hints]]
        answer = turn.answers[-1] if turn.answers else None
        return Score(
            answer=answer,
            right=right(lab, answer) if self.plan.blind else {},
            repaired=turn.state == "green",
            gave_up=turn.gave_up,
            hints=sum(rungs),
            answers=len(turn.answers),
            minutes=turn.seconds(now) / 60,
        )
