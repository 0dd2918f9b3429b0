"""Solo: the page of one learner, a class with one seat whose stacks are the learner's own."""

from __future__ import annotations

import asyncio
import getpass
import os
import socket
import tempfile
import webbrowser
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.requests import HTTPConnection

from faultlab.core import lock, naming, paths
from faultlab.core.defaults import AUTO, LOOPBACK
from faultlab.core.errors import CannotRun
from faultlab.core.terminal import Terminal
from faultlab.engine import peek
from faultlab.engine.stack import Stack
from faultlab.lab import load as labs
from faultlab.lab import path
from faultlab.learn import learner, progress
from faultlab.run import placement
from faultlab.run.record import Record
from faultlab.workshop import address, connections
from faultlab.workshop.access import Keys, Visitor
from faultlab.workshop.actions import Actions, words
from faultlab.workshop.guard import Guard
from faultlab.workshop.journal import Event, Journal
from faultlab.workshop.plan import Plan
from faultlab.workshop.roster import STANDING, Roster, Seat, Turn, known
from faultlab.workshop.session import Session
from faultlab.workshop.site import Site
from faultlab.workshop.stacks import Stacks

_ME = Visitor(1)  # at the only seat
_SOCKETS = {socket.AF_INET: Path("/proc/net/tcp"), socket.AF_INET6: Path("/proc/net/tcp6")}


@dataclass(frozen=True)
class Served:
    """The address of the page."""

    url: str


@dataclass(frozen=True)
class Here:
    """The containers of each lab on this machine, and the runs that were handed over."""

    labs: dict[str, dict[str, peek.Part]] = field(default_factory=dict)
    ready: frozenset[str] = frozenset()

    def run(self, lab: str) -> str:
        """Return the run of a lab; empty if it has no containers here."""
        return next((part.run for part in self.labs.get(lab, {}).values()), "")

    def up(self, lab: str) -> bool:
        """Return whether a learner can work on a lab."""
        return self.run(lab) in self.ready

    def again(self) -> Here:
        """Return how it is now, with one question to Docker; unchanged without an answer."""
        every, prefix = peek.stacks(), naming.prefix()
        if every is None:
            return self
        labs = {
            name.removeprefix(prefix): its for name, its in every.items() if name.startswith(prefix)
        }
        runs = {part.run for parts in labs.values() for part in parts.values()}
        ready = {run for run in runs if run in self.ready or Record.ready(run)}
        return Here(labs, frozenset(ready))


class OwnStacks(Stacks):
    """The learner's own stacks: those of the command line, under the same names."""

    engine = AUTO

    def name(self, seat: Seat) -> str:
        """Return the name of the stack of a lab."""
        return naming.stack_name(seat.turn.lab)

    async def hint(self, seat: Seat) -> int | None:
        """Return the hint that the command line gives; the run notes it."""
        told = await self.run(seat, "hint", seat.turn.lab)
        if told.code:
            raise CannotRun(told.error)
        number: int | None = told.facts["number"]
        return number

    async def too_large(self, seats: Iterable[Seat]) -> list[Seat]:
        """Return no seat: the disk is the learner's own."""
        return []

    def _env(self, seat: Seat) -> dict[str, str]:
        return {}

    def _stack(self, seat: Seat) -> Stack:
        return placement.up(seat.turn.lab)


