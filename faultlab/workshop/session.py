"""Session: in a running class, seats start, check, answer, give up and move on."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
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
from faultlab.workshop import size
from faultlab.workshop.journal import Event, Journal
from faultlab.workshop.live import Live
from faultlab.workshop.plan import ClassPlan
from faultlab.workshop.roster import DISK_FULL, STANDING, Roster, Seat, Turn
from faultlab.workshop.slots import Slots
from faultlab.workshop.stacks import Stacks

_ENDED = "exited"  # the begin of such a state
_NOT_LASTING = "It was repaired, but not for good."
_TRIES = 3  # to start a lab: the proof can be spoiled by other load
_SHARE = 3 / 4  # of the machine's memory, up to which stacks are prepared
_NEARLY_OVER = 600.0  # seconds before the end of a block, when every seat's next lab is prepared


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
        # Held while the first lab of a seat's next block is prepared.
        self._ahead = {seat.number: asyncio.Lock() for seat in roster.seats}
        self._preparing: set[int] = set()  # the seats for which that waits or goes on
        # The seats whose lab was ended with the block before this one: once, it can have failed.
        self._moved: set[tuple[int, int]] = set()
        self._slots = Slots(size.AT_ONCE, size.parts(plan))
        # The next change sets it. Take it before looking, to miss none.
        self.change = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._there: dict[str, dict[str, Part]] = {}  # the containers of all stacks here
        self.live = Live(roster, stacks)

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
        self.live.end()
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

    @asynccontextmanager
    async def at_stack(self, seat: Seat, doing: str) -> AsyncIterator[None]:
        """Have the stack of a seat for oneself while the body runs, as a check has."""
        async with (
            self._busy(seat, doing),
            self._slots.take(labs.loaded(seat.turn.stacked), urgent=True),
        ):
            yield

    def lab(self, turn: Turn) -> Lab:
        """Return the lab of a turn with what has joined it, under the name of its stack."""
        lab, whole = labs.loaded(turn.lab), labs.loaded(turn.whole)
        if turn.blind or not turn.joined:
            return whole.called(MYSTERY) if turn.blind else lab
        return whole.called(lab.alias).model_copy(update={"title": whole.title})

    def machines(self, seat: Seat) -> list[str]:
        """Return where a terminal can be opened: machines, then the daemons that joined them."""
        lab = labs.loaded(seat.turn.stacked)
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
        """Do as `next`, for a participant. Raises BadInput before the debrief.

        A seat whose block is over can go on at once.
        """
        turn, behind = seat.turn, self.roster.is_behind(seat)
        if turn.state == "amber" and not behind:
            raise BadInput("The next lab comes after this one was looked at again.")
        if not (turn.told or turn.state == "failed" or behind):
            raise BadInput("Finish this lab first: its debrief is not open yet.")
        self.next(seat)

    def next(self, seat: Seat) -> None:
        """Give a seat its next lab. Raises BadInput if it has none in a block that has opened."""
        if self.roster.following(seat) is None:
            raise BadInput(f"{seat.name} has no lab after this one.")
        if not self.roster.can_go_on(seat):
            raise BadInput("The next lab comes with the next block, which has not opened.")
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
        return list(labs.loaded(seat.turn.stacked).daemons)

    def own(self, seat: Seat) -> dict[str, Any]:
        """Return what the page shows in addition if its learner owns the stacks.

        `over`: the learner can start the lab over.
        """
        return {"catalogue": None, "delay": "", "over": False}

    def lessons(self, seat: Seat | None) -> frozenset[str] | None:
        """Return the labs whose lessons a seat can read; None for all, as the trainer can."""
        if seat is None or not any(turn.blind for turn in seat.turns):
            return None
        return frozenset(
            folder.name
            for turn in seat.turns
            if turn.told or (not turn.blind and turn.state in STANDING)
            for folder in labs.loaded(turn.whole if turn.told else turn.lab).sources
        )

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
            self._slots.take(labs.loaded(seat.turn.stacked), urgent=True),
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
            self._slots.take(labs.loaded(seat.turn.stacked), urgent=True),
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
        if len(turn.hints) - len(turn.free) < self.hints(turn):
            async with self._busy(seat, "looking for a hint"):
                number = await self.stacks.hint(seat)
        if number is None:
            self.note(Event.NO_HINT, seat.number)
            raise CannotRun("There is no other hint for what it is like now.")
        self.note(Event.HINTED, seat.number, number=number)

    def hints(self, turn: Turn) -> int:
        """Return how many hints there are for a turn."""
        of_lab = len(labs.loaded(turn.whole).hint)
        most = self.plan.most_hints(turn.block)
        return of_lab if most is None else min(of_lab, most)

    def answer(self, seat: Seat, *faults: Sequence[str], sure: int | None = None) -> None:
        """Record a diagnosis: the component, the resource and the cause of each fault.

        `sure`: how sure the seat is, in per cent, which counts before a repair. Raises BadInput for
        an unknown word, CannotRun if it is too late.
        """
        self._must_be(seat, "red", "amber", "green")
        if seat.turn.told:  # after the debrief has opened
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
        """Record the labs whose time is up, and look again at the repairs whose time has come.

        With blocks, also prepare what comes next, and end what is over.
        """
        self._prepare_next(now)
        if self.roster.paused:
            return
        self._keep_time(now)
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

    def open_block(self, block: Any) -> None:
        """Open the next block. Raises BadInput for another one, and CannotRun after the end.

        `block`: its number, from 1, so that a double click opens one.
        """
        table = self.roster.timetable
        if self.roster.ended:
            raise CannotRun("The class has ended.")
        if table.next is None:
            raise BadInput("There is no block after this one.")
        if not isinstance(block, int) or block is True or block != table.at + 1:
            raise BadInput("This was meant for another block.")
        self.note(Event.BLOCK, block=block)

    def _keep_time(self, now: float) -> None:
        """Open a block whose time has come, and end what seats still do in the one before."""
        table = self.roster.timetable
        left = table.left(now)
        if self.plan.opens == "by the clock" and left is not None and left <= 0 and table.next:
            self.note(Event.BLOCK, block=table.at + 1)
        if table.seconds(now) < 60 * self.plan.grace:
            return
        for seat in filter(self.roster.is_behind, self.roster.seats):
            if seat.number in self.doing:  # perhaps with a check that was requested in time
                continue
            if self.roster.following(seat) is not None:
                if (seat.number, table.at) not in self._moved:
                    self._moved.add((seat.number, table.at))
                    self._later(self._move_on(seat), seat)
            elif seat.turn.state == "red" and not seat.turn.gave_up:
                self.note(Event.TIME_OVER, seat.number)

    def _prepare_next(self, now: float) -> None:
        """Prepare the first lab of the next block for seats that are at the last one of theirs.

        Shortly before the end of the block this is done for all seats.
        """
        if self.plan.engine != "local" or self.roster.ended:
            return
        left = self.roster.timetable.left(now)
        for seat in self.roster.seats:
            to = seat.first_of(seat.turn.block + 1) if seat.turn.block else None
            if to is None or seat.number in self._preparing or not self._is_to_prepare(seat, to):
                continue
            if to == seat.at + 1 or (left is not None and left < _NEARLY_OVER):
                self._preparing.add(seat.number)
                task = asyncio.get_running_loop().create_task(self._prepare(seat, to))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    def _is_to_prepare(self, seat: Seat, to: int) -> bool:
        """Return whether a turn is the next one to be prepared, and there is room for its stack."""
        if seat.turn.state not in (*STANDING, "failed") or self.roster.is_behind(seat):
            return False
        if seat.at >= to or seat.turns[to].state not in ("waiting", "starting"):
            return False
        up = [turn for each in self.roster.seats for turn in each.turns[each.at :]]
        there = [turn for turn in up if turn.state not in ("waiting", "failed")]
        used = sum(size.memory(turn.stacked) for turn in there)
        return used + size.memory(self.plan.stacked(seat.turns[to].lab)) <= _SHARE * size.machine()

    async def _prepare(self, seat: Seat, to: int) -> None:
        """Start and prove the lab of a later turn, while its seat is at work on another."""
        its = replace(seat, at=to)
        try:
            async with (
                self._slots.take(labs.loaded(its.turn.lab), urgent=False),
                self._ahead[seat.number],
            ):
                if self.roster.ended or not self._is_to_prepare(seat, to):
                    return
                await self._started(its, lambda _: None, turn=to + 1)
        except Exception as error:  # it is started once more when its seat moves on
            print(f"faultlab: {seat.name}: {in_one_line(error)}", file=sys.stderr)
            with suppress(Problem):
                self.note(Event.FAILED, seat.number, why=in_one_line(error), turn=to + 1)
        finally:
            self._preparing.discard(seat.number)

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
        self.live.see(found or {})
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
            over = seat.turn.state == "waiting" and self.roster.is_behind(seat)
            if self.roster.ended or over:
                return
            await self._started(seat, lambda step: self._shown(seat, step))

    async def _started(self, seat: Seat, tell: Callable[[str], None], **which: int) -> None:
        """Start a lab, and record how that went. `which`: the turn, if it is not the seat's yet."""
        room = self.plan.room_for(seat.turn.lab)
        self.note(Event.STARTING, seat.number, **which, **({"room": room} if room else {}))
        for _ in range(_TRIES):
            outcome = await self.stacks.start(seat, tell)
            if outcome.code != SaidNo.exit_code:  # retry only a start whose proof was spoiled
                break
        if outcome.code == 0:
            found = outcome.facts.get("findings", [])
            its = {"findings": found} if found else {}
            self.note(Event.READY, seat.number, **which, **its)
        else:
            self.note(Event.FAILED, seat.number, why=outcome.error, **which)

    async def _move_on(self, seat: Seat) -> None:
        async with self._busy(seat, "removing the last lab"), self._replacing[seat.number]:
            await self.stacks.remove(seat)
            self._shown(seat, "starting the next lab")
            async with self._ahead[seat.number]:  # what is half prepared is soon done
                to = self.roster.following(seat)
                for place in range(seat.at + 1, to or 0):  # of a block that the seat leaves out
                    if seat.turns[place].state != "waiting":
                        await self.stacks.remove(replace(seat, at=place))
                        self.note(Event.REMOVED, seat.number, turn=place + 1)
                self.note(Event.MOVED_ON, seat.number, **({} if to is None else {"to": to + 1}))
        if seat.turn.state not in ("prepared", "red"):
            await self._start(seat)
