"""Exam: every tool on every lab, healthy, faulty and fixed, in a random order.

Each look is a fresh stack in one phase, proven by the lab's own check. Then its load continues and
the tools look: one after the other, or in a crowd. We tell them nothing about the lab. On a
cluster each look is a task in a pod.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path

from faultlab.core import paths
from faultlab.core.errors import BadInput, CannotRun, Problem, SaidNo
from faultlab.core.naming import stack_name
from faultlab.core.terminal import Terminal
from faultlab.engine import batch as batches
from faultlab.engine.batch import Batch, Task
from faultlab.engine.contract import Engine, Say
from faultlab.lab import checks
from faultlab.lab import loader as labs
from faultlab.run import digest, job_result, placement
from faultlab.run.phase import PHASES
from faultlab.score import metrics, recording, results, scorecard, task, trial
from faultlab.score import tool as tools
from faultlab.score.alone import Alone, in_a_crowd, share_out
from faultlab.score.results import ALONE, CROWD, Results, Trial, Way
from faultlab.score.schedule import Schedule, deadline
from faultlab.score.setups import STACK, Setup, made_in, order
from faultlab.score.tool import Tool

_FILE, _REPLAYED = "score.json", "replay.json"


def score(
    term: Terminal,
    names: Sequence[str],
    lab_ids: Sequence[str],
    *,
    repeat: int,
    seed: int,
    json_file: str | None,
    network: bool,
    severities: bool = False,
    crowd: bool = False,
    hours: float | None = None,
    wanted: str = "local",
    jobs: int = 1,
) -> None:
    """Examine the tools and print their card. Raises SaidNo if one is not as expected."""
    until = deadline(hours)
    examined = _examined(names)
    _refuse(examined, repeat, wanted, jobs, hours)
    chosen = [labs.load(lab_id) for lab_id in lab_ids or labs.ours()]
    if severities:
        chosen = [row for lab in chosen for row in labs.rows(lab)]
    way = CROWD if crowd else ALONE
    with results.opened(json_file, _FILE, "score") as kept:
        places = placement.places_of(term, chosen, wanted)
        here = [lab for lab in chosen if lab.id in places]
        engine = places[here[0].id]
        _prepare(term, engine, examined, kept, network)
        kept.facts["seed"] = seed
        looks = order(here, repeat, seed, floors=way == ALONE)
        plan = Schedule(looks, examined, kept, way, seed, until)
        plan.forget_the_silent()
        troubles = _make(term, engine, plan, jobs)
        if troubles:
            scorecard.show(term, kept)
            raise CannotRun(
                f"{len(troubles)} of {len(looks)} looks could not be made: {troubles[-1]}",
                "type the same command again: it makes only the missing ones",
            )
        _conclude(term, kept, way, examined)
        if left := plan.left():
            term.say(f"The time is over; {left} trials are missing. The same command makes them.")


def replay(
    term: Terminal, names: Sequence[str], source: str, json_file: str | None, network: bool
) -> None:
    """Let tools that read files examine a bundle. Raises SaidNo, BadInput, CannotRun."""
    examined = _examined(names)
    recorded = recording.read(Path(source))
    with results.opened(json_file, _REPLAYED, "score") as kept:
        lab = labs.load(recorded.manifest["lab"])
        engine = placement.local()
        _prepare(term, engine, examined, kept, network)
        for phase in PHASES:
            archive = recorded.phase(phase)
            with term.step("replay", f"{lab.id} {phase}") as step:
                look, ran = Setup(lab, phase, 1), str(recorded.manifest.get("run", ""))
                made = []
                for tool in examined:
                    outcome = trial.replay(engine, tool, archive, stack_name(STACK))
                    made.append(made_in(look, tool, outcome, run=ran, way=ALONE, replayed=True))
                kept.add(made)
                step.done(f"{lab.id} {phase}: {_loud(made)}")
        _conclude(term, kept, ALONE, examined)


def _examined(names: Sequence[str]) -> list[Tool]:
    if not names:
        raise BadInput("Name some tools, or say --all.", "faultlab score --help")
    return [tools.load(name) for name in dict.fromkeys([*names, *metrics.BASELINES])]


def _refuse(
    examined: Sequence[Tool], repeat: int, wanted: str, jobs: int, hours: float | None
) -> None:
    """Raise BadInput for what is not possible where the looks are to be made."""
    if min(repeat, jobs) < 1:
        raise BadInput("--jobs and --repeat take a number from 1 up.", "faultlab score --help")
    if wanted == "local":
        if jobs > 1:
            raise BadInput("On this machine one look is made at a time.", "leave out --jobs")
        return
    if hours is not None:
        raise BadInput("--hours is for this machine; --jobs makes it faster.", "leave out --hours")
    for tool in examined:
        if tool.folder.parent != paths.tools():
            what = f"{tool.id} is not in tools/, and pods have only what is there."
            raise BadInput(what, f"cp -r {tool.folder} {paths.show(paths.tools())}")


def _conclude(term: Terminal, kept: Results, way: Way, examined: Sequence[Tool]) -> None:
    scorecard.show(term, kept)
    of_today = kept.only(lambda trial: trial.lab_digest == digest.fault(labs.loaded(trial.lab)))
    wrong = metrics.disagreements(metrics.of_way(of_today, way), examined)
    if wrong:
        raise SaidNo(f"Not as expected: {wrong[0].text}.", "see [[expect]] in its tool.toml")


def _loud(made: Sequence[Trial]) -> str:
    told = [one for one in made if one.kind == "diagnosis"]
    return f"{sum(one.alarm for one in told)} of {len(told)} raise an alarm"


def _prepare(
    term: Terminal, engine: Engine, examined: Sequence[Tool], kept: Results, network: bool
) -> None:
    """Build the images of the tools, and ask each for its version."""
    kept.facts["machine"] = _machine(engine)
    with term.step("tools", "building their images") as step:
        engine.images.ensure(step.note, {tool.image for tool in examined}, network=network)
        for tool in examined:
            if kept.tools.get(tool.id, {}).get("digest") == tool.digest:
                continue
            step.note(f"asking {tool.id} for its version")
            kept.tools[tool.id] = {
                "title": tool.title,
                "digest": tool.digest,
                "version": trial.version(engine, tool, stack_name(STACK)),
            }
        step.done(f"{len(examined)} ready")


def _machine(engine: Engine) -> dict[str, object]:
    facts = asdict(engine.facts())
    return {"engine": engine.name, "docker": facts["version"]} | {
        key: facts[key] for key in ("kernel", "system", "cgroup", "cpus")
    }


def _make(term: Terminal, engine: Engine, plan: Schedule, jobs: int) -> list[str]:
    """Make the missing looks, here or in pods; return why some could not be made."""
    batch = engine.batch(batches.name_of(plan.kept.file, plan.way, str(plan.seed)))
    if batch is None:
        return _all(term, engine, plan)
    return _as_tasks(term, batch, engine.name, plan, jobs)


def _all(term: Terminal, engine: Engine, plan: Schedule) -> list[str]:
    """Make the missing looks. One that fails is reported and left for the next time."""
    make = _in_crowds(engine) if plan.way == CROWD else _alone(term, engine, plan)
    troubles: list[str] = []
    tried: set[int] = set()
    while (index := plan.next(tried)) is not None:
        tried.add(index)
        look = plan.looks[index]
        made: list[Trial] = []
        with term.step("look", look.text) as step:
            try:
                with closing(make(look, plan.missing(look), step.note)) as each:
                    for one in each:
                        made.append(one)
                        plan.kept.add([one])
            except Exception as problem:  # the judge can break too
                why = str(problem) if isinstance(problem, Problem) else repr(problem)
                troubles.append(f"{look.text}: {why}")
                step.done(f"{look.text}: could not be made")
                term.say(f"{'':<9} {why}")
                continue
            step.done(f"{plan.complete()} of {len(plan.looks)}: {look.text}: {_loud(made)}")
    return troubles


Make = Callable[[Setup, Sequence[Tool], Say], Generator[Trial, None, None]]


def _alone(term: Terminal, engine: Engine, plan: Schedule) -> Make:
    """Return how a look is made with one tool after the other."""
    cpus = share_out(engine, term.say)
    plan.kept.facts["machine"] |= {"stack_cpus": engine.cpus, "tool_cpus": cpus}
    return lambda look, wanted, note: Alone(engine, cpus, plan.allows, note).trials(look, wanted)


def _in_crowds(engine: Engine) -> Make:
    """Return how a look is made with all tools at the same time."""
    return lambda look, wanted, _note: in_a_crowd(engine, look, wanted)


def _as_tasks(term: Terminal, batch: Batch, engine: str, plan: Schedule, jobs: int) -> list[str]:
    """Let an engine make the missing looks, each in a pod."""
    missing = [(look, wanted) for look in plan.looks if (wanted := plan.missing(look))]
    looks = {task.words(engine, plan.way, look, wanted): look for look, wanted in missing}
    tasks = [
        Task(words, alone=plan.way == ALONE or checks.load(look.lab).relative)
        for words, look in looks.items()
    ]
    tool_digests = {tool.id: tool.digest for tool in plan.tools}
    troubles = []
    with (
        term.alive("looks", f"{len(tasks)} looks, {jobs} at a time") as step,
        closing(batch.run(tasks, jobs, step.note)) as each,
    ):
        for ended in each:
            look = looks[ended.words]
            try:
                made = job_result.opened(task.Made, ended)
            except CannotRun as problem:
                made = task.Made(problem=problem.message)
            # The image is of this program, but another Python can give other digests.
            lab_digest = digest.fault(look.lab)
            plan.kept.facts["machine"] |= made.processors
            plan.kept.add(
                replace(one, tool_digest=tool_digests[one.tool], lab_digest=lab_digest)
                for one in made.trials
            )
            term.say(f"{plan.complete()} of {len(plan.looks)}: {look.text}: {_loud(made.trials)}")
            if made.problem:
                term.say(f"{'':<9} {made.problem}")
                troubles.append(f"{look.text}: {made.problem}")
    return troubles
