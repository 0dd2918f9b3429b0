"""Beside: labs whose repairs are tried at the same time, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import nullcontext
from pathlib import Path

from faultlab.core import scratch
from faultlab.core.command import DIE_WITH_US, uninterrupted
from faultlab.core.errors import CannotRun
from faultlab.engine.contract import Engine
from faultlab.lab.model import Lab
from faultlab.run import judge_error
from faultlab.run.judge_error import Tried

_ENDED = (0, 1, 3)  # exit codes of one that has tried all: right, some wrong, some unknown

Add = Callable[[Tried], None]


class _Processes:
    """The processes that run now, and what they have found so far."""

    def __init__(self, words: Sequence[str], add: Add) -> None:
        self._words = words
        self._add = add
        self._live: set[subprocess.Popen[str]] = set()
        self._guard = threading.Lock()
        self._over = False

    def one(self, lab: Lab, engine: Engine, rows: Iterable[Tried]) -> None:
        """Try the repairs of a lab that are not among these rows. Raises CannotRun if it dies."""
        with scratch.folder() as folder:
            file, said = Path(folder, "rows.json"), Path(folder, "said.txt")
            seen = {row for row in map(repr, rows)}
            judge_error.write(rows, file)
            command = [sys.executable, "-m", "faultlab", "judge-error", lab.id, *self._words]
            with said.open("w") as errors:
                with self._guard:
                    if self._over:
                        return
                    process = subprocess.Popen(
                        [*DIE_WITH_US, *command, "--json", str(file), "--engine", engine.name],
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.PIPE,
                        stderr=errors,
                        text=True,
                    )
                    self._live.add(process)
                assert process.stdout is not None
                for _ in process.stdout:  # it prints a line after it has written the file
                    self._take(file, seen)
                code = process.wait()
            self._take(file, seen)
            with self._guard:
                self._live.discard(process)
            if code not in _ENDED and not self._over:
                why = (said.read_text().strip().splitlines() or ["it printed nothing"])[0]
                raise CannotRun(f"judge-error {lab.id} failed: {why}", "faultlab status")

    def _take(self, file: Path, seen: set[str]) -> None:
        with self._guard:
            for row in judge_error.read(file):
                if repr(row) not in seen:
                    seen.add(repr(row))
                    self._add(row)

    def stop(self) -> None:
        """Tell all of them to remove their stacks, and wait until they have."""
        with self._guard:
            self._over = True
            live = [*self._live]
        for process in live:
            process.terminate()
        for process in live:
            process.wait()


def run(
    chosen: Sequence[Lab],
    places: Mapping[str, Engine],
    rows: Sequence[Tried],
    *,
    words: Sequence[str],
    jobs: int,
    add: Add,
) -> None:
    """Try what these rows lack of some labs, several labs at a time; `add` gets each new row.

    Labs on a kernel of their own share it, so they come one at a time.
    """
    processes, vm = _Processes(words, add), threading.Lock()

    def one(lab: Lab) -> None:
        engine = places[lab.id]
        with vm if engine.owns_kernel else nullcontext():
            processes.one(lab, engine, [row for row in rows if row.lab == lab.id])

    pool = ThreadPoolExecutor(jobs)
    try:
        for done in as_completed([pool.submit(one, lab) for lab in chosen]):
            done.result()
    except BaseException:
        with uninterrupted():
            processes.stop()
            pool.shutdown(cancel_futures=True)
        raise
