"""Room: a class that is going on: seats start, check, answer, give up and move on.

What changes a stack is done by the command line, `faultlab start`, `check` and `down`, each in a
process of its own with the seat's namespace: what a lab does is the same here as at a desk, and one
that hangs holds up nobody else. Everything is noted in the journal; nothing else is remembered.
"""

from __future__ import annotations

import asyncio
import heapq
import json
import math
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from docker.utils import parse_bytes

from faultlab.run import placement
from faultlab.core import naming
from faultlab.core.command import DIE_WITH_US
from faultlab.core.defaults import MYSTERY
from faultlab.core.errors import BadInput, CannotRun, Problem, SaidNo
from faultlab.engine import stack
from faultlab.engine.contract import Engine, Machine
from faultlab.lab import services
from faultlab.lab.model import Lab, Limit
from faultlab.learn import mystery
from faultlab.workshop import roster as what
from faultlab.workshop.journal import Journal
from faultlab.workshop.plan import Plan
from faultlab.workshop.roster import Roster, Seat, Turn, known

_AT_ONCE = 2  # starts and checks: more only make each other late
_TRIES = 3  # to start a lab: what others do at that moment can spoil its proof
_SECONDS, _CHECK_SECONDS = 900, 300  # after which a command hangs
_STEPS = {
    "images": "looking for what has to be built",
    "stack": "starting its containers",
    "healthy": "measuring it before anything is wrong",
    "inject": "setting it up",
    "symptom": "measuring what its users meet",
}


@dataclass(frozen=True)
class Said:
    """How a command ended: its exit code, what it printed as JSON, and its last line."""

    code: int
    told: dict[str, Any] = field(default_factory=dict)
    last: str = ""


class Slots:
    """Who may measure now: two calm labs at once, or one that makes load and wants the machine.

    A check goes before a start: somebody waits for it.
    """

    def __init__(self, count: int) -> None:
        self._free = count
        self._count = count
        self._waiting: list[tuple[int, int, asyncio.Event]] = []  # a heap: urgency, number
        self._number = 0

    @asynccontextmanager
    async def take(self, lab: Lab, urgent: bool) -> AsyncIterator[None]:
        """Wait for a turn, and have it."""
        wanted = self._count if lab.load else 1
        mine = (0 if urgent else 1, self._number, asyncio.Event())
        self._number += 1
        heapq.heappush(self._waiting, mine)
        try:
            while self._waiting[0] is not mine or self._free < wanted:
                mine[2].clear()
                await mine[2].wait()
        finally:
            self._waiting.remove(mine)
            heapq.heapify(self._waiting)
            self._wake()
        self._free -= wanted
        self._wake()
        try:
            yield
        finally:
            self._free += wanted
            self._wake()

    def _wake(self) -> None:
        if self._waiting:
            self._waiting[0][2].set()


