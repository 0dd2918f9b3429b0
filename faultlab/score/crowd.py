"""Crowd: all tools look at a proven stack at the same time, with all processors for everything."""

from collections.abc import Generator, Sequence

from faultlab.engine.contract import Engine
from faultlab.run.background_load import traffic
from faultlab.score import trial
from faultlab.score.results import Trial
from faultlab.score.setups import Setup, made_in, on_show
from faultlab.score.tool import Tool


def trials(engine: Engine, look: Setup, wanted: Sequence[Tool]) -> Generator[Trial]:
    """Yield the trials of these tools. Raises SaidNo, CannotRun."""
    with on_show(engine, look.lab, look.phase) as run:
        with traffic(lambda: run.check.look(run.stack)):
            outcomes = trial.examine(run.stack, look.lab, wanted)
        yield from (made_in(look, tool, outcomes[tool.id], run=run.record.id) for tool in wanted)
