"""Solo session: the session of one learner, who chooses labs, and whose stacks are their own."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from faultlab.core import naming, paths
from faultlab.core.defaults import AUTO, MYSTERY, ONCALL
from faultlab.core.errors import CannotRun, Problem
from faultlab.engine.docker import docker_list
from faultlab.engine.stack import Stack
from faultlab.lab import collection, curriculum, numbers
from faultlab.lab import loader as labs
from faultlab.learn import hints, mystery, progress
from faultlab.oncall import report
from faultlab.oncall.journal import Journal
from faultlab.oncall.report import Page
from faultlab.run import phase, placement
from faultlab.run import record as records
from faultlab.run.record import Record
from faultlab.workshop.documents import html
from faultlab.workshop.journal import Event
from faultlab.workshop.roster import Seat, Turn
from faultlab.workshop.session import Session
from faultlab.workshop.stacks import Stacks


@dataclass(frozen=True)
class Here:
    """The containers of each lab on this machine, and the runs that were handed over.

    `labs`: by the end of the name of a lab's stack.
    """

    labs: dict[str, dict[str, docker_list.Part]] = field(default_factory=dict)
    ready: frozenset[str] = frozenset()

    def run(self, lab: str) -> str:
        """Return the run of a lab; empty if it has no containers here."""
        return next((part.run for part in self.labs.get(naming.flat(lab), {}).values()), "")

    def up(self, lab: str) -> bool:
        """Return whether a learner can work on a lab."""
        return self.run(lab) in self.ready

    def again(self, every: dict[str, dict[str, docker_list.Part]]) -> Here:
        """Return how it is now. `every`: the containers of all stacks."""
        prefix = naming.prefix()
        labs = {
            name.removeprefix(prefix): its for name, its in every.items() if name.startswith(prefix)
        }
        runs = {part.run for parts in labs.values() for part in parts.values()}
        ready = {run for run in runs if run in self.ready or Record.ready(run)}
        return Here(labs, frozenset(ready))


class OwnStacks(Stacks):
    """The learner's own stacks: those of the command line, under the same names."""

    fresh = 'Press "Start the lab over"; what was done on it is lost.'

    @property
    def engine(self) -> str:
        """Return that each lab has the engine that can run it."""
        return AUTO

    def name(self, seat: Seat) -> str:
        """Return the name of the stack of a lab."""
        return naming.stack_name(self._lab(seat.turn))

    async def hint(self, seat: Seat) -> int | None:
        """Return the hint that the command line gives; the run notes it."""
        told = await self.run(seat, "hint", self._lab(seat.turn))
        if told.code:
            raise CannotRun(told.error)
        number: int | None = told.facts["number"]
        return number

    def _env(self, seat: Seat) -> dict[str, str]:
        return {}

    def _stack(self, seat: Seat) -> Stack:
        return placement.up(self._lab(seat.turn))


