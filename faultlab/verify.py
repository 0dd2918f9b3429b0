"""Verify: the whole contract of labs, case by case, several side by side if asked."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from faultlab import case, doctor, paths, vm
from faultlab import lab as labs
from faultlab.case import Case, Runner
from faultlab.command import uninterrupted
from faultlab.defaults import Wanted
from faultlab.engine import Engine
from faultlab.errors import BadInput, CannotRun
from faultlab.lab import Lab
from faultlab.result import Result
from faultlab.run import ensure_images, stack_name, take_down
from faultlab.terminal import Terminal


def verify(
    term: Terminal,
    lab_ids: Sequence[str],
    *,
    everything: bool = False,
    jobs: int = 1,
    repeat: int = 1,
    json_file: str | None = None,
    junit_file: str | None = None,
    wanted: Wanted = "auto",
    quick: bool = False,
) -> None:
    """Run the cases and print a line each. Raises SaidNo for a fail, CannotRun for an unknown.

    `quick`: of each lab its fix, one cheat, and the remedies that are next at this commit.
    """
    if bool(lab_ids) == everything:
        raise BadInput("Name some labs, or say --all.", "faultlab verify --help")
    if jobs < 1 or repeat < 1:
        raise BadInput("--jobs and --repeat take a number from 1 up.", "faultlab verify --help")
    for name in (json_file, junit_file):
        if name:
            paths.in_a_folder(name)
    chosen = [
        labs.load(lab_id) for lab_id in (labs.ids() if everything else dict.fromkeys(lab_ids))
    ]
    result = Result(term, json_file, junit_file, repeat)
    places, cannot = engines_of(term, chosen, wanted)
    for lab_id, reason in cannot.items():
        result.add(Case(lab_id, 1, "skip", 0.0, reason=reason))
    runner = Runner({lab_id: engine.name for lab_id, engine in places.items()}, quick)
    try:
        _run_all(term, [lab for lab in chosen if lab.id in places], jobs, runner, result)
    except BaseException:
        with uninterrupted():
            runner.stop()
            os.environ["FAULTLAB_NAMESPACE"] = case.namespace()
            for lab_id, engine in places.items():
                take_down(engine, stack_name(lab_id))
        raise
    result.conclude()


def engines_of(
    term: Terminal, chosen: Sequence[Lab], wanted: Wanted
) -> tuple[dict[str, Engine], dict[str, str]]:
    """The engine of each lab, ready; and why those have none that `wanted` does not allow."""
    places: dict[str, Engine] = {}
    cannot: dict[str, str] = {}
    local, lacking = (None, {}) if wanted == "vm" else _local(term)
    inside: Engine | None = None
    for lab in chosen:
        outlook = doctor.outlook(lab, lacking)
        if local is not None and outlook.verdict == "RUN":
            places[lab.id] = local
        elif wanted == "local":
            cannot[lab.id] = (
                f"needs the lab VM ({outlook.reason}): faultlab verify {lab.id} --engine vm"
            )
        else:
            if inside is None:
                vm.bring_up(term)
                inside = vm.connect()
            places[lab.id] = inside
    return places, cannot


def _local(term: Terminal) -> tuple[Engine, dict[str, str]]:
    """The local engine with every image, and what its kernel lacks. Raises CannotRun."""
    engine = Engine()
    with term.step("images", "looking for what has to be built") as step:
        ensure_images(engine, step.note)
        step.done("ready")
    with term.step("doctor", "trying what this machine can run") as step:
        facts, lacking = doctor.examine(engine)
        step.done("tried")
    amiss = [fact for fact in facts if not fact.ok]
    if amiss:
        raise CannotRun(f"{amiss[0].name}: {amiss[0].text}.", "faultlab doctor")
    return engine, lacking


def _run_all(term: Terminal, chosen: list[Lab], jobs: int, runner: Runner, result: Result) -> None:
    """Run `jobs` labs side by side; the cases of one lab follow each other.

    Looks that make load take turns (`lock.turn`), so side by side is all the rest: stacks that come
    and go, and looks that wait. Those that only wait come first, so that they wait together.
    """

    def repeated(lab: Lab) -> None:
        for number in range(1, result.repeat + 1):
            result.add(runner.run(lab, number))

    pool = ThreadPoolExecutor(max_workers=jobs)
    chosen = sorted(chosen, key=lambda lab: lab.load)
    try:
        with term.alive("run", f"{len(chosen)} labs, {jobs} at a time"):
            for future in [pool.submit(repeated, lab) for lab in chosen]:
                future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
