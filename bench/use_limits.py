"""The limits of `faultlab use`: live labs recorded, and judged by the limits of this checkout.

Half of the labs chose the limits, the other half judges them (docs/use.md). A recording has the
output of the commands, so another checkout can judge the same looks.

Usage: .venv/bin/python bench/use_limits.py record FILE.jsonl [LAB ...]   (1 to 3 minutes a lab)
       .venv/bin/python bench/use_limits.py enter FILE.jsonl [LAB ...]    (on a machine that is too
       busy to prove the phases: the steps of the lab are done, and its check judges nothing)
       .venv/bin/python bench/use_limits.py judge FILE.jsonl [SECONDS]    (2; more: a whole phase)
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from faultlab.core import lock
from faultlab.core.errors import CannotRun, SaidNo
from faultlab.engine.contract import State
from faultlab.engine.docker.local import LocalEngine
from faultlab.engine.shell import Done, Shell
from faultlab.engine.stack import Stack
from faultlab.lab import loader as labs
from faultlab.lab.model import Lab
from faultlab.observe.use.limits import crossed
from faultlab.observe.use.table import tables
from faultlab.run.phase import FAULTY, PHASES
from faultlab.run.run import Run
from faultlab.score import diagnosis, tool
from faultlab.score.diagnosis import Diagnosis, InstanceEnd, Said

SEED = 1
LOOKS = 3  # in each phase, one after the other
SECONDS = 2.0  # of one look, as `faultlab score` looks
NEXT = "==next look\n"  # between the two readings of a look
NAME = "use-limits"


def halves() -> tuple[set[str], set[str]]:
    """Return the labs that choose limits, and those that judge them."""
    ids = sorted(lab_id for lab_id in labs.ids() if labs.load(lab_id).scope == "machine")
    random.Random(SEED).shuffle(ids)
    return {*ids[: len(ids) // 2]}, {*ids[len(ids) // 2 :]}


class Taped(dict[str, Any]):
    """A live stack that keeps what its shells print."""

    def __init__(self, stack: Stack) -> None:
        super().__init__({machine.name: machine for machine in stack.values()})
        self.engine, self.live = stack.engine, stack
        self.out: dict[str, str] = {}

    def shell(self, name: str) -> Any:
        """Return a shell of this place."""

        def run(command: str, timeout: float = 30) -> Done:
            done = cast("Shell", self.live.shell(name)).run(command, timeout=timeout)
            self.out[name] = done.out
            return done

        return SimpleNamespace(name=name, run=run)


@contextmanager
def load(run: Run) -> Iterator[None]:
    """Repeat the look of the check while the body runs, and wait for the last one."""
    over = threading.Event()

    def loop() -> None:
        while not over.is_set():
            try:
                run.check.look(run.stack)
            except CannotRun:
                over.wait(1)

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def record(file: Path, wanted: list[str], proven: bool) -> None:
    """Walk through the labs and add their looks to the file."""
    engine = LocalEngine()
    for lab_id in wanted or sorted(set.union(*halves())):
        print(lab_id, flush=True)
        lab = labs.load(lab_id)
        try:
            with lock.hold(NAME, "record"), file.open("a") as out:
                run = Run.begin(engine, lab, NAME, collects=False)
                try:
                    for phase in PHASES:
                        run.enter(phase)
                        if proven:
                            run.prove(phase)
                        for line in looks(run, lab, phase):
                            out.write(line + "\n")
                        print(f"  {phase}", flush=True)
                finally:
                    run.down()
        except (CannotRun, SaidNo) as problem:
            print(f"  {problem}", flush=True)


def looks(run: Run, lab: Lab, phase: str) -> Iterator[str]:
    """Yield what is read in this phase, as lines of JSON."""
    machines = [machine.name for machine in run.stack.machines]
    with load(run):
        time.sleep(SECONDS)  # the users have come
        for number in range(1, LOOKS + 1):
            taped = Taped(run.stack)
            states = {name: asdict(machine.state) for name, machine in taped.items()}
            tables(lab, cast("Stack", taped), machines, SECONDS)
            look = {"lab": lab.id, "phase": phase, "number": number, "machines": machines}
            yield json.dumps({**look, "states": states, "out": taped.out})


class Recorded(dict[str, Any]):
    """A stack that prints what was recorded."""

    def __init__(self, look: dict[str, Any]) -> None:
        super().__init__({name: self._machine(name, s) for name, s in look["states"].items()})
        self.engine, self.out = SimpleNamespace(owns_kernel=False), look["out"]

    @staticmethod
    def _machine(name: str, state: dict[str, Any]) -> Any:
        return SimpleNamespace(name=name, state=State(**state), typed=lambda action: action)

    def shell(self, name: str) -> Any:
        """Return a shell of this place."""
        out = self.out.get(name, "")
        return SimpleNamespace(run=lambda command, timeout=0.0: Done(command, 0, out, "", 0))


def judged(look: dict[str, Any]) -> Diagnosis:
    """Return the diagnosis of `use` on a recorded look, as `faultlab score` makes it."""
    found = tables(labs.load(look["lab"]), cast("Stack", Recorded(look)), look["machines"], SECONDS)
    said = [
        Said(SECONDS, table.name, f"{table.name}: {row.resource}: {why}")
        for table in found
        for row in table.rows
        for _, why in crossed(row)
    ]
    return diagnosis.of(tool.load("use"), [InstanceEnd("host", SECONDS, 0, said)])


def read(file: Path, seconds: float) -> Iterator[dict[str, Any]]:
    """Yield the looks of a file. For more than 2 s, the looks of a phase become one."""
    together: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    with file.open() as lines:
        for line in lines:
            look = json.loads(line)
            together[look["lab"], look["phase"]].append(look)
    for group in together.values():
        if seconds <= SECONDS:
            yield from group
            continue
        first, last = group[0], group[-1]
        both = {
            place: out.partition(NEXT)[0] + NEXT + last["out"].get(place, "").partition(NEXT)[2]
            for place, out in first["out"].items()
        }
        yield {**last, "out": both}


def judge(file: Path, seconds: float) -> None:
    """Print each alarm, then what both halves catch and their false alarms."""
    figures: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    chosen, _ = halves()
    for look in read(file, seconds):
        lab, said = labs.load(look["lab"]), judged(look)
        half = "chosen on" if lab.id in chosen else "judged on"
        faulty = look["phase"] == FAULTY and lab.truth.cause != "none"
        kinds = ["catches" if faulty else "false alarms"]
        named = said.alarm and lab.truth.cause in said.causes[:3]
        for kind, yes in [(kinds[0], said.alarm), *([("cause named", named)] if faulty else [])]:
            figures[half, kind][0] += yes
            figures[half, kind][1] += 1
        print(f"{lab.id} {look['phase']} {look['number']}: {'; '.join(said.evidence) or '-'}")
    for (half, kind), (yes, of) in sorted(figures.items()):
        print(f"{half:<10} {kind:<13} {yes} of {of}")


if __name__ == "__main__":
    if sys.argv[1:2] in (["record"], ["enter"]):
        record(Path(sys.argv[2]), sys.argv[3:], sys.argv[1] == "record")
    elif sys.argv[1:2] == ["judge"]:
        judge(Path(sys.argv[2]), float(sys.argv[3]) if len(sys.argv) > 3 else SECONDS)
    else:
        sys.exit(__doc__)
