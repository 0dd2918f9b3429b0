"""Attached: the run of a lab that is up, for as long as one verb works on it."""

from collections.abc import Iterator
from contextlib import contextmanager

from faultlab.core import lock
from faultlab.core.naming import stack_name
from faultlab.run import placement
from faultlab.run.run import Run


@contextmanager
def attached(lab_id: str, verb: str) -> Iterator[Run]:
    """Yield the run of a lab that is up, lock its stack meanwhile, and remove its helper."""
    lab = placement.standing(lab_id)
    with lock.hold(stack_name(lab.alias), f"{verb} {lab.alias}"):
        run = Run.attach(placement.up(lab.alias), lab)
        try:
            yield run
        finally:
            run.stack.release()
