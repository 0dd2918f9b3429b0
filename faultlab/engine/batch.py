"""Batch: tasks of faultlab that run on the machines of an engine and not on this one."""

import hashlib
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from faultlab.core import naming


def name_of(file: Path | None, *words: str) -> str:
    """Return the name of the batch of a command; the same command gets the same one again.

    `file`: the one that keeps its results; `words`: what else tells it from other commands.
    """
    every = [naming.owner(), str(file and file.absolute()), *words]
    return hashlib.sha256("\n".join(every).encode()).hexdigest()[:8]


@dataclass(frozen=True)
class Task:
    """A task: a module of faultlab with its words, and whether it needs its machine alone.

    `single`: no two tasks of this kind run at a time.
    """

    words: str
    alone: bool
    single: bool = False


@dataclass(frozen=True)
class Ended:
    """The end of a task: its result, or the reason why it has none."""

    words: str
    result: bytes = b""
    problem: str = ""


class Batch(Protocol):
    """Runs tasks, several at a time."""

    def run(
        self, tasks: Sequence[Task], at_once: int, note: Callable[[str], None]
    ) -> Generator[Ended]:
        """Yield each task as it ends; `note` gets how many run. Raises CannotRun.

        Tasks that an earlier command of this name has started are continued. If this is closed
        early, all that it started is removed.
        """
