"""The words of a diagnosis: causes, components and resources."""

from collections.abc import Iterable
from dataclasses import dataclass

from faultlab.lab import collection
from faultlab.lab import load as labs
from faultlab.lab.collection import Collection
from faultlab.lab.model import NO_FAULT, Lab


@dataclass(frozen=True)
class Terms:
    """The words of a diagnosis."""

    causes: list[str]
    components: list[str]
    resources: list[str]


def words(its: Collection | None = None) -> Terms:
    """Return the words of all labs, or of those of one collection."""
    some = [its] if its else collection.every()
    return of(labs.load_in(each, lab_id) for each in some for lab_id in each.ids())


def of(every: Iterable[Lab]) -> Terms:
    """Return the words of these labs."""
    truths = [lab.truth for lab in every if not lab.control]
    return Terms(
        sorted({truth.cause for truth in truths}),
        sorted({truth.component for truth in truths}),
        sorted({truth.resource for truth in truths}),
    )


def answers(its: Collection | None = None) -> dict[str, list[str]]:
    """Return the words that each part of a diagnosis can have."""
    known = words(its)
    every = {"component": known.components, "resource": known.resources, "cause": known.causes}
    return {part: [*some, NO_FAULT] for part, some in every.items()}