class SoloSession(Session):
    """The session of one learner, who chooses the labs. Only the runs are remembered.

    `last`: the run of the lab to go on with when it begins, if there is one.
    """

    last: Record | None = None
    _catalogue: list[dict[str, Any]] | None = None
    _here = Here()
    _delay = ""
    _seen: tuple[Turn, str] | None = None  # the turn whose stack was there, and its run

    async def weigh(self) -> None:
        """Note which labs are up here, with one question to Docker for all of them.

        The command line can start labs too, and can remove the one of this page.
        """
        seat = self.roster.seats[0]
        turn, free = seat.turn, seat.number not in self.doing
        was, self._here = self._here, await asyncio.to_thread(self._here.again)
        run = self._here.run(turn.lab)
        if free and seat.turn is turn and seat.number not in self.doing and turn.state in STANDING:
            if run and (self._seen is None or self._seen[0] is not turn):
                self._seen = turn, run
            elif self._seen and self._seen[0] is turn and self._seen[1] != run:
                why = f"{turn.lab} was removed by a command outside this page."
                self.note(Event.REMOVED, seat.number, why=why)
                return
        delay = await asyncio.to_thread(self._looked_again, seat) if not free else ""
        if (self._here, delay) != (was, self._delay):
            self._delay = delay
            self._catalogue = None
            self.show()

    def delay(self, seat: Seat) -> str:
        """Return why the last look proved nothing, if a measurement is being repeated."""
        return self._delay

    def states(self, seat: Seat) -> dict[str, str]:
        """Return the state of each daemon, as Docker told it last."""
        parts = self._here.labs.get(seat.turn.lab, {})
        return {name: parts[name].state for name in self.daemons(seat) if name in parts}

    def _looked_again(self, seat: Seat) -> str:
        record = Record.open(self._here.run(seat.turn.lab))
        if not record or not record.facts["events"]:
            return ""
        last, began = record.facts["events"][-1], self.journal.now() - self.waited(seat)
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
        self.note(Event.CHOSEN, seat.number, lab=record.facts["lab"])
        self.note(Event.STARTING, seat.number)
        found = record.facts["judged"].get("check", {}).get("good", [])
        shown = None
        for event in record.facts["events"]:
            t = record.began + event["t"]
            match event["event"]:
                case "ready":
                    self.note(Event.READY, seat.number, t=t)
                case "hint":
                    self.note(Event.HINTED, seat.number, t=t, number=event["number"])
                case "check":
                    fixed = event["fixed"]
                    self.note(Event.CHECKED, seat.number, t=t, fixed=fixed, findings=found)
                case "fix" | learner.GAVE_UP:
                    shown = shown or t
        if shown:  # last, because a check that passes after a fix still ends the clock
            self.note(Event.GAVE_UP, seat.number, t=shown)
        if record is self.last or self._here.run(seat.turn.lab) == record.id:  # on this machine
            self._seen = seat.turn, record.id

    def choose(self, seat: Seat, lab: str) -> None:
        """Start a lab, or go on with it if it is up, and remove the one before it."""
        known(lab)
        self._must_be_free(seat)
        self._later(self._choose(seat, lab), seat)

    def remove(self, seat: Seat) -> None:
        """Remove the lab that is up."""
        self._must_be_free(seat)
        self._later(self._removed(seat), seat)

    def catalogue(self) -> list[dict[str, Any]] | None:
        """Return the labs of each track with what the learner has done, and which one is next.

        It is made once after each event, because it reads every run and each view asks for it.
        """
        if self._catalogue is None:
            self._catalogue = self._tracks()
        return self._catalogue

    def _tracks(self) -> list[dict[str, Any]]:
        every = path.ordered()
        taken = progress.so_far(every).labs
        following = progress.following(every, taken)
        lab_of = {lab.id: lab for lab in every}

        def row(one: progress.Taken) -> dict[str, Any]:
            lab, (_, state, *counts) = lab_of[one.lab], one.cells
            facts = {"lab": lab.id, "title": lab.title, "minutes": lab.minutes, "done": one.done}
            vm, next_ = lab.scope == "kernel", lab is following
            return {
                **facts,
                "level": lab.difficulty,
                "vm": vm,
                "next": next_,
                "up": self._here.up(lab.id),
                "state": state,
                "counts": counts,
            }

        return [
            {"title": title, "labs": [row(one) for one in its]}
            for title, its in progress.by_track(taken)
        ]

    async def _choose(self, seat: Seat, lab: str) -> None:
        await self._removed(seat)
        async with self._busy(seat, f"looking whether {lab} is up"):
            record = await asyncio.to_thread(_record_of, lab)
            if record:
                self._adopt(seat, record)
                return
        self.note(Event.CHOSEN, seat.number, lab=lab)
        await self._start(seat)

    async def _removed(self, seat: Seat) -> None:
        if seat.turn.state == "waiting":
            return
        async with self._busy(seat, f"removing {seat.turn.lab}"):
            outcome = await self.stacks.remove(seat)
            if outcome.code:
                raise CannotRun(outcome.error)
            self.note(Event.REMOVED, seat.number)


def _last_up() -> Record | None:
    """Return the newest run of a lab that is up on this machine."""
    up = {*placement.local().stacks()}
    found = [_record_of(lab_id) for lab_id in labs.ids() if naming.stack_name(lab_id) in up]
    return max(filter(None, found), key=lambda record: record.id, default=None)


