"""Shell: a place where a command can be run, and the result of a command."""

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from faultlab.core.errors import CannotRun

GRACE = 5.0  # seconds that a command can take to end after its time limit
_MOST_OUTPUT = 64 << 20  # bytes of one command


@dataclass(frozen=True)
class Done:
    """A command that ran to its end in a machine. Seconds are wall time."""

    command: str
    code: int
    out: str
    err: str
    seconds: float


class Shell(ABC):
    """A place where a command can be run: a machine or daemon of a stack, or the VM's kernel."""

    name: str
    root = ""  # the folder in which its files are seen from there; empty for its own `/`

    @abstractmethod
    def run(self, command: str, timeout: float = 30) -> Done:
        """Run a shell command as root and wait for its end.

        Raises CannotRun if the place does not exist or the command still runs after `timeout`
        seconds. A non-zero exit code is a reading, not an error.
        """

    def must(self, command: str, timeout: float = 30) -> str:
        """Run a command that must succeed and return its output. Raises CannotRun."""
        done = self.run(command, timeout)
        if done.code != 0:
            tail = (done.err or done.out).strip().splitlines()[-1:] or ["(it printed nothing)"]
            raise CannotRun(
                f"On {self.name} this failed with exit code {done.code}: {command}: {tail[0]}",
                "faultlab status",
            )
        return done.out


def late(where: str, seconds: float, command: str, hint: str = "faultlab status") -> CannotRun:
    """Return the error for a command that still ran after its time limit."""
    return CannotRun(f"{where} this did not end within {seconds:g} s: {command}", hint)


def refuse_flood(size: int) -> None:
    """Raise CannotRun if this is more than one command may print, in bytes."""
    if size > _MOST_OUTPUT:
        most = f"{_MOST_OUTPUT >> 20} MiB"
        raise CannotRun(f"A command printed more than {most}.", "faultlab status")


def json_of(out: str, program: str) -> Any:
    """Parse the JSON that a program printed. Raises CannotRun if it is none."""
    try:
        return json.loads(out)
    except ValueError as error:
        raise CannotRun(f"{program} printed no JSON: {out[:60]!r}") from error
