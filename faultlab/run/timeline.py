"""Timeline: the counters of every machine and container of a run, twice a second.

In a VM they are read every five seconds, because without KVM everything takes about thirty times as
long.

A helper container beside each machine reads them (collector.pl), and its output is written to
`timeline.jsonl` in the run's folder, a line for each machine and sample. A run that is killed keeps
its samples. The helpers carry the stack's label and are removed with it, or end by themselves.
"""

import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

from faultlab.core.command import uninterrupted
from faultlab.core.errors import CannotRun
from faultlab.engine.contract import Machine
from faultlab.engine.stack import Stack
from faultlab.lab.services import Plan
from faultlab.run.record import Record

FILE = "timeline.jsonl"
SECONDS = 0.5
_SECONDS_IN_VM = 5.0
_LIFE = 24 * 3600  # seconds; `watch` can take that long, and it is removed with its stack
_COLLECTOR = Path(__file__).with_name("collector.pl")
_RIGHTS = ["SYS_PTRACE"]  # to read the containers' processes


Tell = Callable[[dict[str, Any]], None]


class Timeline:
    """Writes the samples of a stack until it is stopped; `tell` is called with each sample."""

    def __init__(self, stack: Stack, plan: Plan, record: Record, tell: Tell | None = None) -> None:
        self._stack = stack
        self._plan = plan
        self._tell = tell
        self._file = record.folder / FILE
        self._began = record.began
        self._guard = threading.Lock()
        self._helpers: list[AbstractContextManager[object]] = []
        self._readers: list[threading.Thread] = []

    def start(self) -> None:
        """Begin to write. A machine without a collector is skipped: it is no part of the proof."""
        machines = self._stack.machines
        with ThreadPoolExecutor(max_workers=len(machines) or 1) as pool:
            list(pool.map(self._listen, machines))

    def _listen(self, machine: Machine) -> None:
        pause = _SECONDS_IN_VM if self._stack.engine.owns_kernel else SECONDS
        script = ["perl", "-e", _COLLECTOR.read_text(), str(pause), str(_LIFE)]
        daemons = [each for each in self._stack.values() if each.joins == machine.name]
        wanted = [f"{machine.name}={machine.mark}="]
        wanted += [f"{d.name}={d.mark}={self._plan.facts(d.name).probe}" for d in daemons]
        helper = self._stack.engine.lines("machine", [*script, *wanted], machine, _RIGHTS)
        with suppress(CannotRun):
            lines = helper.__enter__()
            self._helpers.append(helper)
            reader = threading.Thread(target=self._write, args=(machine.name, lines), daemon=True)
            reader.start()
            self._readers.append(reader)

    def stop(self) -> None:
        """Stop writing, and keep what was written."""
        helpers, self._helpers = self._helpers, []
        with uninterrupted(), ThreadPoolExecutor(max_workers=len(helpers) or 1) as pool:
            list(pool.map(_end, helpers))
        for reader in self._readers:
            reader.join(timeout=2)
        self._readers.clear()

    def _write(self, name: str, lines: Any) -> None:
        behind = None
        # Root on the machine can write into the output of the helper.
        with suppress(OSError, CannotRun, ValueError, LookupError, TypeError):
            for line in lines:
                read = json.loads(line)
                if behind is None:  # the clock of a VM differs from ours
                    behind = time.time() - read["t"]
                t = round(read["t"] + behind - self._began, 3)
                sample = {"machine": name, **read, "t": t}
                with self._guard, self._file.open("a") as file:
                    file.write(json.dumps(sample, separators=(",", ":")) + "\n")
                    if self._tell is not None:
                        self._tell(sample)


def _end(helper: AbstractContextManager[object]) -> None:
    with suppress(CannotRun):
        helper.__exit__(None, None, None)
