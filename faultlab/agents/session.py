"""Session: one agent at one lab in one phase, without anything that names the lab.

An agent works as a learner does: a ticket, root shells on the machines, and a few `docker` commands
on the host. The lab's users go on with their work meanwhile. What they meet in the end is measured
by the lab's own check, from containers that the agent cannot reach.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import PurePosixPath
from shlex import quote

from faultlab.agents import host
from faultlab.agents.command import LONGEST, NOT_RUNNING, TIMED_OUT, Command, Output, in_limits
from faultlab.agents.trajectory import Trajectory
from faultlab.core import archive, lock
from faultlab.core.errors import BadInput, CannotRun, Problem
from faultlab.core.naming import case_name, stack_name
from faultlab.engine.contract import Engine, Say
from faultlab.lab import loader as labs
from faultlab.lab import vocabulary
from faultlab.lab.model import NO_FAULT, Lab, Step
from faultlab.lab.outage import Outage
from faultlab.lab.reading import Reading
from faultlab.learn import mystery
from faultlab.run import late
from faultlab.run.background_load import traffic
from faultlab.run.phase import CHECK, FAULTY, HEALTHY, LATER, VERDICT, Phase
from faultlab.run.readings import sentences
from faultlab.run.run import Run
from faultlab.run.stack_in_phase import stack_in_phase


@dataclass(frozen=True)
class Verdict:
    """The result of a session.

    `repaired`: the users are served as before; if nothing was wrong, they still are. `cause`,
    `component`, `resource`: what the diagnosis names is right. No diagnosis means "nothing is
    wrong". `false_alarm`: it names a fault although nothing is wrong. `seconds`: of the agent,
    without those in which it `waited` for a check. `visits`: how often the users came meanwhile;
    `visits_lost`: how often they were not served as in a healthy lab.
    `later`: the minutes after which the users were measured again, if they were. `aborted`: by
    whom the session was, if a machine ended or was started again in it. `decoys`: those that the
    diagnosis takes for the fault.
    """

    repaired: bool
    cause: bool
    component: bool
    resource: bool
    false_alarm: bool
    commands: int
    seconds: float
    later: float = 0.0
    aborted: str = ""
    decoys: list[str] = field(default_factory=list)
    waited: float = 0.0
    visits: int = 0
    visits_lost: int = 0


@dataclass(frozen=True)
class Checked:
    """A measurement of the users: whether they are served as before, and sentences about it."""

    fixed: bool
    says: list[str]


BY_THE_AGENT = "by the agent"
_RESTARTS = 15.0  # seconds: a visit of the users can restart a daemon
_KEPT = 10_000  # characters of a command in the record
_BETWEEN = 0.05  # seconds between two visits of the users, in which a check can begin


class Lost(CannotRun):
    """The stack or the engine ended, for no reason of the agent's. It is no result."""


@contextmanager
def open(
    engine: Engine, lab: Lab, phase: str, number: int, later: float = late.MINUTES
) -> Iterator[Session]:
    """Yield a session on a fresh stack in a phase, which is proven, and remove it afterwards.

    `number`: of the case; nothing else names it. `later`: minutes after which a repair is looked at
    again; 0 for never. Raises SaidNo or CannotRun if the phase cannot be proven.
    """
    case = case_name(number)
    name = stack_name(case)
    with (
        lock.hold(name, "agent"),
        stack_in_phase(engine, lab.called(case, examined=True), name, phase, collects=False) as run,
    ):
        run.note_processes()
        session = Session(run, phase, later)
        with traffic(session.visit):
            yield session


