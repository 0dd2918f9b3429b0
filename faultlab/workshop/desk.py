"""Desk: what a running class does for its seats, one thing at a time for each."""

import asyncio
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

from faultlab.core.errors import CannotRun, Problem
from faultlab.workshop.journal import Event, Journal
from faultlab.workshop.plan import ClassPlan
from faultlab.workshop.roster import DISK_FULL, Roster, Seat
from faultlab.workshop.slots import Slots
from faultlab.workshop.stacks import Stacks

_AT_ONCE = 2  # starts and checks; more of them only delay each other


def in_one_line(error: Exception) -> str:
    """Return an error in one line, for the person who runs the server."""
    expected = isinstance(error, Problem | OSError)
    return str(error) if expected else f"{type(error).__name__}: {error}"


class Desk:
    """The journal records everything; there is no other state. All runs in one event loop."""

    def __init__(self, plan: ClassPlan, roster: Roster, journal: Journal, stacks: Stacks) -> None:
        self.plan = plan
        self.roster = roster
        self.journal = journal
        self.stacks = stacks
        self.doing: dict[int, str] = {}  # what a seat waits for now, as text
        self._since: dict[int, float] = {}  # when it began to wait
        self._seats = {seat.number: asyncio.Lock() for seat in roster.seats}
        # Held while the stack of a seat is removed or replaced: the next one can have its name.
        self._replacing = {seat.number: asyncio.Lock() for seat in roster.seats}
        self._slots = Slots(_AT_ONCE)
        # The next change sets it. Take it before looking, to miss none.
        self.change = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    def note(self, happened: Event, seat: int | None = None, **facts: Any) -> None:
        """Record an event, let it count, and show it on all pages."""
        self.roster.apply(self.journal.add(happened, seat, **facts))
        self.show()

    def show(self) -> None:
        """Wake everything that waits for a change."""
        self.change.set()
        self.change = asyncio.Event()

    def waited(self, seat: Seat) -> float:
        """Return for how many seconds a seat has waited."""
        return (now := self.journal.now()) - self._since.get(seat.number, now)

    async def leave(self) -> None:
        """Stop what is in progress; the same command continues it."""
        for task in self._tasks:
            task.cancel()
        self.stacks.processes.terminate()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.stacks.processes.gone()

    def _must_be_free(self, seat: Seat) -> None:
        if self.roster.ended:
            raise CannotRun("The class has ended.")
        if seat.number in self.doing:
            raise CannotRun(f"Wait a moment: {self.doing[seat.number]}.")

    def _must_be(self, seat: Seat, *states: str) -> None:
        if self.roster.paused:  # also after its end
            raise CannotRun(f"The class {'has ended' if self.roster.ended else 'is paused'}.")
        if seat.turn.state not in states:
            raise CannotRun(f"Not now: this lab is {seat.turn.state}.")

    def _must_be_up(self, seat: Seat) -> None:
        if seat.turn.gone:
            raise CannotRun(f"{DISK_FULL} Your trainer can start the lab over.")

    def _later(self, work: Coroutine[Any, Any, None], seat: Seat) -> None:
        self.doing[seat.number] = "a moment"  # from now on, so that a second click finds it busy

        async def noted() -> None:
            try:
                await work
            except Exception as error:  # also one of ours, which no page would show
                print(f"faultlab: {seat.name}: {in_one_line(error)}", file=sys.stderr)
                with suppress(Problem):
                    self.note(Event.FAILED, seat.number, why=in_one_line(error))
            finally:  # it can have found nothing to do
                self.doing.pop(seat.number, None)
                self.show()

        task = asyncio.get_running_loop().create_task(noted())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _shown(self, seat: Seat, doing: str) -> None:
        """Show on all pages what a seat waits for."""
        self.doing[seat.number] = doing
        self.show()

    @asynccontextmanager
    async def _busy(self, seat: Seat, doing: str) -> AsyncIterator[None]:
        """Do one thing at a time for a seat."""
        async with self._seats[seat.number]:
            self._since[seat.number] = self.journal.now()
            self._shown(seat, doing)
            try:
                yield
            finally:
                self.doing.pop(seat.number, None)
                self._since.pop(seat.number, None)
                self.show()
