"""The words of a diagnosis: causes, components and resources."""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from faultlab.lab import collection
from faultlab.lab import loader as labs
from faultlab.lab.collection import Collection
from faultlab.lab.model import NO_FAULT, Lab

_MEANINGS = Path(__file__).with_name("meanings.toml")


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


def meanings(lab: Lab) -> dict[str, dict[str, str]]:
    """Return the words of each part, with what they mean.

    They are those of the lab's collection; only faultlab's have a meaning here. Of the components,
    only the machines and daemons that the lab has: its learner sees them anyway.
    """
    return _meanings(lab.collection, frozenset(lab.services.needed(lab.daemons)))


@cache  # each view of a page asks for them
def _meanings(its: Collection, there: frozenset[str]) -> dict[str, dict[str, str]]:
    known = tomllib.loads(_MEANINGS.read_text())
    found = {
        part: {word: known.get(part, {}).get(word, "") for word in some}
        for part, some in answers(its).items()
    }
    found["component"] = {
        word: meaning
        for word, meaning in found["component"].items()
        if word in there or word == NO_FAULT
    }
    found["component"][NO_FAULT] = known["cause"][NO_FAULT]
    return found