class SoloSession(Session):
    """The session of one learner, who chooses the labs. Only the runs are remembered.

    `last`: the run of the lab to go on with when it begins, if there is one.
    """

    not_said = "Why is not said, because it can tell what it was. Remove it, and start another one."
    last: Record | None = None
    _catalogue: list[dict[str, Any]] | None = None
    _here = Here()
    _delay = ""
    _seen: tuple[Turn, str] | None = None  # the turn whose stack was there, and its run

    _pages: tuple[Page, ...] = ()  # of the shift that is up

    async def poll(self) -> None:
        """Note which labs are up here, with one question to Docker for all of them.

        The command line can start labs too, and can remove the one of this page.
        """
        seat = self.roster.seats[0]
        turn, free = seat.turn, seat.number not in self.doing
        await self._look()
        was, self._here = self._here, await asyncio.to_thread(self._here.again, self._there)
        run = self._here.run(self._named(turn))
        if free and seat.turn is turn and seat.number not in self.doing and turn.up:
            if run and (self._seen is None or self._seen[0] is not turn):
                self._seen = turn, run
            elif self._seen and self._seen[0] is turn and self._seen[1] != run:
                why = f"{self._named(turn)} was removed by a command outside this page."
                self.note(Event.REMOVED, seat.number, why=why)
                return
        delay = await asyncio.to_thread(self._looked_again, seat) if not free else ""
        pages = await asyncio.to_thread(_pages_of, self._here.run(ONCALL))
        if (self._here, delay, pages) != (was, self._delay, self._pages):
            self._delay, self._pages = delay, pages
            self._catalogue = None
            self.show()

    def own(self, seat: Seat) -> dict[str, Any]:
        """Return the labs to choose from, why a look is repeated, and what else is theirs alone."""
        here = seat.turn.state not in ("waiting", "starting")
        # A removal can have failed, so the lab of a failed turn can be removed as well.
        named = {"lab": seat.turn.lab} if seat.turn.state == "failed" else {}
        if seat.turn.blind and seat.turn.state != "waiting":
            named = {"lab": MYSTERY if here else "", "title": "A mystery"}
        pages = [
            {"number": page.number, "t": page.t, "over": page.over, "ticket": html(page.ticket)}
            for page in self._pages
        ]
        facts = {"catalogue": self.catalogue(), "delay": self._delay, "over": here, "pages": pages}
        return facts | named

    def _looked_again(self, seat: Seat) -> str:
        if seat.turn.blind:  # the reason can name what is measured, and so the fault
            return ""
        record = Record.open(self._here.run(seat.turn.lab))
        if not record or not record.events:
            return ""
        last, began = record.events[-1], self.journal.now() - self.waited(seat)
        again = last["event"] == "undecided" and record.began + last["t"] > began
        return f"Looked again: {last.get('text', '')}." if again else ""

    def begin(self) -> None:
        """Go on with the lab that was started last, if it is still up."""
        if self.last:
            self._adopt(self.roster.seats[0], self.last)

    def note(self, happened: Event, seat: int | None = None, **facts: Any) -> None:
        """Write an event down; what the learner has done may have changed with it."""
        self._catalogue = None
        super().note(happened, seat, **facts)

    def _adopt(self, seat: Seat, record: Record) -> None:
        """Note what has happened in a run, at the times when it did."""
        self.stacks.took.pop(seat.number, None)  # of the lab before
        blind = record.stack == naming.stack_name(MYSTERY)
        secret = {"blind": True} if blind else {}
        self.note(Event.CHOSEN, seat.number, lab=_name(record), **secret)
        self.note(Event.STARTING, seat.number)
        found = record.judged.get(phase.CHECK, {}).get("good", [])
        last = max((n for n, e in enumerate(record.events) if e["event"] == phase.CHECK), default=0)
        shown = None
        for number, event in enumerate(record.events):
            t = record.began + event["t"]
            match event["event"]:
                case "ready":
                    began = record.judged.get(phase.FAULTY, {}).get("bad", [])
                    self.note(Event.READY, seat.number, t=t, findings=began)
                case "hint":
                    self.note(Event.HINTED, seat.number, t=t, number=event["number"])
                case phase.LATER:
                    self.note(Event.LOOKED, seat.number, t=t, fixed=event["fixed"])
                case phase.CHECK:
                    fixed = event["fixed"] and not event.get(phase.LATER)
                    its = found if number == last else _valued(found, event)
                    facts = {"findings": its, "popular": event.get("popular", [])}
                    facts["gone"] = record.facts.get(records.GONE, [])
                    self.note(Event.CHECKED, seat.number, t=t, fixed=fixed, **facts)
                case "fix" | records.GAVE_UP:
                    shown = shown or t
        for first, *more in mystery.answers(record.events):
            self.note(Event.ANSWERED, seat.number, answer=first, **({"also": more} if more else {}))
        if shown:  # last, because a check that passes after a fix still ends the clock
            self.note(Event.GAVE_UP, seat.number, t=shown)
        here = self._here.run(self._named(seat.turn)) == record.id
        if record is self.last or here:  # on this machine
            self._seen = seat.turn, record.id

    def parts(self, seat: Seat) -> dict[str, docker_list.Part]:
        """Return the containers of the lab, as last seen."""
        return self._here.labs.get(naming.flat(self._named(seat.turn)), {})

    def _named(self, turn: Turn) -> str:
        """Return the name of a turn's lab; of a secret one it reveals nothing."""
        return self.lab(turn).alias

    def choose(self, seat: Seat, lab: str) -> None:
        """Start a lab, or go on with it if it is up, and remove the one before it."""
        labs.loaded(lab := numbers.spelled(lab))
        self._must_be_free(seat)
        self._later(self._choose(seat, lab), seat)

    async def draw(self, seat: Seat, *, hard: bool, faults: int, decoys: int) -> None:
        """Start a mystery, or go on with the one that is up, and remove the lab before it.

        Raises BadInput, CannotRun if none can be drawn; then the lab before it stays.
        """
        self._must_be_free(seat)
        async with self._busy(seat, "drawing a lab that runs here"):
            lab = await asyncio.to_thread(
                lambda: mystery.drawn(hard=hard, faults=faults, decoys=decoys)
            )
        self._later(self._choose(seat, lab.id, blind=True), seat)

    def remove(self, seat: Seat) -> None:
        """Remove the lab that is up."""
        self._must_be_free(seat)
        self._later(self._removed(seat), seat)

    def catalogue(self) -> list[dict[str, Any]]:
        """Return the labs of each track with what the learner has done, and which one is next.

        It is made once after each event, because it reads every run and each view asks for it.
        """
        if self._catalogue is None:
            self._catalogue = self._tracks()
        return self._catalogue

    def _tracks(self) -> list[dict[str, Any]]:
        every = curriculum.labs_in_order()
        taken, following, _ = progress.advised(every)
        lab_of = {lab.id: lab for lab in every}

        def row(one: progress.Taken) -> dict[str, Any]:
            lab, (_, state, *counts) = lab_of[one.lab], one.cells
            up = [name for name in (lab.code, lab.id) if self._here.up(name)]
            facts = {"lab": up[0] if up else lab.code, "title": lab.title, "done": one.done}
            facts |= {"was": lab.id if one.done else "", "minutes": lab.minutes}
            facts |= {"level": lab.difficulty, "vm": lab.scope == "kernel"}
            facts |= {"next": lab is following, "up": bool(up)}
            return {**facts, "state": state, "counts": counts}

        return [
            {"title": title, "labs": [row(one) for one in its]}
            for title, its in progress.by_track(taken)
        ]

    async def _choose(self, seat: Seat, lab: str, blind: bool = False) -> None:
        await self._removed(seat)
        name = MYSTERY if blind else lab
        async with self._busy(seat, f"looking whether {name} is up"):
            record = await asyncio.to_thread(_record_of, name)
            if record:
                self._adopt(seat, record)
                return
            before = hints.given_before
            given = [] if blind else await asyncio.to_thread(before, labs.loaded(lab))
        secret = {"blind": True} if blind else {}
        self.note(Event.CHOSEN, seat.number, lab=lab, hints=given, **secret)
        await self._start(seat)

    async def _removed(self, seat: Seat) -> None:
        if seat.turn.state == "waiting":
            return
        name = self._named(seat.turn)
        async with self._busy(seat, f"removing {name}"):
            stays = await self.stacks.remove(seat)
            why = f"{name} was removed. {stays}" if stays else ""
            self.note(Event.REMOVED, seat.number, why=why)


