"""Task: one walk in a pod of its own: `python -m faultlab.verify.task LAB NUMBER ENGINE [quick]`.

It prints the case and the record of its run, packed, for the command that wants the walk.
"""

from __future__ import annotations

import io
import json
import signal
import sys
import tarfile
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NoReturn

from faultlab.core import archive, document, paths
from faultlab.core.errors import BadInput, CannotRun
from faultlab.engine import jobspec
from faultlab.engine.batch import Ended
from faultlab.lab import load as labs
from faultlab.verify.case import Case, Runner

_CASE = "case.json"
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
        """Return the walk as the words of a command."""
        return f"{self.lab} {self.number} {self.engine}" + (f" {_QUICK}" if self.quick else "")


def read(words: list[str]) -> Walk:
    """Return the walk that these words stand for."""
    lab_id, number, engine, *rest = words
    return Walk(lab_id, int(number), engine, rest == [_QUICK])


def pack(case: Case) -> bytes:
    """Return a case and the folder of its run as an archive."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as tar:
        archive.put(tar, _CASE, json.dumps(asdict(case)).encode())
        folder = paths.runs() / case.run
        if case.run and folder.is_dir():
            tar.add(folder, case.run)
    return made.getvalue()


def case_of(ended: Ended) -> Case:
    """Return the case of a task, and put its run beside the runs of this machine.

    Raises CannotRun for a task without a result, or with one that `pack` did not make.
    """
    if ended.problem:
        raise CannotRun(f"{ended.problem}.", "kubectl get events -n faultlab")
    runs = paths.runs()
    runs.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=runs, prefix=".task-") as name:
        folder = Path(name)
        try:
            with tarfile.open(fileobj=io.BytesIO(ended.result), mode="r:gz") as tar:
                tar.extractall(folder, filter="data")
            case = document.shaped(Case, json.loads((folder / _CASE).read_text()), Path(_CASE))
        except (tarfile.TarError, OSError, EOFError, ValueError, BadInput) as error:
            why = f"The result of its task cannot be read: {str(error).rstrip('.')}."
            raise CannotRun(why, "faultlab verify") from error
        run = Path(case.run).name  # only a folder of the archive, whatever its case says
        if run and (folder / run).is_dir() and not (runs / run).exists():
            (folder / run).rename(runs / run)
    return case


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
