"""Stacks: each seat has a stack of its own, which the command line starts, checks and removes."""

import asyncio
from collections.abc import Callable, Iterable

from faultlab.core import naming
from faultlab.core.defaults import MYSTERY
from faultlab.engine.contract import Machine, Shelled
from faultlab.engine.stack import Stack
from faultlab.lab import services
from faultlab.lab.model import bytes_of
from faultlab.run import placement
from faultlab.workshop.plan import Plan
from faultlab.workshop.processes import Outcome, Processes
from faultlab.workshop.roster import Seat, Turn

_SECONDS, _CHECK_SECONDS = 900, 300  # after which a command hangs
STEPS = {
    "images": "looking for what has to be built",
    "stack": "starting its containers",
    "healthy": "measuring it before anything is wrong",
    "inject": "setting it up",
    "symptom": "measuring what its users meet",
}


class Stacks:
    """The stacks of all seats of a class. All methods run in one event loop.

    `faultlab start`, `check` and `down` run with the seat's namespace: what a lab does is the same
    here as at a desk, and a command that hangs holds up no other seat.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.processes = Processes()

    def name(self, seat: Seat) -> str:
        """Return the name of the stack that a seat works at."""
        return f"faultlab-{self._namespace(seat)}-{self._lab(seat.turn)}"

    async def start(self, seat: Seat, tell: Callable[[str], None]) -> Outcome:
        """Start the lab of a seat on a fresh stack; `tell` gets its steps in words for people."""
        removed = await self.remove(seat)
        if removed.code != 0:
            return removed

        def hear(step: str) -> None:  # by its name alone: its text says too much
            if step in STEPS:
                tell(STEPS[step])

        blind = ["--blind"] if self.plan.blind else []
        words = ("start", seat.turn.lab, *blind, "--engine", "local")
        return await self.run(seat, *words, hear=hear)

    async def check(self, seat: Seat) -> Outcome:
        """Check the lab of a seat."""
        return await self.run(seat, "check", self._lab(seat.turn), seconds=_CHECK_SECONDS)

    async def remove(self, seat: Seat) -> Outcome:
        """Remove the stack that a seat works at."""
        return await self._down(seat, self._lab(seat.turn))

    async def remove_all(self, seat: Seat) -> str:
        """Remove every stack that a seat has had; return the last error, or nothing."""
        error = ""
        for lab in dict.fromkeys(self._lab(turn) for turn in seat.turns[: seat.at + 1]):
            removed = await self._down(seat, lab)
            if removed.code != 0:
                error = removed.error
        return error

    async def act(self, seat: Seat, daemon: str, act: Callable[[Machine], None]) -> None:
        """Do something to a daemon of a seat's stack."""
        await asyncio.to_thread(lambda: act(self._machine(seat, daemon)))

    async def too_large(self, seats: Iterable[Seat]) -> list[Seat]:
        """Return the seats whose stacks have more on the disk than a seat may have."""
        sizes = await asyncio.to_thread(lambda: placement.local().on_disk())
        most = bytes_of(self.plan.seat_disk)
        return [seat for seat in seats if sizes.get(self.name(seat), 0) > most]

    async def cut_off(self, seat: Seat) -> None:
        """Remove the stack of a seat at once, whatever is being done with it."""
        await asyncio.to_thread(lambda: placement.local().down(self.name(seat)))

    def terminal(self, seat: Seat, machine: str) -> Shelled:
        """Return a terminal in a machine or daemon of a seat's stack. It waits for the engine."""
        return self._machine(seat, machine).terminal()

    def _machine(self, seat: Seat, name: str) -> Machine:
        return Stack(placement.local(), self.name(seat))[name]

    async def run(
        self,
        seat: Seat,
        *words: str,
        seconds: float = _SECONDS,
        hear: Callable[[str], None] = lambda _: None,
    ) -> Outcome:
        """Run one command in a seat's namespace; `hear` gets each step's name."""
        env = {
            "FAULTLAB_NAMESPACE": self._namespace(seat),
            services.LIMITS: self.plan.limits,
            services.LIMITS_IN_ALL: self.plan.seat_limits,
        }
        return await self.processes.run(words, env, seconds, hear)

    async def _down(self, seat: Seat, lab: str) -> Outcome:
        return await self.run(seat, "down", lab)

    def _namespace(self, seat: Seat) -> str:
        """Return the name that keeps the stacks of a seat apart from all others."""
        outer = naming.prefix().removeprefix("faultlab-")
        return f"{outer}{self.plan.id}-{seat.number}"

    def _lab(self, turn: Turn) -> str:
        """Return the name that a lab has in its stack's; in a blind class it says nothing."""
        return MYSTERY if self.plan.blind else turn.lab
