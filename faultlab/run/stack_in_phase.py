"""Stack in phase: a stack that is kept up in one phase of its lab while the body runs."""

from collections.abc import Iterator
from contextlib import contextmanager

from faultlab.engine.contract import Engine
from faultlab.lab.model import Lab
from faultlab.run.phase import HEALTHY, PHASES
from faultlab.run.run import Run


@contextmanager
def stack_in_phase(
    engine: Engine, lab: Lab, name: str, phase: str = "", collects: bool = True
) -> Iterator[Run]:
    """Bring a fresh stack up, prove its phase, and remove it when the body has ended.

    `phase`: healthy, faulty or fixed; without one nothing is measured. A blind lab has the same
    restarts and visits in each. `collects`: record its counters. The caller holds the lock of the
    name. Raises SaidNo or CannotRun if the phase cannot be proven.
    """
    run = Run.begin(engine, lab, name, collects)
    entered = PHASES[: PHASES.index(phase) + 1] if phase else ()
    try:
        for each in entered:
            run.enter(each)
            run.prove(each)
            if each == HEALTHY and lab.blind:
                for other in PHASES[len(entered) :]:
                    run.pass_by(other)
        yield run
    finally:
        run.down()
