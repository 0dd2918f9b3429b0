"""Cells: a row of a USE table, with its values as short texts."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal, TypeVar

from pydantic import Field

from faultlab.core.document import Finite
from faultlab.observe.use.sections import Pair, Unread

NOT_COUNTED = "this kernel does not count it"

T = TypeVar("T")
Place = tuple[str, str, str, str]  # resource, kind, at, command: the first four fields of a row
Part = Literal["utilisation", "saturation", "errors"]


@dataclass(frozen=True)
class Value:
    """One cell. `number` None: nothing to judge, for the `reason` given."""

    number: Annotated[Finite, Field(serialization_alias="value")]
    unit: str
    text: str
    reason: str = ""


Cells = tuple[Value, Value, Value]


@dataclass(frozen=True)
class Row:
    """One resource. Its `kind` selects its limits; `command` shows it, typed on `at`.

    `at` is a machine or daemon, `kernel` (the lab VM's), or `$` (the host that runs faultlab).
    """

    resource: str
    kind: Annotated[str, Field(exclude=True)]
    at: str
    command: str
    utilisation: Value
    saturation: Value
    errors: Value

    @property
    def values(self) -> tuple[tuple[Part, Value], ...]:
        """Return the three cells by their names."""
        return (
            ("utilisation", self.utilisation),
            ("saturation", self.saturation),
            ("errors", self.errors),
        )

    @property
    def unread(self) -> str:
        """Return why nothing of the row could be read; empty if something could."""
        reasons = {value.reason for _, value in self.values}
        silent = all(value.text == "-" for _, value in self.values)
        return reasons.pop() if silent and len(reasons) == 1 else ""


def row(place: Place, pair: Pair[T] | Unread, cells: Callable[[Pair[T]], Cells]) -> Row:
    """Return a row; all its cells are blank if its values could not be read."""
    return unread(place, pair) if isinstance(pair, Unread) else Row(*place, *cells(pair))


def unread(place: Place, why: Unread) -> Row:
    """Return a row of which nothing could be read."""
    return Row(*place, blank(why.why), blank(why.why), blank(why.why))


def blank(reason: str) -> Value:
    """Return a cell without a value, with the reason."""
    return Value(None, "", "-", reason)


def count(number: float, word: str) -> Value:
    """Return a cell such as `12 dropped`."""
    return Value(number, word, f"{short(number)} {word}")


def grown(before: int | None, after: int | None, word: str) -> Value:
    """Return a cell such as `12 dropped`, since the first look, if the kernel counts it."""
    if before is None or after is None:
        return blank(NOT_COUNTED)
    return count(after - before, word)


def of(part: float, whole: float, word: str = "") -> Value:
    """Return a cell such as `51 of 51 busy`; its number is the share in percent."""
    share = 100 * part / whole if whole else 0.0
    return Value(share, "%", f"{short(part)} of {short(whole)} {word}".rstrip())


def short(number: float) -> str:
    """Return a number such as `0.25`, `1.5`, `12`, `12,345`, `2.3M`."""
    if number >= 1e6:
        return f"{number / 1e6:.3g}M"
    if number >= 10 or number == int(number):
        return f"{number:,.0f}"
    return f"{number:.1f}" if number >= 1 else f"{number:.2f}"


def in_bytes(number: float) -> str:
    """Return a size such as `12 MB`, `1.2 GB`, `264 GB`."""
    if number < 1e9:
        return f"{number / 1e6:.0f} MB"
    return f"{number / 1e9:.{1 if number < 1e10 else 0}f} GB"
