"""Commands: what a learner can type while a lab is up."""

from collections.abc import Iterator

from faultlab.engine.stack import Stack
from faultlab.lab.model import Lab, Step
from faultlab.run import inject


def commands(lab: Lab, stack: Stack, machines: list[str]) -> Iterator[tuple[str, str]]:
    """Yield each command with what it does. A hidden lab keeps its fix and its load to itself."""
    hidden = lab.blind is not None
    for machine in machines:
        yield f"make shell-{lab.alias} AT={machine}", f"log in to {machine}"
    for daemon in lab.daemons:
        yield inject.typed(stack, Step(at=daemon, restart=True)).removeprefix("$ "), ""
    yield f"faultlab top {lab.alias}", "what its users meet, live"
    if lab.load and not hidden:
        yield f"faultlab watch {lab.alias} --load", "send its load (and a strong hint)"
    yield f"make check-{lab.alias}", "is it fixed? measures it now"
    yield f"make hint-{lab.alias}", "a hint"
    if not hidden:
        one = " (FAULT=1: one fault)" if lab.several else ""
        yield f"make fix-{lab.alias}", f"apply the documented fix{one}"
    told = "what it was, after your answer and the repair" if hidden else "the lesson"
    yield f"make debrief-{lab.alias}", told
    yield f"make down-{lab.alias}", "remove it"
