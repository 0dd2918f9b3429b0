"""Task: a walk in a pod of its own: `python -m faultlab.verify.task LAB NUMBER ENGINE [quick]`.

It prints the case and the record of its run, packed, for the command that wants the walk.
"""

from __future__ import annotations

import signal
import sys
from dataclasses import asdict, dataclass
from typing import NoReturn

from faultlab.engine.kubernetes import jobspec
from faultlab.lab import loader as labs
from faultlab.run import job_result
from faultlab.verify.case import Case, Runner

_QUICK = "quick"


@dataclass(frozen=True)
class Walk:
    """The walk that a task makes."""

    lab: str
    number: int
    engine: str
    quick: bool = False

    @property
    def words(self) -> str:
        """Return the walk as the words of a task."""
        words = f"verify.task {self.lab} {self.number} {self.engine}"
        return f"{words} {_QUICK}" if self.quick else words


def read(words: list[str]) -> Walk:
    """Return the walk that these words of a command stand for."""
    lab_id, number, engine, *rest = words
    return Walk(lab_id, int(number), engine, rest == [_QUICK])


def pack(case: Case) -> bytes:
    """Return a case and the folder of its run as an archive."""
    return job_result.pack(asdict(case), [case.run])


def main() -> None:
    """Make the walk and print its result. A pod that is told to stop removes the stack first."""
    walk = read(sys.argv[1:])
    runner = Runner({walk.lab: walk.engine}, walk.quick)

    def stop(*_: object) -> NoReturn:
        runner.stop()
        sys.exit(128 + signal.SIGTERM)

    signal.signal(signal.SIGTERM, stop)
    for line in jobspec.lines(pack(runner.run(labs.load(walk.lab), walk.number))):
        print(line)


if __name__ == "__main__":
    main()
