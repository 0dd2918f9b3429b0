"""Repair: one that people try on a lab, with the verdict of a sound judge, from `repairs.toml`.

The verdict is written down before the repair is run. A repair belongs to no walk: it is tried to
find out how often a check is wrong.
"""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, model_validator

from faultlab.core.document import Strict
from faultlab.lab import severity
from faultlab.lab.model import Remedy, Sign

Expected = Literal["accept", "refuse"]
Kind = Literal[
    "public",
    "own",
    "one point is sampled",
    "only the instrument is served",
    "another process serves",
    "ends soon",
    "stale",
    "asked too late",
    "no limit at all",
    "the learner's programs measure",
    "a right repair is refused",
    "harms others",
]
KINDS: tuple[str, ...] = get_args(Kind)
PUBLIC, OWN, ENDS_SOON = "public", "own", "ends soon"
AIMED = tuple(kind for kind in KINDS if kind not in (PUBLIC, OWN))  # at a hole in a check


class Repair(Remedy):
    """A repair, and whether users would be served by it: then a check must accept it.

    `kind`: where it comes from, or the hole that it aims at. `source`: title and site of a public
    one. `when`: succeeds while this repair and the fault are in place; it is then half a repair.
    """

    title: str
    expected: Expected
    kind: Kind
    source: str = ""
    when: Sign | None = None

    @model_validator(mode="after")
    def _a_public_one_has_its_source(self) -> Repair:
        if (self.kind == PUBLIC) != bool(self.source):
            raise ValueError(f"expected source if kind is {PUBLIC!r}, and only then")
        if self.when and not (self.kind == PUBLIC and self.expected == "refuse"):
            raise ValueError(f'when: expected only for kind {PUBLIC!r}, and expected "refuse"')
        return self


class Repairs(Strict):
    """The content of `repairs.toml`."""

    repair: Annotated[list[Repair], Field(min_length=1)]

    @model_validator(mode="before")
    @classmethod
    def _steps_of_a_dose(cls, given: Any) -> Any:
        numbers = given.get("numbers") if isinstance(given, dict) else None
        if numbers is None:
            return given
        rest = {key: value for key, value in given.items() if key != "numbers"}
        return severity.filled(rest, numbers)

    @model_validator(mode="after")
    def _titles_differ(self) -> Repairs:
        counted = Counter(each.title for each in self.repair)
        if twice := [title for title, count in counted.items() if count > 1]:
            raise ValueError(f"repair: expected one of each title, got two of {twice[0]!r}")
        return self