def _valued(found: list[dict[str, Any]], event: dict[str, Any]) -> list[dict[str, Any]]:
    """Return findings with the values of an earlier check; its limits are not in the record."""
    values = event.get("found", {})
    rows = [{**row, "value": values[row["name"]]} for row in found if row["name"] in values]
    return [{**row, "holds": True if event["fixed"] else None} for row in rows]


def last_up() -> Record | None:
    """Return the newest run of a lab that is up on this machine."""
    up = {*placement.local().stacks()}
    every = [*numbers.names(), MYSTERY]
    found = [_record_of(name) for name in every if naming.stack_name(name) in up]
    return max(filter(None, found), key=lambda record: record.id, default=None)


def _pages_of(run: str) -> tuple[Page, ...]:
    """Return the pages of a shift; none without one, or while it begins."""
    with suppress(Problem):
        if run:
            events = Journal(paths.runs() / run).events()
            return tuple(report.pages(events, collection.ours()))
    return ()


def _name(record: Record) -> str:
    """Return the name by which the lab of a run was started: its number or its id."""
    other = numbers.other(record.lab)
    return other if record.stack == naming.stack_name(other) else record.lab


def _record_of(lab: str) -> Record | None:
    """Return the record of a lab that the command line has started, if it is up and ready."""
    stack = placement.up(lab)
    return Record.ready(stack.run_id) if stack else None
