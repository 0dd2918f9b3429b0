"""Stacks: each seat has its own stack, which the command line starts, checks and removes."""

import asyncio
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from faultlab.core import naming, paths
from faultlab.core.defaults import MYSTERY
from faultlab.core.errors import CannotRun
from faultlab.core.events import Kind, Step
from faultlab.core.processes import Outcome, Processes
from faultlab.engine.contract import Engine, Machine, Shelled
from faultlab.engine.docker import docker_list
from faultlab.engine.stack import Stack
from faultlab.lab import checks, services
from faultlab.lab import loader as labs
from faultlab.lab.model import bytes_of
from faultlab.learn import hints
from faultlab.run import looks, placement, visit, visitor
from faultlab.run.mark import Marks
from faultlab.run.phase import CHECK, LATER
from faultlab.run.visit import Page, Visit
from faultlab.workshop.plan import ClassPlan
from faultlab.workshop.roster import Seat, Turn
from faultlab.workshop.surprise import Surprise

_PROGRAM = Path(__file__).resolve().parents[2]  # the folder of the package
_SECONDS, _CHECK_SECONDS = 900, 300  # after this time a command counts as stuck
STEPS = {
    "images": "checking what must be built",
    "stack": "starting its containers",
    "healthy": "measuring it before the fault",
    "inject": "setting it up",
    "symptom": "measuring what its users experience",
}
# The parts of a check, by what it says: the first one begins with its step.
_SYMPTOM = "symptom"
_PARTS = ("measuring what its users meet", looks.ANSWERS, looks.PROGRAMS)
AGAIN = "measuring once more, because one look did not decide it"


def part_of(step: Step) -> str:
    """Return what a step of a check does, in words of our own: its text can spoil."""
    begun = step.event == Kind.BEGIN
    if not begun and step.text not in _PARTS:
        return AGAIN
    number = 0 if begun else _PARTS.index(step.text)
    return f"part {number + 1} of {len(_PARTS)}: {_PARTS[number]}"