class Session:
    """One agent at one lab: what it sees, what it does, and the result."""

    def __init__(self, run: Run, phase: str, later: float = 0.0) -> None:
        self._run = run
        self._later = later
        self.aborted = ""  # how the agent ended a machine, as a sentence; it has failed then
        self._acted = False  # the agent has done something
        self.ill = phase == FAULTY and not run.lab.control
        self._started = run.machines_started()
        self._began = time.monotonic()
        self._ended: float | None = None
        self._waited = 0.0  # seconds of its checks
        self._users = threading.Lock()  # one visit or one check at a time
        self.answer: dict[str, str] | None = None  # the diagnosis that counts
        self._final = False  # a check was made, so the diagnosis counts as it is
        self.commands: list[Command] = []
        self.case = run.lab.alias
        # Users of a healthy system call, too. Another text would tell the phase.
        self.ticket = run.lab.ticket
        self.daemons = list(run.lab.daemons)
        self.machines = [*run.stack, host.NAME]
        self.terms = vocabulary.answers(run.lab.collection)
        self._visits: list[bool] = []  # whether the users were served, each time that they came
        self.trajectory = Trajectory(run.record.folder)
        self.trajectory.add("ticket", ticket=self.ticket, machines=self.machines)

    def run(self, machine: str, command: str, timeout: float = 60) -> Output:
        """Run a shell command as root, as a learner does, and keep it in the record.

        `timeout` in seconds. On a machine that the agent has ended each command fails. Raises
        BadInput for an unknown machine, and Lost if something else has ended one.
        """
        if machine not in self.machines:
            there = ", ".join(self.machines)
            raise BadInput(f"There is no machine {machine[:40]!r}; there are {there}.")
        began = time.monotonic()
        if machine == host.NAME:
            output = self._on_host(command)
        else:
            output = self._in(machine, command, min(max(timeout, 1), LONGEST))
        size = len(output.out) + len(output.err)
        seconds = round(time.monotonic() - began, 3)
        self._keep(Command(machine, command[:_KEPT], output.code, seconds, size))
        self.trajectory.add("run", machine=machine, command=command, took=seconds, **vars(output))
        return output

    def write_file(self, machine: str, path: str, content: bytes) -> None:
        """Write a file, and create its folder. Raises OSError with the reason."""
        where = PurePosixPath("/", path)
        made = self.run(machine, f"mkdir -p -- {quote(str(where.parent))}")
        if made.code:
            raise OSError(made.err.strip())
        try:
            packed = archive.packed({where.name: content}, int(time.time()))
            self._run.stack[machine].put(str(where.parent), packed)
        except CannotRun as problem:
            self._up(machine)
            raise OSError(self.aborted or problem.message) from problem
        self._keep(Command(machine, f"write {where}", 0, 0.0, len(content)))
        text = content.decode(errors="replace")
        self.trajectory.add("write", machine=machine, path=str(where), content=text)

    def diagnose(self, component: str, resource: str, cause: str) -> dict[str, str]:
        """Keep a diagnosis; the last one counts. Raises BadInput for words not in `terms`."""
        answer = mystery.answered(component, resource, cause)
        if self._final:
            raise BadInput("The diagnosis is final, because a check was made after it.")
        self.answer = answer
        self._run.record.event("diagnosis", **answer)
        self.trajectory.add("diagnose", **answer)
        return answer

    def check(self) -> Checked:
        """Measure what the users meet now, which makes the diagnosis final.

        Raises BadInput before a diagnosis: a check would tell whether anything is wrong.
        """
        if self.answer is None:
            raise BadInput("Say what is wrong first: a check makes the diagnosis final.")
        self._final, began = True, time.monotonic()
        try:
            found = self._measured(CHECK)
            self.trajectory.add("check", **asdict(found))
            return found
        finally:
            self._waited += time.monotonic() - began

    def finish(self, note: Say = lambda _: None) -> Verdict:
        """Measure the result, and a repair again some minutes later; `note` hears that it waits.

        Raises Lost or CannotRun if that is impossible, which is no score.
        """
        if self._ended is None:
            self._ended = time.monotonic()
        visits = [*self._visits]
        measured, after = self._measured(VERDICT), 0.0
        if measured.fixed and self._later:
            after = self._later
            late.wait(after, note, self._run.engine.pause)
            measured = self._measured(LATER)
            self._run.record.event(LATER, fixed=measured.fixed)
        answer = self.answer or dict.fromkeys(self.terms, NO_FAULT)
        if self.ill:
            right = mystery.right(self._run.lab, answer)
        else:
            right = {part: word == NO_FAULT for part, word in answer.items()}
        verdict = Verdict(
            repaired=measured.fixed,
            **right,
            false_alarm=not self.ill and answer["cause"] != NO_FAULT,
            commands=len(self.commands),
            seconds=round(self._ended - self._began - self._waited, 3),
            later=after,
            aborted=BY_THE_AGENT if self.aborted else "",
            decoys=labs.taken(self._run.lab, {answer["cause"]}),
            waited=round(self._waited, 3),
            visits=len(visits),
            visits_lost=visits.count(False),
        )
        self._run.record.event("verdict", **asdict(verdict))
        return verdict

    def apply(self, what: str, steps: Sequence[Step]) -> None:
        """Carry out steps of the lab, for a reference agent that knows it. Raises CannotRun."""
        self._acted = True
        self._run.apply(what, steps)

    @property
    def lab(self) -> Lab:
        """Return the lab, for a reference agent that knows it. No other agent must see it."""
        return self._run.lab

    @property
    def record(self) -> str:
        """Return the id of the run, whose record has every command."""
        return self._run.record.id

    def visit(self) -> None:
        """Let the users of the lab come once. Raises CannotRun if that fails in any way."""
        served = False
        try:
            with self._users:
                felt = self._run.check.look(self._run.stack)
            found = self._run.check.good(Reading(felt), self._run.reading(HEALTHY))
            served = all(finding.holds for finding in found)
        except Problem:
            raise CannotRun("The users could not be started.") from None
        except Exception as error:  # the agent has broken what the look reads
            raise CannotRun(f"The users could not be started: {error!r}") from error
        finally:
            if self._ended is None:
                self._visits.append(served)
        time.sleep(_BETWEEN)

    def _measured(self, phase: Phase) -> Checked:
        """Measure the users. Where a machine or a daemon has ended, they are not served."""
        for name in self._started:  # before a visit is waited for, which can be long
            self._up(name)
        if self.aborted:
            return Checked(False, [self.aborted])
        with self._users:
            self._run.measure(phase)
        for each in self._run.reading(phase).outages:
            if each.name in self._started:
                self._abort(each)
        found = self._run.good(phase)
        return Checked(all(finding.holds for finding in found), sentences(found))

    @property
    def _over(self) -> str:
        return f"{self.aborted} The session is over."

    def _keep(self, command: Command) -> None:
        with self._run.record.changing:  # in the order of the record
            self.commands.append(command)
            self._run.record.add("command", **asdict(command))

    def _on_host(self, command: str) -> Output:
        self._acted = True
        try:
            return Output(0, host.docker(self._run.stack, self.daemons, command), "")
        except BadInput as problem:
            return Output(127, "", problem.message)
        except CannotRun as problem:
            for machine in self._started:
                self._up(machine)
            return Output(1, "", self._over if self.aborted else problem.message)

    def _in(self, name: str, command: str, seconds: float) -> Output:
        machine = self._run.stack[name]
        if not self._up(name):
            return self._down(name)
        self._acted = True
        began = time.monotonic()
        try:
            done = in_limits(machine, command, seconds)
        except CannotRun as problem:
            if not self._up(name):
                return self._down(name)
            in_time = time.monotonic() - began < seconds
            code = NOT_RUNNING if in_time else TIMED_OUT  # a visit can restart a daemon
            return Output(code, "", problem.message.partition(": ")[0])
        if not self._up(name) and name in self._started:
            return self._down(name)
        in_vain = f"{done.err}It did not end within {seconds:g} s.\n"
        return Output(done.code, done.out, in_vain if done.code == TIMED_OUT else done.err)

    def _down(self, name: str) -> Output:
        why = f"{name} is not running; the host can start it."
        return Output(NOT_RUNNING, "", self._over if self.aborted else why)

    def _up(self, name: str) -> bool:
        """Return whether a container runs. One that users have just restarted gets some time.

        A machine that has ended, or was started again, ends the session. Raises Lost if the agent
        has not done that.
        """
        of_agent, until = name in self._started, time.monotonic() + _RESTARTS
        may_stop = of_agent or name in self._run.check.may_stop
        try:
            while not (now := self._run.stack[name].state).running and not may_stop:
                if time.monotonic() > until:
                    break
                time.sleep(_BETWEEN)
            up = now.running and now.started == self._started.get(name, now.started)
            if of_agent and not up:
                self._abort(Outage(name, None if now.running else now.exit_code))
        except CannotRun as problem:
            raise Lost(f"{self.case}: {problem.message}", problem.hint) from problem
        return up

    def _abort(self, outage: Outage) -> None:
        """End the session by what the agent has done. Raises CannotRun if it was not the agent.

        An agent reaches no users, so nothing that it does ends them.
        """
        self._run.stack.user()
        if not self._acted:
            raise CannotRun(outage.says)
        self.aborted = self.aborted or outage.says
