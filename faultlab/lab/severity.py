"""Severity: how strong a fault is. A lab whose fault is a number can have it in several doses.

Each `[[severity]]` of `lab.toml` is a row of named numbers, from the strongest to the weakest. The
first row is what the lab uses when nothing else is said. `netem-loss@3%` is the lab at the row
`3%`, and `@{loss}` in a step is the number `loss` of the row.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator

from faultlab.core.naming import flat

AT = "@"  # between a lab and its severity
NAME = r"^[a-z0-9]+([.-][a-z0-9]+)*%?$"
_PLACE = re.compile(r"@\{([^{}]*)\}")


class Severity(BaseModel):
    """One row. A number that it does not give is that of the row above.

    `silent`: users feel nothing, and only an engineer can find the fault.
    """

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)
    __pydantic_extra__: dict[str, Annotated[float, Field(allow_inf_nan=False)]]

    name: Annotated[str, Field(pattern=NAME)]
    silent: bool = False

    @property
    def numbers(self) -> dict[str, float]:
        """Return its numbers by name."""
        return dict(self.__pydantic_extra__)

    def __getitem__(self, name: str) -> float:
        """Return one of its numbers. Raises KeyError with the names that it has."""
        if name not in self.__pydantic_extra__:
            known = ", ".join(self.__pydantic_extra__) or "none"
            raise KeyError(f"severity {self.name} has no number {name!r}; it has {known}")
        return self.__pydantic_extra__[name]

    @model_validator(mode="after")
    def _has_numbers(self) -> Severity:
        if not self.__pydantic_extra__:
            raise ValueError(f"severity {self.name}: expected a number, such as loss = 3")
        return self


_ROWS = TypeAdapter(list[Severity])


def read(rows: Any) -> list[Severity]:
    """Return the rows of a lab.toml, whole. Raises ValueError, also pydantic's for a wrong type."""
    return whole(_ROWS.validate_python(rows))


def whole(rows: Sequence[Severity]) -> list[Severity]:
    """Return the rows with all their numbers. Raises ValueError for rows that are no scale.

    They go from the strongest, which is the lab that people start, to the weakest: the first number
    only grows or only falls, and silent rows are the last ones.
    """
    found: list[Severity] = []
    for row in rows:
        above = found[-1].numbers if found else {}
        if found and (unknown := [*row.numbers.keys() - above.keys()]):
            raise ValueError(f"severity {row.name}: {unknown[0]}: the first row has no such number")
        numbers = above | row.numbers
        found.append(Severity.model_validate(row.model_dump() | numbers))
    names = [flat(row.name) for row in found]
    if twice := [row.name for row in found if names.count(flat(row.name)) > 1]:
        raise ValueError(f"severity: expected one of each name, got two of {twice[0]!r}")
    if len(found) == 1:
        raise ValueError("severity: expected several rows, or none")
    if not found:
        return found
    if found[0].silent:
        raise ValueError(f"severity {found[0].name}: expected a first row that users feel")
    if loud := [row.name for above, row in pairwise(found) if above.silent and not row.silent]:
        raise ValueError(f"severity {loud[0]}: expected rows that users feel before silent ones")
    key = next(iter(found[0].numbers))
    steps = [row[key] - above[key] for above, row in pairwise(found)]
    if wrong := [
        row.name for step, row in zip(steps, found[1:], strict=True) if step * steps[0] <= 0
    ]:
        raise ValueError(f"severity {wrong[0]}: {key}: expected it to grow, or to fall, row by row")
    return found


def filled(part: Any, numbers: Mapping[str, float]) -> Any:
    """Return a part of lab.toml with the numbers in its texts. Raises ValueError."""
    if isinstance(part, str):
        if unknown := [name for name in _PLACE.findall(part) if name not in numbers]:
            known = ", ".join(f"@{{{name}}}" for name in numbers) or "[[severity]] rows"
            raise ValueError(f"expected one of {known}, got @{{{unknown[0]}}} in {part!r}")
        return _PLACE.sub(lambda found: f"{numbers[found[1]]:.15g}", part)
    if isinstance(part, list):
        return [filled(each, numbers) for each in part]
    if isinstance(part, dict):
        return {key: filled(each, numbers) for key, each in part.items()}
    return part
