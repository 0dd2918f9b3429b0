"""Shell: a place where a command can be run, and the result of a command."""

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from faultlab.core.errors import CannotRun


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


def json_of(out: str, program: str) -> Any:
    """Parse the JSON that a program printed. Raises CannotRun if it is none."""
    try:
        return json.loads(out)
    except ValueError as error:
        raise CannotRun(f"{program} printed no JSON: {out[:60]!r}") from error
