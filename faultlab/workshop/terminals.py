"""Terminals: the open terminals of browsers, and the reasons for which they end."""

import asyncio
from dataclasses import dataclass, field
from functools import partial

from starlette.exceptions import HTTPException
from starlette.websockets import WebSocket

from faultlab.workshop import tty
from faultlab.workshop.access import Allowance, Visitor
from faultlab.workshop.guard import Guard
from faultlab.workshop.roster import Seat, Turn
from faultlab.workshop.session import Session
from faultlab.workshop.slots import Pace

_MOST = 12  # of a visitor at a seat, at once
# Seconds between two that a seat opens. To open and close one takes Docker 0.1 s of CPU time, which
# is in no limit of the seat.
_APART = 1.0


@dataclass
class OpenTerminal:
    """An open terminal: its visitor, its token, its turn; `gone` ends it."""

    visitor: Visitor
    token: str
    seat: Seat
    turn: Turn
    gone: asyncio.Event


@dataclass
class Terminals:
    """The open terminals of one class."""

    session: Session
    guard: Guard
    open: list[OpenTerminal] = field(default_factory=list)
    # For all terminals of a seat: faster than a person can read, and little work for the server.
    _output: Allowance = field(default_factory=partial(Allowance, rate=2**18, stock=2**20))
    apart: float = _APART
    _pace: dict[int, Pace] = field(default_factory=dict)
    typing: asyncio.Event = field(default_factory=asyncio.Event)  # set while typing counts

    async def serve(self, page: WebSocket) -> None:
        """Give a page a shell on a machine of a seat."""
        number, machine = page.path_params["seat"], page.path_params["machine"]
        visitor = self.guard.admit(page, number)
        seat = self.session.roster.seat(number)
        if not seat.turn.up:
            raise HTTPException(403, "There is no lab yet.")
        if machine not in self.session.machines(seat):
            raise HTTPException(403, "There is no such machine.")
        mine = [one for one in self.open if one.visitor == visitor and one.seat is seat]
        if len(mine) >= _MOST:
            raise HTTPException(403, f"{_MOST} terminals are open: close one, then try again.")
        one = OpenTerminal(visitor, self.guard.token(page), seat, seat.turn, asyncio.Event())
        self.open.append(one)
        try:
            await self._turn(page, one)
            await page.accept()
            found = partial(self.session.stacks.terminal, seat, machine)
            printed = partial(self._output.take, str(number))
            await tty.serve(page, found, self.typing, one.gone, printed)
        finally:
            self.open.remove(one)

    async def _turn(self, page: WebSocket, one: OpenTerminal) -> None:
        """Wait until the seat can open one more. Raises HTTPException if it is too late then."""
        await page.receive()  # its request; what comes next is that it goes
        turn = asyncio.create_task(self._pace.setdefault(one.seat.number, Pace(self.apart)).pass_())
        goes = asyncio.create_task(page.receive())
        ends = asyncio.create_task(one.gone.wait())
        try:
            done, _ = await asyncio.wait({turn, goes, ends}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (turn, goes, ends):
                task.cancel()
            await asyncio.gather(turn, goes, ends, return_exceptions=True)
        if done != {turn}:
            raise HTTPException(403, "This lab has ended, or this page has gone.")

    def update(self) -> None:
        """Let typing count or not, and end terminals whose time is up."""
        (self.typing.clear if self.session.roster.paused else self.typing.set)()
        self.end_stale()

    def end_all(self) -> None:
        """End every terminal."""
        for one in self.open:
            one.gone.set()

    def end_stale(self) -> None:
        """End the terminals whose token is no longer valid, or whose stack has been replaced."""
        for one in self.open:
            there = one.seat.turn is one.turn and one.turn.up
            if not there or not self.guard.admits(one.visitor, one.token):
                one.gone.set()