class Room:
    """One class that is going on. All methods run in one event loop."""

    def __init__(self, plan: Plan, roster: Roster, journal: Journal) -> None:
        self.plan = plan
        self.roster = roster
        self.journal = journal
        self.doing: dict[int, str] = {}  # what a seat waits for now, for people
        self._seats = {seat.number: asyncio.Lock() for seat in roster.seats}
        self._slots = Slots(_AT_ONCE)
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._processes: set[asyncio.subprocess.Process] = set()

    # --- what others see -----------------------------------------------------------------------

    def note(self, happened: str, seat: int | None = None, **facts: Any) -> None:
        """Write an event down, let it count, and let everybody see it."""
        self.roster.apply(self.journal.add(happened, seat, **facts))
        self.show()

    def show(self) -> None:
        """Let everybody who waits for a change look again."""
        self._changed.set()
        self._changed = asyncio.Event()

    @property
    def change(self) -> asyncio.Event:
        """Set by the next change. Taken before looking, none is missed."""
        return self._changed

    def namespace(self, seat: Seat) -> str:
        """What keeps the stacks of a seat apart from all others."""
        outer = naming.prefix().removeprefix("faultlab-")
        return f"{outer}{self.plan.id}-{seat.number}"

    def stack(self, seat: Seat) -> str:
        """The name of the stack that a seat works at."""
        return f"faultlab-{self.namespace(seat)}-{self._called(seat.turn)}"

    def lab(self, turn: Turn) -> Lab:
        """The lab of a turn, under the name that its stack has."""
        return known(turn.lab).called(MYSTERY) if self.plan.blind else known(turn.lab)

    def machines(self, seat: Seat) -> list[str]:
        """Where a terminal can be opened: machines first, then the daemons that joined them."""
        lab = known(seat.turn.lab)
        return lab.services.needed(lab.daemons)

    def _called(self, turn: Turn) -> str:
        return MYSTERY if self.plan.blind else turn.lab

    # --- what a seat can do --------------------------------------------------------------------

    def begin(self) -> None:
        """Start the labs of all seats that have none yet, also of those that were cut off."""
        for seat in self.roster.seats:
            if seat.turn.state in ("waiting", "starting"):
                self._later(self._start(seat), seat)

    def restore(self, seat: Seat) -> None:
        """Give a seat a fresh stack with its fault in."""
        self._must_be_free(seat)
        self._later(self._start(seat), seat)

    def next(self, seat: Seat) -> None:
        """Put the next lab in front of a seat. Raises BadInput when it has none."""
        if seat.last:
            raise BadInput(f"{seat.name} has no lab after this one.")
        self._must_be_free(seat)
        self._later(self._move_on(seat), seat)

    async def restart(self, seat: Seat, daemon: str) -> None:
        """Restart a daemon, as `docker restart` does. Raises BadInput for what is none."""
        await self._act(seat, daemon, lambda machine: machine.restart())

    async def limit(self, seat: Seat, daemon: str, limit: Limit) -> None:
        """Change what a daemon may use, as `docker update` does, up to what the class allows."""
        most = services.limits(self.plan.limits)
        if (limit.cpus or 0) > most.get("cpus", math.inf):
            raise BadInput(f"No more than {most['cpus']:g} processors here.")
        memory = parse_bytes(limit.memory) if limit.memory else 0
        if memory > parse_bytes(most.get("mem_limit", "1000g")):
            raise BadInput(f"No more memory than {most['mem_limit']} here.")
        await self._act(seat, daemon, lambda machine: machine.limit(limit.cpus, limit.memory))

    async def _act(self, seat: Seat, daemon: str, act: Callable[[Machine], None]) -> None:
        self._must_be(seat, "red", "green", "over")
        if daemon not in self.daemons(seat):
            raise BadInput(f"There is no daemon {daemon[:40]!r}.")
        self._must_be_free(seat)
        async with self._busy(seat, f"docker is at {daemon}"):
            name = self.stack(seat)
            await asyncio.to_thread(lambda: act(stack.Stack(placement.local(), name)[daemon]))

    def daemons(self, seat: Seat) -> list[str]:
        """What can be restarted: a machine would lose its namespaces, and the fault with them."""
        return list(known(seat.turn.lab).daemons)

    async def check(self, seat: Seat) -> None:
        """Measure, and note what came of it. Raises CannotRun while nothing can be measured.

        What was asked for in time counts, however long the measurement takes.
        """
        self.tick(now())
        self._must_be(seat, "red", "green")
        self._must_be_free(seat)
        async with (
            self._busy(seat, "measuring what its users meet now"),
            self._slots.take(known(seat.turn.lab), urgent=True),
        ):
            self._must_be(seat, "red", "green")
            said = await self._run(
                seat, "check", self._called(seat.turn), "--json", seconds=_CHECK_SECONDS
            )
            if self.roster.ended:
                return
            found = said.told.get("findings", [])
            if found:
                fixed = said.told["verdict"] == "pass"
                self.note(what.CHECKED, seat.number, fixed=fixed, findings=found)
            else:
                why = said.told.get("error") or said.last or "no answer"
                self.note(what.CHECKED, seat.number, fixed=False, findings=[], why=why)

    def hint(self, seat: Seat) -> None:
        """Give the next hint. Raises CannotRun when there is none left."""
        self._must_be(seat, "red")
        turn = seat.turn
        if turn.hints >= self.hints(turn):
            raise CannotRun("There are no more hints.")
        self.note(what.HINTED, seat.number, given=turn.hints + 1)

    def hints(self, turn: Turn) -> int:
        """How many there are for a turn."""
        of_lab = len(known(turn.lab).hint)
        return of_lab if self.plan.hints is None else min(of_lab, self.plan.hints)

    def answer(self, seat: Seat, component: str, resource: str, cause: str) -> None:
        """Note a diagnosis. Raises BadInput for a word that is no term, CannotRun when too late."""
        self._must_be(seat, "red", "green")
        if seat.turn.told(self.plan.blind):  # by a debrief that is open
            raise CannotRun("It has been said what it was.")
        self.note(what.ANSWERED, seat.number, answer=mystery.answered(component, resource, cause))

    def give_up(self, seat: Seat) -> None:
        """Let a seat be told."""
        self._must_be(seat, "red", "green")
        self.note(what.GAVE_UP, seat.number)

    def tick(self, now: float) -> None:
        """What time alone brings about: a lab that is over."""
        if self.plan.minutes is None or self.roster.paused:
            return
        for seat in self.roster.seats:
            late = seat.turn.seconds(now) >= 60 * self.plan.minutes
            busy = seat.number in self.doing  # perhaps with a check that was asked for in time
            if late and not busy and seat.turn.state == "red" and not seat.turn.gave_up:
                self.note(what.TIME_OVER, seat.number)

    def pause(self, on: bool) -> None:
        """Stop all clocks and let nobody act, or go on."""
        if on != self.roster.paused and not self.roster.ended:
            self.note(what.PAUSED if on else what.RESUMED)

    async def end(self, told: Callable[[str], None] = lambda _: None) -> None:
        """End the class: remove every stack, one seat after the other; results stay.

        Raises CannotRun when something could not be removed; the rest is removed all the same.
        """
        if not self.roster.ended:
            self.note(what.ENDED)
        await self.leave()
        trouble = ""
        for seat in self.roster.seats:
            told(f"removing the stack of {seat.name}")
            self.doing[seat.number] = "removing its stack"
            self.show()
            for name in dict.fromkeys(self._called(turn) for turn in seat.turns[: seat.at + 1]):
                said = await self._run(seat, "down", name, "--json")
                if said.code != 0:
                    trouble = said.told.get("error", said.last)
            self.doing.pop(seat.number, None)
        self.show()
        if trouble:
            raise CannotRun(trouble, "faultlab sweep")

    async def leave(self) -> None:
        """Stop what is under way; the same command goes on with it."""
        for task in self._tasks:
            task.cancel()
        for process in self._processes:
            process.terminate()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        while self._processes:
            await asyncio.sleep(0.05)

    def _must_be_free(self, seat: Seat) -> None:
        if self.roster.ended:
            raise CannotRun("The class has ended.")
        if seat.number in self.doing:
            raise CannotRun(f"Wait a moment: {self.doing[seat.number]}.")

    def _must_be(self, seat: Seat, *states: str) -> None:
        if self.roster.ended:
            raise CannotRun("The class has ended.")
        if self.roster.paused:
            raise CannotRun("The class is paused.")
        if seat.turn.state not in states:
            raise CannotRun(f"Not now: this lab is {seat.turn.state}.")

    # --- how it is done ------------------------------------------------------------------------

    async def _start(self, seat: Seat) -> None:
        async with (
            self._busy(seat, "waiting until others have started"),
            self._slots.take(known(seat.turn.lab), urgent=False),
        ):
            if self.roster.ended:
                return
            self.note(what.STARTING, seat.number)
            for _ in range(_TRIES):
                said = await self._fresh(seat)
                if said.code != SaidNo.exit_code:  # the proof was spoiled; nothing else may help
                    break
            if said.code == 0:
                self.note(what.READY, seat.number)
            else:
                self.note(what.FAILED, seat.number, why=said.told.get("error", said.last))

    async def _fresh(self, seat: Seat) -> Said:
        said = await self._run(seat, "down", self._called(seat.turn), "--json")
        if said.code != 0:
            return said
        blind = ["--blind"] if self.plan.blind else []
        return await self._run(seat, "start", seat.turn.lab, *blind, "--engine", "local", tell=True)

    async def _move_on(self, seat: Seat) -> None:
        async with self._busy(seat, "removing the last lab"):
            await self._run(seat, "down", self._called(seat.turn), "--json")
            self.note(what.MOVED_ON, seat.number)
        await self._start(seat)

    def _later(self, work: Coroutine[Any, Any, None], seat: Seat) -> None:
        self.doing[seat.number] = "a moment"  # from now on: a second click finds it busy

        async def noted() -> None:
            try:
                await work
            except (Problem, OSError) as problem:
                print(f"faultlab: {seat.name}: {problem}", file=sys.stderr)
                with suppress(Problem):
                    self.note(what.FAILED, seat.number, why=str(problem))

        task = asyncio.get_running_loop().create_task(noted())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @asynccontextmanager
    async def _busy(self, seat: Seat, doing: str) -> AsyncIterator[None]:
        """One thing at a time for a seat."""
        async with self._seats[seat.number]:
            self.doing[seat.number] = doing
            self.show()
            try:
                yield
            finally:
                self.doing.pop(seat.number, None)
                self.show()

    async def _run(
        self, seat: Seat, *words: str, tell: bool = False, seconds: float = _SECONDS
    ) -> Said:
        """One command of ours in the seat's namespace; with `tell`, its steps are shown."""
        env = {
            **os.environ,
            "FAULTLAB_NAMESPACE": self.namespace(seat),
            services.LIMITS: self.plan.limits,
            "PYTHONUNBUFFERED": "1",
        }
        process = await asyncio.create_subprocess_exec(
            *DIE_WITH_US,
            *(sys.executable, "-m", "faultlab", *words),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=env,
            cwd=Path(__file__).resolve().parents[2],
        )
        assert process.stdout is not None
        self._processes.add(process)
        lines: list[str] = []
        try:
            async with asyncio.timeout(seconds):
                async for raw in process.stdout:
                    lines.append(raw.decode(errors="replace").rstrip())
                    if tell and (step := _step(lines[-1])):
                        self.doing[seat.number] = step
                        self.show()
                code = await process.wait()
        except TimeoutError:
            lines.append(f"it did not end within {seconds:g} s")
            code = CannotRun.exit_code
        finally:
            if process.returncode is None:
                process.terminate()
                await process.wait()
            self._processes.discard(process)
        return Said(code, _json(lines), _complaint(lines))


def _step(line: str) -> str:
    """What `start` is at, by the name of the step alone: what comes of it would say too much."""
    return _STEPS.get(line.partition(" ")[0], "")


def _json(lines: list[str]) -> dict[str, Any]:
    """The JSON object among the lines, if there is one."""
    text = "\n".join(lines)
    if "{" not in text:
        return {}
    try:
        told, _ = json.JSONDecoder().raw_decode(text[text.index("{") :])
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def _complaint(lines: list[str]) -> str:
    """The last line that says what went wrong."""
    said = [line.removeprefix("faultlab: ") for line in lines if line.startswith("faultlab: ")]
    return (said or [line for line in lines if line] or [""])[-1]


def now() -> float:
    """Seconds since 1970, as the journal counts."""
    return time.time()