class Stacks:
    """The stacks of all seats of a class. All methods run in one event loop.

    `faultlab start`, `check` and `down` run with the seat's namespace. So a lab does the same here
    as elsewhere, and a command that is stuck delays no other seat.
    """

    # What helps when a machine has ended: only a fresh stack has its settings.
    fresh = "Your trainer can start the lab over; what was done on it is lost."

    def __init__(self, plan: ClassPlan) -> None:
        self.plan = plan
        self.processes = Processes()
        self.took: dict[int, float] = {}  # seconds of the last look at a seat's stack

    @property
    def engine(self) -> str:
        """Return the name of the engine."""
        return self.plan.engine

    def name(self, seat: Seat) -> str:
        """Return the name of the stack of a seat."""
        return naming.stack_name(self._lab(seat.turn), self._namespace(seat))

    async def start(self, seat: Seat, tell: Callable[[str], None]) -> Outcome:
        """Start the lab of a seat on a fresh stack; `tell` gets its steps as text."""
        removed = await self._down(seat, self._lab(seat.turn))
        if removed.code != 0:
            return removed

        def hear(step: Step) -> None:  # by its name alone, because its text can spoil
            if step.event == Kind.BEGIN and step.name in STEPS:
                tell(STEPS[step.name])
            elif step.event == Kind.STEP and step.name == _SYMPTOM:
                self.took[seat.number] = step.seconds

        blind = ["--blind"] if seat.turn.blind else []
        room = ["--room", seat.turn.room] if seat.turn.room else []
        words = ("start", seat.turn.lab, *blind, *room, "--engine", self.engine)
        return await self.run(seat, *words, hear=hear)

    async def check(
        self, seat: Seat, late: bool = False, tell: Callable[[str], None] = lambda _: None
    ) -> Outcome:
        """Check the lab of a seat; `tell` gets the part that it is at, as text.

        `late`: again, some time after a check that has passed.
        """

        def hear(step: Step) -> None:
            if step.event == Kind.STEP and step.name in (CHECK, LATER):
                self.took[seat.number] = step.seconds
            elif step.name in (CHECK, LATER):
                tell(part_of(step))

        how = ["--late"] if late else []
        words = ("check", self._lab(seat.turn), "--later", f"{self.plan.later if late else 0:g}")
        return await self.run(seat, *words, *how, seconds=_CHECK_SECONDS, hear=hear)

    async def join(self, seat: Seat, what: Surprise) -> Outcome:
        """Let a fault or a decoy join the lab of a seat; what has joined is not put in twice."""
        its = [what.fault] if what.fault else ["--decoy", what.decoy]
        return await self.run(seat, "join", self._lab(seat.turn), *its, seconds=_CHECK_SECONDS)

    async def hint(self, seat: Seat) -> int | None:
        """Return the number of the next hint that applies to a seat's stack, if there is one."""
        lab, numbers = labs.loaded(seat.turn.whole), [*seat.turn.next_hints()]

        return await asyncio.to_thread(hints.following, lab, numbers, lambda: self._stack(seat))

    async def remove(self, seat: Seat) -> str:
        """Remove the stack of a seat; return what stays up without it. Raises CannotRun."""
        removed = await self._down(seat, self._lab(seat.turn))
        if removed.code:
            raise CannotRun(removed.error)
        return str(removed.facts.get("stays", ""))

    async def remove_all(self, seat: Seat) -> str:
        """Remove every stack that a seat has had; return the last error, or an empty text."""
        error = ""
        begun = [i for i, turn in enumerate(seat.turns) if i <= seat.at or turn.state != "waiting"]
        each = {self.name(its): its for its in (replace(seat, at=i) for i in begun)}
        for its in each.values():
            removed = await self._down(its, self._lab(its.turn))
            if removed.code != 0:
                error = removed.error
        return error

    async def act(self, seat: Seat, daemon: str, act: Callable[[Machine], None]) -> None:
        """Apply an action to a daemon of a seat's stack. Raises CannotRun."""
        await asyncio.to_thread(lambda: act(self._on_its_machine(seat, daemon)))

    def parts(self) -> dict[str, dict[str, docker_list.Part]] | None:
        """Return the containers of every stack on this machine; None if Docker does not say."""
        return docker_list.stacks() if self.engine != "kubernetes" else None

    async def too_large(self, seats: Iterable[Seat]) -> list[Seat]:
        """Return the seats whose stacks use more disk space than a seat can have."""
        sizes = await asyncio.to_thread(lambda: self._engine().on_disk())
        most = bytes_of(self.plan.seat_disk)
        return [seat for seat in seats if sizes.get(self.name(seat), 0) > most]

    async def cut_off(self, seat: Seat) -> None:
        """Remove the stack of a seat at once, even if a command is working on it."""
        await asyncio.to_thread(lambda: self._engine().down(self.name(seat)))

    def visits(
        self,
        seat: Seat,
        begun: Callable[[list[Page], Marks], None],
        hear: Callable[[Visit], None],
        over: threading.Event,
    ) -> None:
        """Visit the stack of a seat until it is over; `begun` gets the pages. It waits for that.

        Raises CannotRun if the stack is gone.
        """
        stack, lab = self._stack(seat), labs.loaded(seat.turn.lab)
        pages = visit.pages(lab, checks.load(lab))
        begun(pages, Marks(stack.run_id))
        if pages:
            visitor.follow(stack, pages, paths.runs() / stack.run_id, hear, over)
        else:
            over.wait()

    def terminal(self, seat: Seat, machine: str) -> Shelled:
        """Return a terminal on a machine or daemon of a seat's stack. It waits for the engine.

        Raises CannotRun, with the button to press, if it is not running.
        """
        found = self._machine(seat, machine)
        state = found.state
        if state.running:
            return found.terminal()
        daemon = machine in labs.loaded(seat.turn.stacked).daemons
        button = "Press Restart under The host." if daemon else self.fresh
        raise CannotRun(f"{machine} is not running (exit code {state.exit_code}). {button}")

    def _machine(self, seat: Seat, name: str) -> Machine:
        stack = self._stack(seat)
        if name not in stack:
            raise CannotRun(f"{name} is gone. {self.fresh}")
        return stack[name]

    def _on_its_machine(self, seat: Seat, daemon: str) -> Machine:
        """Return a daemon. Raises CannotRun if the machine that it joined has ended."""
        found = self._machine(seat, daemon)
        home = labs.loaded(seat.turn.stacked).services.daemons[daemon]
        if not self._machine(seat, home).state.running:
            raise CannotRun(f"{home} has ended, and {daemon} cannot run without it. {self.fresh}")
        return found

    def _stack(self, seat: Seat) -> Stack:
        return Stack(self._engine(), self.name(seat))

    def _engine(self) -> Engine:
        return placement.allowed(self.engine)[0].reach()

    async def run(
        self,
        seat: Seat,
        *words: str,
        seconds: float = _SECONDS,
        hear: Callable[[Step], None] = lambda _: None,
    ) -> Outcome:
        """Run one command in a seat's namespace; `hear` gets each of its steps."""
        return await self.processes.run(words, self._env(seat), seconds, hear, folder=_PROGRAM)

    def _env(self, seat: Seat) -> dict[str, str]:
        """Return what a command for this seat has in its environment, in addition to ours."""
        return {
            "FAULTLAB_NAMESPACE": self._namespace(seat),
            services.LIMITS: self.plan.limits,
            services.LIMITS_IN_ALL: self.plan.seat_limits,
            services.DISK: self.plan.seat_disk,
        }

    async def _down(self, seat: Seat, lab: str) -> Outcome:
        return await self.run(seat, "down", lab)

    def _namespace(self, seat: Seat) -> str:
        """Return the namespace that separates the stacks of a seat from all others.

        Each block has its own, so that a stack can be prepared for the next one.
        """
        outer = naming.prefix().removeprefix("faultlab-")
        block = f"b{seat.turn.block}" if seat.turn.block else ""
        return f"{outer}{self.plan.id}-{seat.number}{block}"

    def _lab(self, turn: Turn) -> str:
        """Return the lab's part of its stack's name; of a secret lab it reveals nothing."""
        return MYSTERY if turn.blind else turn.lab
