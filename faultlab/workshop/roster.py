"""Roster: the lab and the progress of each seat, from the events of the journal alone.

Each seat has turns, one for each lab. Their states are waiting, starting, red (the fault is
present), amber (repaired, and looked at again soon), green (repaired), over (given up, or out of
time), failed (not started, or removed). Where a class has blocks, there is one more: prepared (the
fault is present and proven, and its block has not opened).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from faultlab.lab import loader as labs
from faultlab.lab.collection import MARK
from faultlab.learn import hints, mystery
from faultlab.learn.mystery import Score
from faultlab.run import joining
from faultlab.run.late import announced
from faultlab.workshop.agenda import Agenda
from faultlab.workshop.journal import Entry, Event
from faultlab.workshop.plan import ClassPlan
from faultlab.workshop.surprise import BOSS
from faultlab.workshop.timetable import Timetable

State = Literal["waiting", "starting", "prepared", "red", "amber", "green", "over", "failed"]


STANDING = ("red", "amber", "green", "over")  # the states in which the stack is up, unless `gone`
_CLOCKED = ("red",)  # the states in which a learner's clock runs
# The states in words: on each page, and for the trainer's `class status`.
WORDS: dict[State, str] = {
    "waiting": "waiting",
    "starting": "starting",
    "prepared": "ready for its block",
    "red": "open",
    "amber": "repaired, looked at again soon",
    "green": "repaired",
    "over": "over",
    "failed": "failed",
}


DISK_FULL = "It wrote more than a seat may have on the disk, so its machines were removed."


@dataclass(frozen=True)
class News:
    """A message, or a new ticket as Markdown, that a seat gets while it works."""

    t: float
    kind: Literal["message", "ticket"]
    sender: str
    text: str


@dataclass
class Turn:
    """One seat at one lab. `ran`: seconds on its clock until `since`, when it last started.

    `lab`: its number, or its id if no page shows that or a learner began with it. `block`: the
    number of its block, 0 without blocks. `blind`: whether its lab is not named. `again`: when a
    repair is looked at again, if it will be. `gone`: its stack was removed, and the result stays.
    `no_hint`: no other hint applies to what the last check found. `room`: the fault that can join
    it, `joined`: since it has; `leads`: decoys that have. `free`: hints from the trainer. `news`:
    what its seat was told since it began.
    """

    lab: str
    block: int = 0
    blind: bool = True
    state: State = "waiting"
    ran: float = 0.0
    since: float | None = None
    hints: list[int] = field(default_factory=list)
    checks: int = 0
    answers: list[list[dict[str, str]]] = field(default_factory=list)  # each names some faults
    sure: int | None = None  # of the last answer, in per cent, if it came before a repair
    findings: list[dict[str, Any]] = field(default_factory=list)
    before: list[dict[str, Any]] = field(default_factory=list)  # of the look before the last one
    first: list[dict[str, Any]] = field(default_factory=list)  # of the first check that failed
    began: list[dict[str, Any]] = field(default_factory=list)  # what the start has measured
    faults_gone: list[int] = field(default_factory=list)  # their numbers, if there are several
    popular: list[str] = field(default_factory=list)  # public answers that are no repair by itself
    why: str = ""
    gave_up: bool = False
    again: float | None = None
    gone: bool = False
    no_hint: bool = False
    room: str = ""
    joined: str = ""
    leads: list[str] = field(default_factory=list)
    free: list[int] = field(default_factory=list)
    news: list[News] = field(default_factory=list)

    @property
    def stacked(self) -> str:
        """The lab that its stack has the services of, also before a second fault has come."""
        return joining.named(self.lab, fault=self.room)

    @property
    def whole(self) -> str:
        """The lab with what has joined it: its faults, its hints, its lesson."""
        return MARK.join([joining.named(self.lab, fault=self.joined), *self.leads])

    @property
    def up(self) -> bool:
        """Return whether there is a stack to work on."""
        return self.state in STANDING and not self.gone

    def seconds(self, now: float) -> float:
        """Return the seconds on the turn's clock."""
        return self.ran + (max(0.0, now - self.since) if self.since is not None else 0.0)

    def afresh(self, now: float) -> Turn:
        """Return the turn with a fresh stack, which takes no time of the learner's."""
        return replace(
            self,
            state="starting",
            ran=self.seconds(now),
            since=None,
            findings=[],
            before=[],
            first=[],
            began=[],
            faults_gone=[],
            popular=[],
            why="",
            again=None,
            gone=False,
            no_hint=False,
            joined="",
            leads=[],
            news=[each for each in self.news if each.kind == "message"],
        )

    def next_hints(self) -> Iterator[int]:
        """Yield the numbers of the hints that can be next, for what the last check found."""
        return hints.possible(labs.loaded(self.whole), self.hints, self.faults_gone)

    @property
    def known(self) -> str:
        """The lab as a trainer sees it: its id, after what its seat calls it."""
        lab = labs.loaded(self.whole)
        return lab.id if self.blind else lab.both_names

    def stop(self, now: float) -> None:
        """Stop the turn's clock."""
        self.ran, self.since = self.seconds(now), None

    def is_due(self, now: float) -> bool:
        """Return whether its repair has to be looked at again now."""
        return self.state == "amber" and self.again is not None and now >= self.again

    def settle(self) -> None:
        """Count a repair that is not looked at again any more."""
        self.state, self.again = "green" if self.state == "amber" else self.state, None

    @property
    def readable(self) -> bool:
        """Return whether the lesson is open: where labs are named, also before the later look."""
        return self.told or (self.state == "amber" and not self.blind)

    @property
    def told(self) -> bool:
        """Return whether nothing is hidden from the learner any more."""
        if self.gave_up:
            return True
        return self.state == "green" and (bool(self.answers) or not self.blind)


