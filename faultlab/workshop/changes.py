"""Changes: how the findings of one look differ from those of a look before it, row by row."""

from collections.abc import Iterable, Sequence
from math import copysign
from typing import Any, Literal

from faultlab.core.text import number

Finding = dict[str, Any]  # as a check prints it
Change = Literal["better", "worse", "same", "new"]

_STEADY = 1.25  # two looks at the same stack can differ by this factor


def since(now: Sequence[Finding], before: Sequence[Finding]) -> list[Finding]:
    """Return each finding with its `change` since the look before, and with what it `was` then.

    Without a look before, none has a change. A row that the look before did not have is new.
    """
    if not before:
        return [*now]
    told = []
    for found, was in _pairs(now, before):
        if was is None:
            told.append({**found, "change": "new"})
        else:
            told.append({**found, "change": change(found, was), "was": _value(was)})
    return told


def between(first: Sequence[Finding], last: Sequence[Finding]) -> list[Finding]:
    """Return the name, the unit and both values of each row that users met otherwise at first."""
    return [
        {"name": now["name"], "unit": now.get("unit", ""), "was": _value(was), "now": _value(now)}
        for now, was in _pairs(last, first)
        if was is not None and _shown(now) != _shown(was)
    ]


def change(now: Finding, was: Finding) -> Change:
    """Return whether a row is better or worse than before.

    Of two values that are both wrong, or of which one was not judged, the one nearer to what is
    wanted is better. Values that differ by no more than two looks at one stack are the same.
    """
    held = was.get("holds")
    if held is not None and held != now["holds"]:
        return "better" if now["holds"] else "worse"
    if held and now["holds"]:
        return "same"
    a, b = _value(was), _value(now)
    low, high = sorted((abs(a), abs(b)))
    near = a == b or (low > 0 and copysign(1, a) == copysign(1, b) and high / low <= _STEADY)
    gained = 0.0 if near else _gained(a, b, str(now["wanted"]).split())
    return "better" if gained > 0 else "worse" if gained < 0 else "same"


def _gained(was: float, now: float, wanted: list[str]) -> float:
    """Return by how much a value is nearer to what is wanted, in the words of a limit."""
    match wanted[:2]:
        case ["at", "most"]:
            return was - now
        case ["at", "least"]:
            return now - was
        case ["exactly", limit]:
            return abs(was - float(limit)) - abs(now - float(limit))
    return 0.0


def _pairs(
    now: Iterable[Finding], before: Iterable[Finding]
) -> Iterable[tuple[Finding, Finding | None]]:
    """Yield each finding with the one of its name before; two of one name keep their order."""
    left: dict[str, list[Finding]] = {}
    for each in before:
        left.setdefault(each["name"], []).append(each)
    for found in now:
        its = left.get(found["name"])
        yield found, its.pop(0) if its else None


def _shown(found: Finding) -> str:
    return number(_value(found))


def _value(found: Finding) -> float:
    return float(found.get("value", 0))
