"""Exam: every tool on every lab, healthy, faulty and fixed, in a random order.

Each look is a fresh stack in one phase, proven by the lab's own check. Then its load continues and
the tools look, side by side. We tell them nothing about the lab.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from faultlab.core import lock, paths
from faultlab.core.errors import BadInput, CannotRun, Problem, SaidNo
from faultlab.core.naming import stack_name
from faultlab.core.terminal import Terminal
from faultlab.engine.contract import Engine
from faultlab.lab import load as labs
from faultlab.lab.model import Lab
from faultlab.run import digest, placement
from faultlab.run.background_load import traffic
from faultlab.run.placement import engines_of
from faultlab.run.readings import PHASES
from faultlab.run.run import Run
from faultlab.run.standing import standing
from faultlab.score import figures, recording, results, scorecard, trial
from faultlab.score import tool as tools
from faultlab.score.results import Results, Trial
from faultlab.score.tool import Tool
from faultlab.score.trial import Outcome

_STACK = "exam"  # for every lab, because a tool can read the names of containers
_FILE, _REPLAYED = "score.json", "replay.json"


@dataclass(frozen=True)
class Look:
    """One stack in one phase, for the n-th time."""

    lab: Lab
    phase: str
    number: int


def score(
    term: Terminal,
    names: Sequence[str],
    lab_ids: Sequence[str],
    *,
    repeat: int,
    seed: int,
    json_file: str | None,
    network: bool,
) -> None:
    """Examine the tools and print their card. Raises SaidNo if one is not as expected."""
    if repeat < 1:
        raise BadInput("--repeat takes a number from 1 up.", "faultlab score --help")
    examined = _examined(names)
    chosen = [labs.load(lab_id) for lab_id in lab_ids or labs.ids()]
    kept = _results(json_file, _FILE)
    places, cannot = engines_of(term, chosen, "local")
    for lab_id, why in cannot.items():
        term.say(f"{'skip':<9} {lab_id}: {why.partition(':')[0]}")
    looks = order([lab for lab in chosen if lab.id in places], repeat, seed)
    if not looks:
        raise CannotRun("None of these labs runs here.", "faultlab doctor")
    engine = places[looks[0].lab.id]
    _prepare(term, engine, examined, kept, network)
    kept.facts |= {"seed": seed, "machine": _machine(engine)}
    troubles = _all(term, engine, looks, examined, kept)
    if troubles:
        scorecard.show(term, kept)
        raise CannotRun(
            f"{len(troubles)} of {len(looks)} looks could not be made: {troubles[-1]}",
            "type the same command again: it makes only the missing ones",
        )
    _conclude(term, kept)


def _results(name: str | None, usual: str) -> Results:
    file = Path(name) if name else paths.runs() / usual
    return results.read(file) if file.exists() else Results(file)


def replay(
    term: Terminal, names: Sequence[str], source: str, json_file: str | None, network: bool
) -> None:
    """Let tools that read files examine a bundle. Raises SaidNo, BadInput, CannotRun."""
    examined = _examined(names)
    recorded = recording.read(Path(source))
    lab = labs.load(recorded.manifest["lab"])
    kept = _results(json_file, _REPLAYED)
    engine = placement.local()
    _prepare(term, engine, examined, kept, network)
    kept.facts |= {"machine": _machine(engine)}
    made_of = digest.fault(lab)
    for phase in PHASES:
        archive = recorded.phase(phase)
        with term.step("replay", f"{lab.id} {phase}") as step:
            outcomes = {
                tool.id: trial.replay(engine, tool, archive, stack_name(_STACK))
                for tool in examined
            }
            look = Look(lab, phase, 1)
            made = _trials(look, examined, outcomes, made_of, str(recorded.manifest.get("run", "")))
            kept.add(made)
            step.done(f"{lab.id} {phase}: {_loud(made)}")
    _conclude(term, kept)


def _examined(names: Sequence[str]) -> list[Tool]:
    if not names:
        raise BadInput("Name some tools, or say --all.", "faultlab score --help")
    return [tools.load(name) for name in dict.fromkeys([*names, *figures.BASELINES])]


def _conclude(term: Terminal, kept: Results) -> None:
    scorecard.show(term, kept)
    wrong = figures.disagreements(kept)
    if wrong:
        raise SaidNo(f"Not as expected: {wrong[0].text}.", "see [[expect]] in its tool.toml")


def _loud(made: Sequence[Trial]) -> str:
    told = [one for one in made if one.kind == "diagnosis"]
    return f"{sum(one.alarm for one in told)} of {len(told)} raise an alarm"


def order(chosen: Sequence[Lab], repeat: int, seed: int) -> list[Look]:
    """Return all looks: one whole repeat after the other, each in a random order."""
    chance = random.Random(seed)
    found: list[Look] = []
    for number in range(1, repeat + 1):
        turn = [Look(lab, phase, number) for lab in chosen for phase in PHASES]
        chance.shuffle(turn)
        found += turn
    return found


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
                "version": trial.version(engine, tool, stack_name(_STACK)),
            }
        step.done(f"{len(examined)} ready")


def _machine(engine: Engine) -> dict[str, object]:
    facts = asdict(engine.facts())
    return {"docker": facts["version"]} | {
        key: facts[key] for key in ("kernel", "system", "cgroup", "cpus")
    }


def _all(
    term: Terminal,
    engine: Engine,
    looks: Sequence[Look],
    examined: Sequence[Tool],
    kept: Results,
) -> list[str]:
    """Make the missing looks. One that fails is reported and left for the next time."""
    troubles = []
    for i, look in enumerate(looks, 1):
        wanted = [t for t in examined if not kept.has(t, look.lab, look.phase, look.number)]
        if not wanted:
            continue
        what = f"{look.lab.id} {look.phase} {look.number}"
        with term.step("look", what) as step:
            try:
                made = _look(engine, look, wanted)
            except Exception as problem:  # the judge can break too
                why = str(problem) if isinstance(problem, Problem) else repr(problem)
                troubles.append(f"{what}: {why}")
                step.done(f"{i} of {len(looks)}: {what}: could not be made")
                term.say(f"{'':<9} {why}")
                continue
            kept.add(made)
            step.done(f"{i} of {len(looks)}: {what}: {_loud(made)}")
    return troubles


def _look(engine: Engine, look: Look, wanted: Sequence[Tool]) -> list[Trial]:
    made_of = digest.fault(look.lab)
    with on_show(engine, look.lab, look.phase) as run:
        with traffic(lambda: run.check.look(run.stack)):
            outcomes = trial.examine(run.stack, look.lab, wanted)
        return _trials(look, wanted, outcomes, made_of, run.record.id)


def _trials(
    look: Look, wanted: Sequence[Tool], outcomes: Mapping[str, Outcome], made_of: str, run: str
) -> list[Trial]:
    return [
        Trial(
            *(tool.id, look.lab.id, look.phase, look.number, tool.digest, made_of),
            **vars(outcomes[tool.id]),
            run=run,
        )
        for tool in wanted
    ]


@contextmanager
def on_show(engine: Engine, lab: Lab, phase: str) -> Iterator[Run]:
    """Yield a fresh stack in this phase, proven, without anything that names the lab.

    Raises SaidNo or CannotRun if the phase cannot be proven.
    """
    name = stack_name(_STACK)
    with (
        lock.hold(name, "score"),
        standing(engine, lab.called(_STACK), name, phase, collects=False) as run,
    ):
        yield run
