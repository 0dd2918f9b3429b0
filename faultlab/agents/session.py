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
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath
from shlex import quote

from faultlab.agents import host
from faultlab.agents.command import LONGEST, NOT_RUNNING, TIMED_OUT, Command, Output, in_limits
from faultlab.core import archive, lock
from faultlab.core.errors import BadInput, CannotRun, Problem
from faultlab.core.naming import case_name, stack_name
from faultlab.engine.contract import Engine
from faultlab.lab import terms
from faultlab.lab.model import NO_FAULT, Lab, Step
from faultlab.learn import mystery
from faultlab.run.background_load import traffic
from faultlab.run.readings import CHECK, FAULTY, VERDICT, sentences
from faultlab.run.run import Run
from faultlab.run.standing import standing

_RESTARTS = 15.0  # seconds: a visit of the users can restart a daemon
_KEPT = 10_000  # characters of a command in the record
_BETWEEN = 0.05  # seconds between two visits of the users, in which a check can begin


class Lost(CannotRun):
    """A container, the stack or the engine ended. It is an error, and not a result of the agent."""


@dataclass(frozen=True)
class Verdict:
    """The result of a session.

    `repaired`: the users are served as before; if nothing was wrong, they still are. `cause`,
    `component`, `resource`: what the diagnosis names is right. No diagnosis means "nothing is
    wrong". `false_alarm`: it names a fault although nothing is wrong. `seconds`: of the agent.
    """

    repaired: bool
    cause: bool
    component: bool
    resource: bool
    false_alarm: bool
    commands: int
    seconds: float


@dataclass(frozen=True)
class Checked:
    """A measurement of the users: whether they are served as before, and sentences about it."""

    fixed: bool
    says: list[str]


@contextmanager
def open(engine: Engine, lab: Lab, phase: str, number: int) -> Iterator[Session]:
    """Yield a session on a fresh stack in a phase, which is proven, and remove it afterwards.

    `number`: of the case; nothing else names it. Raises SaidNo or CannotRun if the phase cannot be
    proven.
    """
    case = case_name(number)
    name = stack_name(case)
    with (
        lock.hold(name, "agent"),
        standing(engine, lab.called(case), name, phase, collects=False) as run,
    ):
        session = Session(run, phase)
        with traffic(session.visit):
            yield session


class Session:
    """One agent at one lab: what it sees, what it does, and the result."""

    def __init__(self, run: Run, phase: str) -> None:
        self._run = run
        self.ill = phase == FAULTY and not run.lab.control
        self._started = run.machines_started()
        self._began = time.monotonic()
        self._ended: float | None = None
        self._users = threading.Lock()  # one visit or one check at a time
        self.answer: dict[str, str] | None = None  # the diagnosis that counts
        self._final = False  # a check was made, so the diagnosis counts as it is
        self.commands: list[Command] = []
        self.case = run.lab.alias
        # Users of a healthy system call, too. Another text would tell the phase.
        self.ticket = run.lab.ticket
        self.daemons = list(run.lab.daemons)
        self.machines = [*run.stack, host.NAME]
        self.terms = terms.answers()

    def run(self, machine: str, command: str, timeout: float = 60) -> Output:
        """Run a shell command as root, as a learner does, and keep it in the record.

        `timeout` in seconds. Raises BadInput for an unknown machine, and Lost if one has ended.
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
            self._must_be_up(machine)
            raise OSError(problem.message) from problem
        self._keep(Command(machine, f"write {where}", 0, 0.0, len(content)))

    def diagnose(self, component: str, resource: str, cause: str) -> dict[str, str]:
        """Keep a diagnosis; the last one counts. Raises BadInput for words not in `terms`."""
        answer = mystery.answered(component, resource, cause)
        if self._final:
            raise BadInput("The diagnosis is final, because a check was made after it.")
        self.answer = answer
        self._run.record.event("diagnosis", **answer)
        return answer

    def check(self) -> Checked:
        """Measure what the users meet now, which makes the diagnosis final.

        Raises BadInput before a diagnosis: a check would tell whether anything is wrong.
        """
        if self.answer is None:
            raise BadInput("Say what is wrong first: a check makes the diagnosis final.")
        self._final = True
        return self._measured(CHECK)

    def finish(self) -> Verdict:
        """Measure the result. Raises Lost or CannotRun if that is impossible, which is no score."""
        if self._ended is None:
            self._ended = time.monotonic()
        measured = self._measured(VERDICT)
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
            seconds=round(self._ended - self._began, 3),
        )
        self._run.record.event("verdict", **asdict(verdict))
        return verdict

    def apply(self, what: str, steps: Sequence[Step]) -> None:
        """Carry out steps of the lab, for a reference agent that knows it. Raises CannotRun."""
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
        try:
            with self._users:
                self._run.check.look(self._run.stack)
        except Problem:
            raise CannotRun("The users could not come.") from None
        except Exception as error:  # the agent has broken what the look reads
            raise CannotRun(f"The users could not come: {error!r}") from error
        time.sleep(_BETWEEN)

    def _measured(self, phase: str) -> Checked:
        """Measure the users. If the fault has ended a daemon, they are not served."""
        for name in self._run.stack:  # before a visit is waited for, which can be long
            self._must_be_up(name)
        with self._users:
            ended = [name for name in self._run.stack if not self._must_be_up(name)]
            if ended:
                return Checked(False, [f"{name} is not running." for name in ended])
            self._run.measure(phase)
        found = self._run.good(phase)
        return Checked(all(finding.holds for finding in found), sentences(found))

    def _keep(self, command: Command) -> None:
        with self._run.record.changing:  # in the order of the record
            self.commands.append(command)
            self._run.record.event("command", **asdict(command))

    def _on_host(self, command: str) -> Output:
        try:
            return Output(0, host.docker(self._run.stack, self.daemons, command), "")
        except BadInput as problem:
            return Output(127, "", problem.message)
        except CannotRun as problem:
            for machine in self._started:
                self._must_be_up(machine)
            return Output(1, "", problem.message)

    def _in(self, name: str, command: str, seconds: float) -> Output:
        machine = self._run.stack[name]
        if not self._must_be_up(name):
            return Output(NOT_RUNNING, "", f"{name} is not running; the host can start it.")
        began = time.monotonic()
        try:
            done = in_limits(machine, command, seconds)
        except CannotRun as problem:
            self._must_be_up(name)
            in_time = time.monotonic() - began < seconds
            code = NOT_RUNNING if in_time else TIMED_OUT  # a visit can restart a daemon
            return Output(code, "", problem.message.partition(": ")[0])
        self._must_be_up(name)
        late = f"{done.err}It did not end within {seconds:g} s.\n"
        return Output(done.code, done.out, late if done.code == TIMED_OUT else done.err)

    def _must_be_up(self, name: str) -> bool:
        """Return whether a container runs. Raises Lost if it ended and the fault does not do that.

        A machine that was started again has lost its settings, and the fault with them.
        """
        may_stop, until = name in self._run.check.may_stop, time.monotonic() + _RESTARTS
        try:
            while not (now := self._run.stack[name].state).running and not may_stop:
                if name in self._started or time.monotonic() > until:
                    break
                time.sleep(_BETWEEN)
        except CannotRun as problem:
            raise Lost(f"{self.case}: {problem.message}", problem.hint) from problem
        if not now.running and not may_stop:
            raise Lost(f"{self.case}: {name} has ended (exit code {now.exit_code}).")
        if name in self._started and self._started[name] != now.started:
            raise Lost(f"{self.case}: {name} was restarted, so its settings are gone.")
        return now.running
