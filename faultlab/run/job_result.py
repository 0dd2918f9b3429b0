"""Job result: what a task in a pod gives back: its result, and the folders of its runs."""

import io
import json
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

from faultlab.core import archive, document, paths, scratch
from faultlab.core.errors import BadInput, CannotRun
from faultlab.engine.batch import Ended

_RESULT = "result.json"
T = TypeVar("T")


def pack(result: Any, runs: Iterable[str]) -> bytes:
    """Return a result, as JSON can have it, and the folders of these runs as an archive."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as tar:
        archive.put(tar, _RESULT, json.dumps(result).encode())
        for run in runs:
            folder = paths.runs() / run
            if run and folder.is_dir():
                tar.add(folder, run)
    return made.getvalue()


def opened(kind: type[T], ended: Ended) -> T:
    """Return the result of a task, and put its runs beside those of this machine.

    Raises CannotRun for a task without a result, or with one of another shape.
    """
    if ended.problem:
        raise CannotRun(f"{ended.problem}.", "kubectl get events -n faultlab")
    runs = paths.runs()
    runs.mkdir(parents=True, exist_ok=True)
    with scratch.folder(".task-", runs) as folder:
        try:
            with tarfile.open(fileobj=io.BytesIO(ended.result), mode="r:gz") as tar:
                tar.extractall(folder, filter="data")
            said = json.loads((folder / _RESULT).read_text())
            result = document.shaped(kind, said, Path(_RESULT))
        except (tarfile.TarError, OSError, EOFError, ValueError, BadInput) as error:
            why = f"The result of its task cannot be read: {str(error).rstrip('.')}."
            raise CannotRun(why, "type the same command again") from error
        for run in folder.iterdir():
            if run.is_dir() and not (runs / run.name).exists():
                run.rename(runs / run.name)
    return result
