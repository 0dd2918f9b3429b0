"""Start many: labs that one command starts side by side.

Each lab starts in its own process, `faultlab start LAB`. Loads take turns (lock.turn).
"""

import asyncio
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from faultlab.core import events
from faultlab.core.command import uninterrupted
from faultlab.core.defaults import AUTO, MYSTERY
from faultlab.core.errors import BadInput, CannotRun, Problem, SaidNo
from faultlab.core.processes import Outcome, Processes
from faultlab.core.terminal import Terminal, typable
from faultlab.lab import loader as labs

# On SIGTERM each process removes what it has started, even if we are killed.
_STOP_WITH_US = ("setpriv", "--pdeathsig", "TERM", "--")
_SIDE_BY_SIDE = 2  # for each CPU
_POLL = 0.2  # seconds between two updates of the progress
_WORST_FIRST: tuple[type[Problem], ...] = (SaidNo, CannotRun, BadInput)


@dataclass
class Command:
    """One lab's `start`: its current step and its outcome."""

    lab: str
    doing: str = "waiting for its turn"
    began: float = 0.0  # 0 while it waits
    seconds: float = 0.0
    outcome: Outcome | None = None

    def hear(self, step: events.Step) -> None:
        """Store a step of the process."""
        self.doing = f"{step.name:<9} {step.text}"

    @property
    def code(self) -> int | None:
        """Return its exit code; None before it has ended."""
        return None if self.outcome is None else self.outcome.code

    @property
    def problem(self) -> tuple[str, str]:
        """Return the problem and the next command to type; both are empty after success."""
        if not self.outcome or not self.outcome.code:
            return "", ""
        why = self.outcome.error or f"it ended with {self.outcome.code}"
        return " ".join(why.split()), typable(self.outcome.next)

    def facts(self) -> dict[str, Any]:
        """Return the JSON object of its `start`, with the lab's name, exit code and seconds."""
        assert self.outcome is not None
        failure = {"error": self.outcome.error, "next": self.outcome.next}
        own = self.outcome.facts or (failure if self.outcome.error else {})
        ending = {"exit_code": self.code, "seconds": round(self.seconds, 1)}
        return {**own, "lab": self.lab, **ending}


@dataclass(frozen=True)
class Several:
    """For each lab its `start` object or its error, with `lab`, `exit_code` and `seconds`."""

    labs: list[dict[str, Any]]
    seconds: float


def start(term: Terminal, lab_ids: Sequence[str], wanted: str, blind: bool) -> Several:
    """Start these labs side by side and print how each ended. Raises the worst of their errors."""
    if blind or MYSTERY in lab_ids:
        raise BadInput("A mystery is started alone.", "faultlab start --help")
    names = list(dict.fromkeys(lab_ids))
    loads = {name: labs.load(name).load for name in names}  # raises before anything is started
    # Labs that make load take turns, so they begin first.
    commands = [Command(name) for name in sorted(names, key=lambda name: not loads[name])]
    began = time.monotonic()
    with _shown(term, commands) as show:
        asyncio.run(_run(commands, wanted, show))
    commands.sort(key=lambda command: names.index(command.lab))
    return _tell(term, commands, wanted, time.monotonic() - began)


async def _run(commands: list[Command], wanted: str, show: Any) -> None:
    processes = Processes()
    turns = asyncio.Semaphore(_SIDE_BY_SIDE * (os.cpu_count() or 1))

    async def one(command: Command) -> None:
        async with turns:
            command.began, command.doing = time.monotonic(), "beginning"
            words = ("start", command.lab, "--engine", wanted)
            command.outcome = await processes.run(
                words, {}, None, command.hear, with_us=_STOP_WITH_US
            )
            command.seconds = time.monotonic() - command.began

    waiting = {asyncio.create_task(one(command)) for command in commands}
    try:
        while waiting:
            show()
            ended, waiting = await asyncio.wait(waiting, timeout=_POLL)
            for task in ended:
                task.result()
    except BaseException:
        with uninterrupted():
            for task in waiting:
                if not task.cancelling():  # twice would end its wait for its process
                    task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
        raise


def _state(command: Command) -> str:
    if command.code is None:
        return command.doing.partition(" ")[0] if command.began else "waits"
    return "up" if command.code == 0 else "not up"


@contextmanager
def _shown(term: Terminal, commands: list[Command]) -> Iterator[Any]:
    """Show a line for each lab on a terminal, and one line for all of them elsewhere."""
    if term.quiet or not term.console.is_terminal:
        with term.step("labs", "beginning") as step:
            yield lambda: step.note(_summary(commands))
            step.done(_summary(commands))
        return
    from rich.live import Live

    with Live(console=term.console, auto_refresh=False, transient=True) as live:
        yield lambda: live.update(_picture(commands, term.console.width), refresh=True)


def _summary(commands: list[Command]) -> str:
    """Return a summary such as `4 of 10 up; healthy 2, stack 1, waits 3`."""
    states = [_state(command) for command in commands]
    rest = sorted({state for state in states if state != "up"})
    counted = ", ".join(f"{state} {states.count(state)}" for state in rest)
    return f"{states.count('up')} of {len(states)} up{'; ' if counted else ''}{counted}"


def _picture(commands: list[Command], width: int) -> str:
    now = time.monotonic()
    lines = []
    for command in commands:
        ended = command.code is not None
        since = command.seconds if ended else now - command.began if command.began else 0.0
        what = _state(command) if ended else command.doing
        lines.append(f"{command.lab:<16}{since:4.0f} s  {what}"[: width - 1])
    from rich.markup import escape

    return escape("\n".join(lines))


def _tell(term: Terminal, commands: list[Command], wanted: str, seconds: float) -> Several:
    for command in commands:
        what, after = command.problem
        if not command.code:
            again = f"make lab-{command.lab}"
            term.say(f"{command.lab:<15} up      {command.seconds:5.1f} s   its ticket: {again}")
            continue
        term.say(f"{command.lab:<15} not up  {command.seconds:5.1f} s   {what}")
        if after:
            term.command(f"{'':<29}next: {after}")
    told = Several([command.facts() for command in commands], round(seconds, 1))
    failed = [command for command in commands if command.code]
    if failed:
        codes = {command.code for command in failed}
        kind = next((kind for kind in _WORST_FIRST if kind.exit_code in codes), CannotRun)
        what = f"{len(failed)} of {len(commands)} labs are not up."
        raise kind(what, _again(failed, wanted), told)
    return told


def _again(failed: list[Command], wanted: str) -> str:
    engine = "" if wanted == AUTO else f" --engine {wanted}"
    return f"faultlab start {' '.join(command.lab for command in failed)}{engine}"
