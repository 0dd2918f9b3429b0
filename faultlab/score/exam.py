"""Exam: every tool on every lab, healthy, faulty and fixed, in a random order.

Each look is a fresh stack in one phase, proven by the lab's own check. Then its load continues and
the tools look: one after the other, or in a crowd. We tell them nothing about the lab.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

from faultlab.core.errors import BadInput, CannotRun, Problem, SaidNo
from faultlab.core.naming import stack_name
from faultlab.core.terminal import Terminal
from faultlab.engine.contract import Engine, Say
from faultlab.lab import load as labs
from faultlab.run import digest, placement
from faultlab.run.background_load import traffic
from faultlab.run.readings import PHASES
from faultlab.score import figures, recording, results, scorecard, trial
from faultlab.score import tool as tools
from faultlab.score.alone import Alone, processors
from faultlab.score.looks import STACK, Look, made_in, on_show, order
from faultlab.score.plan import Plan, deadline
from faultlab.score.results import ALONE, CROWD, Results, Trial, Way
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
    crowd: bool = False,
    hours: float | None = None,
) -> None:
    """Examine the tools and print their card. Raises SaidNo if one is not as expected."""
    if repeat < 1:
        raise BadInput("--repeat takes a number from 1 up.", "faultlab score --help")
    until = deadline(hours)
    examined = _examined(names)
    chosen = [labs.load(lab_id) for lab_id in lab_ids or labs.ids()]
    way = CROWD if crowd else ALONE
    with results.opened(json_file, _FILE, "score") as kept:
        places = placement.places_of(term, chosen)
        here = [lab for lab in chosen if lab.id in places]
        engine = places[here[0].id]
        _prepare(term, engine, examined, kept, network)
        kept.facts |= {"seed": seed, "machine": _machine(engine)}
        looks = order(here, repeat, seed, floors=way == ALONE)
        plan = Plan(looks, examined, kept, way, seed, until)
        plan.forget_the_silent()
        troubles = _all(term, engine, plan)
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
        kept.facts |= {"machine": _machine(engine)}
        for phase in PHASES:
            archive = recorded.phase(phase)
            with term.step("replay", f"{lab.id} {phase}") as step:
                look, ran = Look(lab, phase, 1), str(recorded.manifest.get("run", ""))
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
    return [tools.load(name) for name in dict.fromkeys([*names, *figures.BASELINES])]


def _conclude(term: Terminal, kept: Results, way: Way, examined: Sequence[Tool]) -> None:
    scorecard.show(term, kept)
    of_today = kept.only(lambda trial: trial.lab_digest == digest.fault(labs.loaded(trial.lab)))
    wrong = figures.disagreements(figures.of_way(of_today, way), examined)
    if wrong:
        raise SaidNo(f"Not as expected: {wrong[0].text}.", "see [[expect]] in its tool.toml")


def _loud(made: Sequence[Trial]) -> str:
    told = [one for one in made if one.kind == "diagnosis"]
    return f"{sum(one.alarm for one in told)} of {len(told)} raise an alarm"


def _prepare(
    term: Terminal, engine: Engine, examined: Sequence[Tool], kept: Results, network: bool
) -> None:
    """Build the images of the tools, and ask each for its version."""
    with term.step("tools", "building their images") as step:
        engine.images.ensure(step.note, {tool.image for tool in examined}, network=network)
        for tool in examined:
            step.note(f"asking {tool.id} for its version")
            kept.tools[tool.id] = {
                "title": tool.title,
                "digest": tool.digest,
                "version": trial.version(engine, tool, stack_name(STACK)),
            }
        step.done(f"{len(examined)} ready")


def _machine(engine: Engine) -> dict[str, object]:
    facts = asdict(engine.facts())
    return {"docker": facts["version"]} | {
        key: facts[key] for key in ("kernel", "system", "cgroup", "cpus")
    }


def _all(term: Terminal, engine: Engine, plan: Plan) -> list[str]:
    """Make the missing looks. One that fails is reported and left for the next time."""
    make = _together(engine) if plan.way == CROWD else _alone(term, engine, plan)
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


Make = Callable[[Look, Sequence[Tool], Say], Generator[Trial, None, None]]


def _alone(term: Terminal, engine: Engine, plan: Plan) -> Make:
    """Return how a look is made with one tool after the other."""
    engine.cpus, cpus = processors(engine.facts().cpus)
    if not cpus:
        term.say("This machine has one processor: tools share it with the stack and its load.")
    plan.kept.facts["machine"] |= {"stack_cpus": engine.cpus, "tool_cpus": cpus}
    return lambda look, wanted, note: Alone(engine, cpus, plan.allows, note).trials(look, wanted)


def _together(engine: Engine) -> Make:
    """Return how a look is made with all tools at the same time."""

    def make(look: Look, wanted: Sequence[Tool], _note: Say) -> Generator[Trial, None, None]:
        with on_show(engine, look.lab, look.phase) as run:
            with traffic(lambda: run.check.look(run.stack)):
                outcomes = trial.examine(run.stack, look.lab, wanted)
            yield from (made_in(look, t, outcomes[t.id], run=run.record.id) for t in wanted)

    return make
