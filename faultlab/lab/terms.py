"""The words of a diagnosis: causes, components and resources."""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from faultlab.lab import load as labs
from faultlab.lab.model import NO_FAULT, Lab

_MEANINGS = Path(__file__).with_name("meanings.toml")


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


def meanings(lab: Lab) -> dict[str, dict[str, str]]:
    """Return the words of each part, with what they mean.

    Of the components, only the machines and daemons that a lab has: its learner sees them anyway.
    """
    return _meanings(frozenset(lab.services.needed(lab.daemons)))


@cache  # each view of a page asks for them
def _meanings(there: frozenset[str]) -> dict[str, dict[str, str]]:
    known = tomllib.loads(_MEANINGS.read_text())
    found = {
        part: {word: known.get(part, {}).get(word, "") for word in its}
        for part, its in answers().items()
    }
    found["component"] = {
        word: meaning
        for word, meaning in found["component"].items()
        if word in there or word == NO_FAULT
    }
    found["component"][NO_FAULT] = known["cause"][NO_FAULT]
    return found
