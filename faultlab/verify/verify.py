"""Verify: the whole contract of labs, case by case, several at a time if asked.

An interrupted verify continues from its JSON file.
"""

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from faultlab.core import extra, lock, paths
from faultlab.core.command import uninterrupted
from faultlab.core.defaults import AUTO
from faultlab.core.errors import BadInput, CannotRun
from faultlab.core.naming import stack_name, verify_namespace
from faultlab.core.terminal import Step, Terminal
from faultlab.engine import batch as batches
from faultlab.engine.batch import Batch, Task
from faultlab.engine.contract import Engine
from faultlab.lab import checks
from faultlab.lab import loader as labs
from faultlab.lab.model import Lab
from faultlab.run import job_result, placement
from faultlab.run.placement import engines_of
from faultlab.verify import campaign, task
from faultlab.verify.campaign import Campaign, Document
from faultlab.verify.case import Case, Runner, digests
from faultlab.verify.result import Result


def verify(
    term: Terminal,
    lab_ids: Sequence[str],
    *,
    everything: bool = False,
    jobs: int = 1,
    repeat: int = 1,
    json_file: str | None = None,
    junit_file: str | None = None,
    wanted: str = AUTO,
    quick: bool = False,
) -> Document:
    """Run the cases and print a line each. Raises SaidNo for a fail, CannotRun for an unknown.

    `quick`: for each lab only its fix, one cheat, and the remedies whose turn it is at this commit.
    Otherwise each lab is walked at all its severities.
    """
    chosen = labs.chosen(lab_ids, everything, "verify")
    if not quick:
        chosen = [*{one.id: one for lab in chosen for one in _at_all_doses(lab)}.values()]
    if jobs < 1 or repeat < 1:
        raise BadInput("--jobs and --repeat take a number from 1 up.", "faultlab verify --help")
    for name in (json_file, junit_file):
        if name:
            paths.in_a_folder(name)
    extra.require("pytest", of="verify", what="The checks need")
    asked = Campaign([lab.id for lab in chosen], repeat, quick=quick)
    old = _earlier(term, Path(json_file), asked) if json_file else None
    result = None if old else Result(term, asked, json_file, junit_file)
    places, cannot = engines_of(term, chosen, wanted, parts=True)
    runner = Runner({lab_id: engine.name for lab_id, engine in places.items()}, quick)
    if old:  # its file stays unchanged until here
        asked.cases = _kept(term, old, asked, runner.engines)
    result = result or Result(term, asked, json_file, junit_file)
    for lab_id, reason in cannot.items():
        result.add(Case(lab_id, 1, "skip", 0.0, reason=reason))
    here = [lab for lab in chosen if lab.id in places]
    batch = _batch(places, result)
    try:
        (partial(_run_as_tasks, batch) if batch else _run_all)(here, jobs, runner, result)
    except BaseException:
        _take_down(places)
        raise
    return result.conclude()


def _at_all_doses(lab: Lab) -> list[Lab]:
    return labs.rows(lab) if lab.main else [lab]


def _batch(places: Mapping[str, Engine], result: Result) -> Batch | None:
    """Return where the engine runs the walks itself; None if this machine runs them.

    The same command gets the same batch again, also with more walks.
    """
    asked = result.campaign
    engine = next(iter(places.values()), None)
    name = batches.name_of(result.json_file, *asked.labs, str(asked.quick))
    return engine.batch(name) if engine else None


def _run_as_tasks(
    batch: Batch, chosen: Sequence[Lab], jobs: int, runner: Runner, result: Result
) -> None:
    """Let the engine run the walks, and add each case when it ends."""
    todo = _missing(chosen, runner, result.campaign)
    tasks = {
        task.Walk(walk.lab.id, walk.number, runner.engines[walk.lab.id], runner.quick).words: walk
        for walk in todo
    }
    wanted = [Task(words, walk.alone, walk.in_vm) for words, walk in tasks.items()]
    with (
        result.term.alive("run", f"{len(todo)} walks, {jobs} at a time") as step,
        closing(batch.run(wanted, jobs, step.note)) as each,
    ):
        for ended in each:
            lab, number = tasks[ended.words].lab, tasks[ended.words].number
            try:
                case = job_result.opened(Case, ended)
            except CannotRun as problem:
                case = Case(lab.id, number, "unknown", reason=problem.message)
            # The image is of this program, but another Python can give other digests.
            engine = runner.engines[lab.id]
            result.add(replace(case, engine=engine, **digests(lab.id)))


