"""Session: in a running class, seats start, check, answer, give up and move on."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from faultlab.core.defaults import MYSTERY
from faultlab.core.errors import BadInput, CannotRun, Problem, SaidNo
from faultlab.core.processes import Outcome
from faultlab.engine.contract import Machine
from faultlab.engine.docker.docker_list import Part
from faultlab.lab import loader as labs
from faultlab.lab import services
from faultlab.lab.model import Lab, Limit
from faultlab.learn import mystery
from faultlab.workshop.journal import Event, Journal
from faultlab.workshop.plan import ClassPlan
from faultlab.workshop.roster import DISK_FULL, STANDING, Roster, Seat, Turn
from faultlab.workshop.slots import Slots
from faultlab.workshop.stacks import Stacks

_ENDED = "exited"  # the begin of such a state
_NOT_LASTING = "It was repaired, but not for good."
_TRIES = 3  # to start a lab: the proof can be spoiled by other load
_AT_ONCE = 2  # starts and checks; more of them only delay each other


def in_one_line(error: Exception) -> str:
    """Return an error in one line, for the person who runs the server."""
    expected = isinstance(error, Problem | OSError)
    return str(error) if expected else f"{type(error).__name__}: {error}"


class Session:
    """One running class. The journal records everything; there is no other state.

    All of it runs in one event loop, and one thing at a time for each seat.
    """

    # In place of why a secret lab could not start: the reason can name what the lab changes.
    not_said = "Your trainer sees why."

    def __init__(self, plan: ClassPlan, roster: Roster, journal: Journal, stacks: Stacks) -> None:
        self.plan = plan
        self.roster = roster
        self.journal = journal
        self.stacks = stacks
        self.doing: dict[int, str] = {}  # what a seat waits for now, as text
        self._since: dict[int, float] = {}  # when it began to wait
        self._usual: dict[int, float] = {}  # how many seconds it waits if it takes as long as last
        self._seats = {seat.number: asyncio.Lock() for seat in roster.seats}
        # Held while the stack of a seat is removed or replaced: the next one can have its name.
        self._replacing = {seat.number: asyncio.Lock() for seat in roster.seats}
        self._slots = Slots(_AT_ONCE)
        # The next change sets it. Take it before looking, to miss none.
        self.change = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._there: dict[str, dict[str, Part]] = {}  # the containers of all stacks here

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

    def usual(self, seat: Seat) -> float:
        """Return the seconds of the last look, while a seat waits for another; 0 if unknown."""
        return self._usual.get(seat.number, 0.0)

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

    def lab(self, turn: Turn) -> Lab:
        """Return the lab of a turn, under the name of its stack."""
        return labs.loaded(turn.lab).called(MYSTERY) if self.blind(turn) else labs.loaded(turn.lab)

    def blind(self, turn: Turn) -> bool:
        """Return whether the lab of a turn is secret, and a diagnosis is asked for."""
        return turn.hidden(self.plan.blind)

    def machines(self, seat: Seat) -> list[str]:
        """Return where a terminal can be opened: machines, then the daemons that joined them."""
        lab = labs.loaded(seat.turn.lab)
        return lab.services.needed(lab.daemons)

    def begin(self) -> None:
        """Start the labs of all seats that have none yet, or whose start was interrupted."""
        for seat in self.roster.seats:
            if seat.turn.state in ("waiting", "starting"):
                self._later(self._start(seat), seat)

    def restore(self, seat: Seat) -> None:
        """Give a seat a fresh stack with the fault injected."""
        self._must_be_free(seat)
        self._later(self._start(seat), seat)

    def go_on(self, seat: Seat) -> None:
        """Do as `next`, for a participant. Raises BadInput before the debrief."""
        if seat.turn.state == "amber":
            raise BadInput("The next lab comes after this one was looked at again.")
        if not (seat.turn.told(self.blind(seat.turn)) or seat.turn.state == "failed"):
            raise BadInput("Finish this lab first: its debrief is not open yet.")
        self.next(seat)

    def next(self, seat: Seat) -> None:
        """Give a seat its next lab. Raises BadInput if it has none."""
        if seat.last:
            raise BadInput(f"{seat.name} has no lab after this one.")
        self._must_be_free(seat)
        self._later(self._move_on(seat), seat)

    async def restart(self, seat: Seat, daemon: str) -> None:
        """Restart a daemon, as `docker restart` does. Raises BadInput for anything else."""
        await self._act(seat, daemon, lambda machine: machine.restart())

    async def limit(self, seat: Seat, daemon: str, limit: Limit) -> None:
        """Change the limits of a daemon, as `docker update` does, up to those of the class."""
        if why := limit.beyond(services.limits(self.plan.limits)):
            raise BadInput(why)
        await self._act(seat, daemon, lambda machine: machine.limit(limit.cpus, limit.memory))

    async def _act(self, seat: Seat, daemon: str, act: Callable[[Machine], None]) -> None:
        self._must_be(seat, *STANDING)
        self._must_be_up(seat)
        if daemon not in self.daemons(seat):
            raise BadInput(f"There is no daemon {daemon[:40]!r}.")
        self._must_be_free(seat)
        async with self._busy(seat, f"docker is working on {daemon}"):
            await self.stacks.act(seat, daemon, act)

    def daemons(self, seat: Seat) -> list[str]:
        """Return what can be restarted. A machine would lose its namespaces and so the fault."""
        return list(labs.loaded(seat.turn.lab).daemons)

    def own(self, seat: Seat) -> dict[str, Any]:
        """Return what the page shows in addition if its learner owns the stacks.

        `over`: the learner can start the lab over.
        """
        return {"catalogue": None, "delay": "", "over": False}

    def lessons(self, seat: Seat | None) -> frozenset[str] | None:
        """Return the labs whose lessons a seat can read; None for all, as the trainer can."""
        if seat is None or not self.plan.blind:
            return None
        return frozenset(turn.lab for turn in seat.turns if turn.told(self.plan.blind))

    def parts(self, seat: Seat) -> dict[str, Part]:
        """Return the containers of a seat's stack, by machine or daemon, as last seen."""
        return self._there.get(self.stacks.name(seat), {})

    def states(self, seat: Seat, names: Iterable[str]) -> dict[str, str]:
        """Return the state of each of these machines and daemons that is known."""
        parts = self.parts(seat) if seat.turn.up else {}
        return {name: parts[name].state for name in names if name in parts}

    def ended(self, seat: Seat) -> list[str]:
        """Return the machines of a seat that have ended: only a fresh stack helps."""
        return self._ended(seat, {*self.machines(seat)} - {*self.daemons(seat)})

    def _ended(self, seat: Seat, names: Iterable[str]) -> list[str]:
        states = self.states(seat, sorted(names))
        return [name for name, state in states.items() if state.startswith(_ENDED)]

    def advice(self, seat: Seat) -> str:
        """Return what to do about what has ended; empty if nothing has.

        A fault can end a daemon, so that is told only after a check.
        """
        if ended := self.ended(seat):
            verb = "has" if len(ended) == 1 else "have"
            return f"{' and '.join(ended)} {verb} ended. {self.stacks.fresh}"
        daemons = self._ended(seat, self.daemons(seat)) if seat.turn.checks else []
        if daemons:
            return f"{daemons[0]} has ended. Press Restart under The host."
        return ""

    async def check(self, seat: Seat) -> None:
        """Measure, and record the result. Raises CannotRun if nothing can be measured now.

        A check that was requested in time counts, however long the measurement takes. A repair is
        looked at again later.
        """
        self.tick(self.journal.now())
        self._must_be(seat, "red", "green")
        self._must_be_up(seat)
        self._must_be_free(seat)
        async with (
            self._busy(seat, "measuring what its users meet now"),
            self._slots.take(labs.loaded(seat.turn.lab), urgent=True),
        ):
            self._must_be(seat, "red", "green")
            self._must_be_up(seat)
            turn = seat.turn
            outcome = await self._checked(seat)
            if self.roster.ended or seat.turn is not turn or not turn.up:
                return
            findings = outcome.facts.get("findings", [])
            if findings:
                fixed = outcome.facts["verdict"] == "pass"
                facts = {key: outcome.facts.get(key, []) for key in ("popular", "gone")}
                facts["findings"] = findings
                facts |= {"later": self.plan.later} if fixed and self.plan.later else {}
                self.note(Event.CHECKED, seat.number, fixed=fixed, **facts)
            else:
                why = outcome.error or "no answer"
                self.note(Event.CHECKED, seat.number, fixed=False, findings=[], why=why)

    async def _checked(self, seat: Seat, late: bool = False) -> Outcome:
        """Check a stack, and show meanwhile which part the check is at."""
        self._usual[seat.number] = self.stacks.took.get(seat.number, 0.0)
        try:
            return await self.stacks.check(seat, late, lambda part: self._shown(seat, part))
        finally:
            self._usual.pop(seat.number, None)

    async def _look_again(self, seat: Seat) -> None:
        """Look at a repair again, and record whether it lasts.

        What cannot be measured is no reason to lose it.
        """
        async with (
            self._busy(seat, "looking again at what its users meet"),
            self._slots.take(labs.loaded(seat.turn.lab), urgent=True),
        ):
            if seat.turn.state != "amber" or self.roster.paused:
                return
            for _ in range(_TRIES):
                outcome = await self._checked(seat, late=True)
                if found := outcome.facts.get("findings", []):
                    break
            if self.roster.ended or not seat.turn.up:
                return
            facts: dict[str, Any] = {"fixed": True, "why": f"Not looked at again: {outcome.error}"}
            if found:
                fixed = outcome.facts["verdict"] == "pass"
                facts = {"fixed": fixed, "findings": found, "why": "" if fixed else _NOT_LASTING}
            self.note(Event.LOOKED, seat.number, **facts)

    async def hint(self, seat: Seat) -> None:
        """Give the next hint that applies. Raises CannotRun when no other one does."""
        self._must_be(seat, "red")
        self._must_be_free(seat)
        turn = seat.turn
        number = None
        if len(turn.hints) < self.hints(turn):
            async with self._busy(seat, "looking for a hint"):
                number = await self.stacks.hint(seat)
        if number is None:
            self.note(Event.NO_HINT, seat.number)
            raise CannotRun("There is no other hint for what it is like now.")
        self.note(Event.HINTED, seat.number, number=number)

    def hints(self, turn: Turn) -> int:
        """Return how many hints there are for a turn."""
        of_lab = len(labs.loaded(turn.lab).hint)
        return of_lab if self.plan.hints is None else min(of_lab, self.plan.hints)

    def answer(self, seat: Seat, *faults: Sequence[str], sure: int | None = None) -> None:
        """Record a diagnosis: the component, the resource and the cause of each fault.

        `sure`: how sure the seat is, in per cent, which counts before a repair. Raises BadInput for
        an unknown word, CannotRun if it is too late.
        """
        self._must_be(seat, "red", "amber", "green")
        if seat.turn.told(self.blind(seat.turn)):  # after the debrief has opened
            raise CannotRun("The solution has already been shown.")
        first, *more = [mystery.answered(*fault) for fault in faults]
        facts: dict[str, Any] = {"also": more} if more else {}
        facts |= {} if sure is None else {"sure": sure}
        self.note(Event.ANSWERED, seat.number, answer=first, **facts)

    def give_up(self, seat: Seat) -> None:
        """Record that a seat gives up, so that it sees the solution."""
        self._must_be(seat, "red", "green")
        self.note(Event.GAVE_UP, seat.number)

    def tick(self, now: float) -> None:
        """Record the labs whose time is up, and look again at the repairs whose time has come."""
        if self.roster.paused:
            return
        for seat in self.roster.seats:
            if seat.turn.is_due(now) and seat.number not in self.doing:
                self._later(self._look_again(seat), seat)
        if self.plan.minutes is None:
            return
        for seat in self.roster.seats:
            late = seat.turn.seconds(now) >= 60 * self.plan.minutes
            busy = seat.number in self.doing  # perhaps with a check that was requested in time
            if late and not busy and seat.turn.state == "red" and not seat.turn.gave_up:
                self.note(Event.TIME_OVER, seat.number)

    async def poll(self) -> None:
        """Note what has ended, and remove the stacks of seats whose disk space is used up."""
        await self._look()
        there = {seat.number: seat.turn for seat in self.roster.seats if seat.turn.up}
        for seat in await self.stacks.too_large(self.roster.seat(number) for number in there):
            if self._replacing[seat.number].locked():  # what was measured is removed already
                continue
            async with self._replacing[seat.number]:
                if seat.turn is there[seat.number] and seat.turn.up:
                    await self.stacks.cut_off(seat)
                    self.note(Event.DISK_FULL, seat.number)

    async def _look(self) -> None:
        """Note which containers there are, with one question to Docker for all seats."""
        found = await asyncio.to_thread(self.stacks.parts)
        if found is not None and found != self._there:
            self._there = found
            self.show()

    def pause(self, on: bool) -> None:
        """Stop all clocks and all actions, or continue."""
        if on != self.roster.paused and not self.roster.ended:
            self.note(Event.PAUSED if on else Event.RESUMED)

    async def end(self, told: Callable[[str], None] = lambda _: None) -> None:
        """End the class: remove every stack, one seat after the other. The results stay.

        Raises CannotRun if something could not be removed; the rest is removed anyway.
        """
        if not self.roster.ended:
            self.note(Event.ENDED)
        await self.leave()
        trouble = ""
        for seat in self.roster.seats:
            told(f"removing the stack of {seat.name}")
            self._shown(seat, "removing its stack")
            trouble = await self.stacks.remove_all(seat) or trouble
            self.doing.pop(seat.number, None)
        self.show()
        if trouble:
            raise CannotRun(trouble, "faultlab sweep")

    async def _start(self, seat: Seat) -> None:
        async with (
            self._busy(seat, "waiting for other labs to start"),
            self._slots.take(labs.loaded(seat.turn.lab), urgent=False),
            self._replacing[seat.number],
        ):
            if self.roster.ended:
                return
            self.note(Event.STARTING, seat.number)
            for _ in range(_TRIES):
                outcome = await self.stacks.start(seat, lambda step: self._shown(seat, step))
                if outcome.code != SaidNo.exit_code:  # retry only a start whose proof was spoiled
                    break
            if outcome.code == 0:
                found = outcome.facts.get("findings", [])
                self.note(Event.READY, seat.number, **({"findings": found} if found else {}))
            else:
                self.note(Event.FAILED, seat.number, why=outcome.error)

    async def _move_on(self, seat: Seat) -> None:
        async with self._busy(seat, "removing the last lab"), self._replacing[seat.number]:
            await self.stacks.remove(seat)
            self.note(Event.MOVED_ON, seat.number)
        await self._start(seat)
