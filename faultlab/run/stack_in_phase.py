"""Stack in phase: a stack that is kept up in one phase of its lab while the body runs."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from faultlab.engine.contract import Engine
from faultlab.lab.model import Lab
from faultlab.run.phase import HEALTHY, PHASES
from faultlab.run.run import Run

_AGE = 15.0  # seconds since its start; a broken stack is proven more slowly than a healthy one


@contextmanager
def stack_in_phase(
    engine: Engine, lab: Lab, name: str, phase: str = "", collects: bool = True
) -> Iterator[Run]:
    """Bring a fresh stack up, prove its phase, and remove it when the body has ended.

    `phase`: healthy, faulty or fixed; without one nothing is measured. A blind lab has the same
    restarts and visits in each, and an examined one is no younger in one than in another, if its
    phases take less than `_AGE`. `collects`: record its counters. The caller holds the lock of the
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
        if entered and lab.blind and lab.blind.examined:
            engine.pause(max(0.0, run.record.began + _AGE - time.time()))
        yield run
    finally:
        run.down()