def _take_down(places: Mapping[str, Engine]) -> None:
    """Remove the stacks of walks that were interrupted, but none that another verify holds."""
    with uninterrupted():
        for lab_id, engine in places.items():
            name = stack_name(lab_id, verify_namespace())
            with suppress(lock.Held), lock.hold(name, "verify"):
                engine.down(name)


def _earlier(term: Terminal, file: Path, asked: Campaign) -> Campaign | None:
    """Return the campaign in the file if it can be continued, and report one that is replaced."""
    old = campaign.unfinished(file, asked)
    if old is None and campaign.holds_something(file):
        term.say(f"afresh: the campaign in {file.name} was complete and is replaced")
    return old


def _kept(term: Terminal, old: Campaign, asked: Campaign, engines: Mapping[str, str]) -> list[Case]:
    """Return the cases of an interrupted campaign that still count, and print how many."""
    with term.alive("resuming", "checking what has changed since"):
        kept = campaign.still_good(old, asked, engines)
    line = f"resuming: {len(kept)} of {len(engines) * asked.repeat} walks are there"
    again = sum(case.verdict != "skip" for case in old.cases) - len(kept)
    term.say(line + (f", {again} others are made again" if again else ""))
    return kept


@dataclass(frozen=True)
class _Walk:
    """One walk of a lab.

    `in_vm`: it is where a lab owns the kernel, so only one is at a time; `waits`: it mostly waits;
    `alone`: it needs the machine alone.
    """

    lab: Lab
    number: int
    in_vm: bool
    waits: bool
    alone: bool


def _missing(chosen: Sequence[Lab], runner: Runner, asked: Campaign) -> list[_Walk]:
    """Return the walks to make, in their order.

    Walks that mostly wait come first, and then those in the VM, because they have workers of their
    own. Then come walks that do not need the machine alone. They run beside each other and beside
    the first of the rest.
    """
    missing = asked.missing
    walks = []
    for lab in chosen:
        check = checks.load(lab)
        in_vm = placement.ENGINES[runner.engines[lab.id]].owns_kernel
        waits = check.idle is not None and not in_vm
        alone = check.relative
        walks += [
            _Walk(lab, n, in_vm, waits, alone)
            for n in range(1, asked.repeat + 1)
            if (lab.id, n) in missing
        ]
    return sorted(walks, key=lambda walk: (not walk.waits, not walk.in_vm, walk.number, walk.alone))


class _Walks:
    """The walks in progress: one at a time for each lab, because its walks share a stack name."""

    def __init__(self, labs_: Sequence[Lab], runner: Runner, result: Result, step: Step) -> None:
        self._guards = {lab.id: threading.Lock() for lab in labs_}
        self._now: list[str] = []  # the labs that are being walked now
        self._runner = runner
        self._result = result
        self._step = step
        self.over = threading.Event()

    def one(self, walk: _Walk) -> None:
        """Make one walk, unless everything has been stopped by then."""
        with self._guards[walk.lab.id]:
            if self.over.is_set():
                return
            self._now.append(walk.lab.id)
            self._step.note(" and ".join(self._now))
            try:
                self._result.add(self._runner.run(walk.lab, walk.number))
            except BaseException:
                self.over.set()  # before this thread takes the next one
                raise
            self._now.remove(walk.lab.id)
            self._step.note(" and ".join(self._now))


def _run_all(chosen: Sequence[Lab], jobs: int, runner: Runner, result: Result) -> None:
    """Run `jobs` walks at a time, beside them one that waits, and if `jobs` > 1 one in the VM.

    Looks that make load take turns (`lock.turn`), so only the rest runs in parallel: stacks that
    come and go, and looks that wait.
    """
    todo = _missing(chosen, runner, result.campaign)
    pool, waiting = ThreadPoolExecutor(jobs), ThreadPoolExecutor(1)
    vm = ThreadPoolExecutor(1) if jobs > 1 else pool
    with result.term.alive("run", f"{len(todo)} walks, {jobs} at a time") as step:
        walks = _Walks(chosen, runner, result, step)
        try:
            begun = []
            for walk in todo:
                workers = waiting if walk.waits else vm if walk.in_vm else pool
                begun.append(workers.submit(walks.one, walk))
            for each in begun:
                each.result()
        except BaseException:
            walks.over.set()
            with uninterrupted():
                runner.stop()
                for workers in (pool, waiting, vm):
                    workers.shutdown(cancel_futures=True)
            raise
