"""The words of a diagnosis: causes, components and resources."""

from dataclasses import dataclass

from faultlab.lab import load as labs
from faultlab.lab.model import NO_FAULT


@dataclass(frozen=True)
class Terms:
    """The words of a diagnosis."""

    causes: list[str]
    components: list[str]
    resources: list[str]


def words() -> Terms:
    """Return the words of all labs of this project."""
    truths = [lab.truth for lab in map(labs.load, labs.ids()) if not lab.control]
    return Terms(
        sorted({truth.cause for truth in truths}),
        sorted({truth.component for truth in truths}),
        sorted({truth.resource for truth in truths}),
    )


def answers() -> dict[str, list[str]]:
    """Return the words that each part of a diagnosis can have."""
    its = words()
    every = {"component": its.components, "resource": its.resources, "cause": its.causes}
    return {part: [*known, NO_FAULT] for part, known in every.items()}
