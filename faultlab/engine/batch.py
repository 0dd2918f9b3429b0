"""Batch: tasks of faultlab that run on the machines of an engine and not on this one."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Task:
    """A task: a module of faultlab with its words, and whether it needs its machine alone."""

    words: str
    alone: bool


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