@dataclass
class Seat:
    """One participant; `number` from 1."""

    number: int
    name: str
    turns: list[Turn]
    at: int = 0
    refused: int = 0
    hand: float | None = None  # since when it is raised

    @property
    def turn(self) -> Turn:
        """Return the current turn of the seat."""
        return self.turns[self.at]

    @property
    def last(self) -> bool:
        """Return whether no lab comes after this one."""
        return self.at == len(self.turns) - 1

    def first_of(self, block: int) -> int | None:
        """Return the place of the first turn of a block or of one after it; None without one."""
        return next((i for i, turn in enumerate(self.turns) if turn.block >= block), None)


class Roster:
    """All seats, and whether the class continues."""

    def __init__(self, plan: ClassPlan, labs_of: Sequence[Sequence[str]]) -> None:
        self.plan = plan
        self.paused = False
        self.ended = False
        self.timetable = Timetable(blocks=plan.block)
        self.agenda = Agenda(plan.event, self.timetable)
        self.seats = [
            Seat(number, name, [self._turn(*each) for each in self._placed(chosen)])
            for number, (name, chosen) in enumerate(zip(plan.seats, labs_of, strict=True), 1)
        ]

    def _placed(self, chosen: Sequence[str]) -> Iterator[tuple[str, int]]:
        """Yield each lab of a seat with the number of its block."""
        return zip(chosen, self.plan.blocks_of_turns or [0] * len(chosen), strict=True)

    def _turn(self, lab: str, block: int) -> Turn:
        return Turn(lab, block, self.plan.is_blind(block))

    def seat(self, number: int) -> Seat:
        """Return the seat with this number, from 1."""
        return self.seats[number - 1]

    def is_behind(self, seat: Seat) -> bool:
        """Return whether a seat is at a lab of a block that is over."""
        return 0 < seat.turn.block < self.timetable.at

    def following(self, seat: Seat) -> int | None:
        """Return the place of the turn that a seat has next; None if it has none.

        A seat that is behind leaves out what it has not begun of blocks that are over.
        """
        if self.is_behind(seat):
            return seat.first_of(self.timetable.at)
        return None if seat.last else seat.at + 1

    def can_go_on(self, seat: Seat) -> bool:
        """Return whether a seat has a next turn, and the block of that turn has opened."""
        to = self.following(seat)
        return to is not None and self.timetable.has_opened(seat.turns[to].block)

    def apply(self, event: Entry) -> None:
        """Update the roster with one event."""
        now = float(event["t"])
        self.agenda.apply(event)
        self._tell(event, now)
        if "seat" in event:
            self._apply(self.seat(event["seat"]), event, now)
            self._with_trainer(self.seat(event["seat"]), event, now)
            return
        match event["event"]:
            case Event.PAUSED | Event.ENDED:
                self.paused = True
                self.ended = self.ended or event["event"] == Event.ENDED
                for seat in self.seats:
                    seat.turn.stop(now)
                    if self.ended:
                        seat.turn.settle()
                self.timetable.stop(now)
            case Event.OPENED:  # clocks did not run while there was no server
                for seat in self.seats:
                    if seat.turn.since is not None:
                        seat.turn.since += max(0.0, now - event.get("alive", now))
                self.timetable.skip(max(0.0, now - event.get("alive", now)))
            case Event.RESUMED:
                self.paused = False
                for seat in self.seats:
                    if seat.turn.state in _CLOCKED and seat.turn.since is None:
                        seat.turn.since = now
                self.timetable.go_on(now)
            case Event.BLOCK:
                self.timetable.open(event["block"], now, self.paused)
                for seat in self.seats:
                    self._begin(seat, now)

    def _tell(self, event: Entry, now: float) -> None:
        """Deliver a message that has fired to the seats that it is for."""
        what = event["surprise"] if event["event"] == Event.FIRED else {}
        for number in event["seats"] if what.get("message") else ():
            its = News(now, "message", what.get("sender", BOSS), what["message"])
            self.seat(number).turn.news.append(its)

    def _begin(self, seat: Seat, now: float) -> None:
        """Hand over the prepared lab of a seat, if its block is open."""
        turn = seat.turn
        if turn.state == "prepared" and self.timetable.has_opened(turn.block):
            turn.state, turn.since = "red", None if self.paused else now

    def _apply(self, seat: Seat, event: Entry, now: float) -> None:
        at = event.get("turn", seat.at + 1) - 1  # one that is prepared is not the seat's yet
        turn = seat.turns[at]
        match event["event"]:
            case Event.STARTING:
                seat.turns[at] = replace(turn.afresh(now), room=event.get("room", ""))
            case Event.READY:
                turn.state, turn.since = "prepared", None
                turn.began = event.get("findings", [])
                self._begin(seat, now)
            case Event.FAILED | Event.DISK_FULL:
                self._failed(turn, event, now)
            case Event.HINTED | Event.NO_HINT:
                _hinted(turn, event)
            case Event.ANSWERED:
                turn.answers.append([event["answer"], *event.get("also", [])])
                turn.sure = event.get("sure") if turn.state == "red" else None
            case Event.CHECKED | Event.LOOKED:
                self._seen(turn, event, now)
            case Event.GAVE_UP | Event.TIME_OVER:
                turn.gave_up, turn.why = True, event["event"]
                if turn.state != "green":
                    turn.state = "over"
                turn.stop(now)
            case Event.MOVED_ON:
                turn.stop(now)
                turn.settle()
                seat.at = min(event.get("to", seat.at + 2), len(seat.turns)) - 1
                self._begin(seat, now)
            case Event.CHOSEN:
                blind = event.get("blind", self.plan.blind)
                seat.turns.append(Turn(event["lab"], hints=event.get("hints", []), blind=blind))
                seat.at = len(seat.turns) - 1
            case Event.REMOVED:
                turn.stop(now)
                turn.state, turn.why = "waiting", event.get("why", "")
            case Event.REFUSED:
                seat.refused += 1

    def _with_trainer(self, seat: Seat, event: Entry, now: float) -> None:
        """Note what is between a seat and its trainer."""
        match event["event"]:
            case Event.HAND:
                seat.hand = (seat.hand or now) if event["up"] else None
            case Event.JOINED:
                self._joined(seat.turns[event["turn"] - 1], event, now)

    def _joined(self, turn: Turn, event: Entry, now: float) -> None:
        """Note what has joined a lab: of a second fault its ticket tells, of a decoy its alerts."""
        lab = labs.loaded(turn.lab)
        if fault := event.get("fault", ""):
            turn.joined, turn.no_hint = fault, False
            turn.news.append(News(now, "ticket", "", labs.load_in(lab.collection, fault).ticket))
            if turn.state in ("amber", "green"):  # it was repaired, and users are harmed again
                turn.state, turn.again = "red", None
                turn.since = None if self.paused else now
            return
        turn.leads.append(event["decoy"])
        if alerts := labs.decoy(lab.collection, event["decoy"]).alerts.strip():
            turn.news.append(News(now, "ticket", "", alerts))

    def _failed(self, turn: Turn, event: Entry, now: float) -> None:
        """Note a failure: neither a trouble of ours nor a full disk takes what a seat has reached.

        A repair that its own full disk keeps us from looking at again is no result yet.
        """
        turn.stop(now)
        turn.why = event.get("why", DISK_FULL)
        turn.gone = event["event"] == Event.DISK_FULL
        if not turn.gone:
            turn.settle()
        if turn.state != "green":
            turn.state, turn.again, turn.gone = "failed", None, False

    def _seen(self, turn: Turn, event: Entry, now: float) -> None:
        turn.before = turn.findings or turn.before
        turn.findings = event.get("findings", turn.findings)
        if not event["fixed"]:
            turn.first = turn.first or turn.findings
        turn.faults_gone = event.get("gone", [])
        turn.popular = event.get("popular", [])
        turn.why = event.get("why", "")
        turn.no_hint = False
        turn.settle()
        if event["event"] == Event.CHECKED:
            turn.checks += 1
        elif not event["fixed"] and turn.state == "green":  # it did not last
            turn.state, turn.since = "red", None if self.paused else now
        if event["fixed"] and turn.state == "red":
            after = event.get("later", 0)
            turn.stop(now)
            turn.state = "amber" if after else "green"
            if after:
                turn.again, turn.why = now + 60 * after, announced(after)

    def score(self, turn: Turn, now: float) -> Score:
        """Return the score of a turn so far. What the trainer has sent costs nothing."""
        lab = labs.loaded(turn.whole)
        cost, asked = self.plan.hint_cost, [n for n in turn.hints if n not in turn.free]
        costs = [lab.hint[n - 1].cost if cost is None else cost for n in asked]
        return mystery.score(
            lab,
            turn.answers,
            asked=turn.blind,
            repaired=turn.state == "green",
            gave_up=turn.gave_up,
            hints=sum(costs),
            minutes=turn.seconds(now) / 60,
            sure=turn.sure,
        )


def _hinted(turn: Turn, event: Entry) -> None:
    """Note a hint, or that no other one applies."""
    if event["event"] == Event.HINTED:
        # Before hints knew the state, `given` said how many there were.
        given = range(1, event["given"] + 1) if "given" in event else (event["number"],)
        turn.hints = [*dict.fromkeys([*turn.hints, *given])]
        turn.free += given if event.get("free") else ()
    # Those with a condition are for another state, and a check finds out if it has come.
    rungs = labs.loaded(turn.whole).hint
    sure = any(rungs[number - 1].when is None for number in turn.next_hints())
    turn.no_hint = event["event"] == Event.NO_HINT or not sure