def _record_of(lab: str) -> Record | None:
    """Return the record of a lab that the command line has started, if it is up and ready."""
    stack = placement.up(lab)
    return Record.ready(stack.run_id) if stack else None


class SoloActions(Actions):
    """The buttons of a seat, and those of the catalogue."""

    session: SoloSession

    async def act(self, act: str, seat: Seat, facts: dict[str, Any]) -> None:
        """Do what a button says."""
        match act:
            case "choose":
                self.session.choose(seat, *words(facts, "lab"))
            case "remove":
                self.session.remove(seat)
            case _:
                await super().act(act, seat, facts)


class OwnGuard(Guard):
    """Lets in the programs of one user alone: no token has to be copied."""

    def visitor(self, connection: HTTPConnection) -> Visitor | None:
        """Return the learner, when the other end of this connection is a socket of theirs."""
        return _ME if connection.client and owner(*connection.client) == os.getuid() else None


class NoKeys(Keys):
    """No tokens; the guard knows the visitor."""

    def visitor(self, token: str) -> Visitor | None:
        """Return the learner."""
        return _ME


def owner(address: str, port: int) -> int | None:
    """Return the id of the user of a TCP socket on this machine, by its own address and port.

    Source: proc(5), /proc/net/tcp; the kernel writes each 32 bits of an address in its byte order.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    packed = socket.inet_pton(family, address)
    words = [packed[i : i + 4][::-1] for i in range(0, len(packed), 4)]
    wanted = f"{b''.join(words).hex().upper()}:{port:04X}"
    for line in _SOCKETS[family].read_text().splitlines()[1:]:
        _, local, _, _, _, _, _, user, *_ = line.split()
        if local == wanted:
            return int(user)
    return None


def serve(term: Terminal, port: int) -> Served:
    """Serve the page on loopback until Ctrl-C, or tell where it is up. Raises Held, CannotRun."""
    name = f"{naming.prefix()}page"
    note = lock.folder() / f"{name}.url"
    try:
        with lock.hold(name, "page"):
            note.unlink(missing_ok=True)  # of one that was killed
            try:
                return _serve(term, port, note)
            finally:
                note.unlink(missing_ok=True)
    except lock.Held:
        if not note.exists():  # it has only just begun, or is about to end
            raise
        told = Served(note.read_text())
        term.json(told)
        term.say("Your page is up already:")
        term.command(told.url)
        return told


def _serve(term: Terminal, port: int, note: Path) -> Served:
    """Serve the page. `note`: a file for its address."""
    every = path.ordered()
    first = (progress.following(every, progress.so_far(every).labs) or every[0]).id
    plan = Plan(id="page", title="faultlab", seats=[getpass.getuser()], labs=[first], blind=False)
    hosts = address.hosts(LOOPBACK, [])
    with (
        tempfile.TemporaryDirectory(prefix="faultlab-page-") as folder,
        address.listening(LOOPBACK, port) as line,
    ):
        here = Path(folder)
        journal = Journal(here / "events.jsonl")
        session = SoloSession(plan, Roster(plan, [[first]]), journal, OwnStacks(plan))
        session.last = _last_up()
        keys = NoKeys(here / "keys.json")
        guard = OwnGuard(session, keys, hosts, secure=False)
        site = Site(session, keys, guard, here / "alive")
        site.actions = SoloActions(session, keys, guard, site.terminals)
        told = Served(address.url(LOOPBACK, hosts, line.getsockname()[1], secure=False))
        paths.write_whole(note, told.url)
        server = connections.Server(
            connections.config(site.app(), 1, None, None), lambda: _say(term, told)
        )
        with suppress(KeyboardInterrupt):
            asyncio.run(server.serve(sockets=[line]))
        seat = session.roster.seat(_ME.number)
        if seat.turn.state not in ("waiting", "failed"):
            term.say(f"{seat.turn.lab} is still up. To remove it: make down-{seat.turn.lab}")
    return told


def _say(term: Terminal, told: Served) -> None:
    term.json(told)
    term.say("Your page, for your own programs on this machine:")
    term.command(told.url)
    term.say("Ctrl-C stops it; a lab that is up stays up.")
    if os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        webbrowser.open(told.url)
