"""Task: a look in a pod of its own: `python -m faultlab.score.task ENGINE WAY LAB PHASE …`.

It prints the trials of these tools, packed, for the command that wants them.
"""

import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import NoReturn

from faultlab.core.errors import Problem
from faultlab.engine.contract import Engine
from faultlab.engine.kubernetes import jobspec
from faultlab.run import job_result, placement
from faultlab.score import setups
from faultlab.score import tool as tools
from faultlab.score.alone import Alone, in_a_crowd, share_out
from faultlab.score.results import ALONE, CROWD, Trial, Way
from faultlab.score.setups import Setup
from faultlab.score.tool import Tool


@dataclass
class Made:
    """The trials of a look, and why the others could not be made."""

    trials: list[Trial] = field(default_factory=list)
    problem: str = ""
    processors: dict[str, str] = field(default_factory=dict)  # of the stack and of the tools


def words(engine: str, way: Way, look: Setup, wanted: Sequence[Tool]) -> str:
    """Return a look as the words of a task."""
    its = look.lab.id, look.phase, str(look.number), *(tool.id for tool in wanted)
    return " ".join(("score.task", engine, way, *its))


def make(engine: Engine, way: Way, look: Setup, wanted: Sequence[Tool]) -> Made:
    """Make the trials of a look. One that fails ends it."""
    made = Made()
    try:
        if way == ALONE:
            cpus = share_out(engine, print)
            made.processors = {"stack_cpus": engine.cpus, "tool_cpus": cpus}
            each = Alone(engine, cpus, lambda _: True, print).trials(look, wanted)
        else:
            each = in_a_crowd(engine, look, wanted)
        made.trials += each  # those before an error stay
    except Exception as problem:  # the judge can break too
        made.problem = str(problem) if isinstance(problem, Problem) else repr(problem)
    return made


def _stop(*_: object) -> NoReturn:
    sys.exit(128 + signal.SIGTERM)  # the stack is removed on the way out


def main() -> None:
    """Make the look that the words of the command name, and print its result."""
    signal.signal(signal.SIGTERM, _stop)
    engine, way, lab_id, phase, number, *names = sys.argv[1:]
    look = setups.named(lab_id, phase, int(number))
    wanted = [tools.load(name) for name in names]
    made = make(placement.ENGINES[engine].reach(), CROWD if way == CROWD else ALONE, look, wanted)
    for line in jobspec.lines(job_result.pack(asdict(made), {trial.run for trial in made.trials})):
        print(line)


if __name__ == "__main__":
    main()
