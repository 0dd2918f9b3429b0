"""Events: the output of `--events`, a JSON object per line, for a program that follows a verb."""

import json
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any, Literal

MAY_LACK = {"may lack": True}  # metadata of a field that is omitted if it is None


class Kind(StrEnum):
    """The kinds of events."""

    BEGIN = "begin"  # of a step
    DOING = "doing"  # another action within it
    STEP = "step"  # the step has ended
    RESULT = "result"
    ERROR = "error"


Moment = Literal[Kind.BEGIN, Kind.DOING, Kind.STEP]


@dataclass(frozen=True)
class Step:
    """A step of a verb. `text`: its present action, or its result if it has ended."""

    event: Moment
    name: str
    text: str
    seconds: float = 0.0  # since it began


@dataclass(frozen=True)
class Result:
    """The object that the verb prints with `--json`."""

    data: Any
    event: Literal[Kind.RESULT] = Kind.RESULT


@dataclass(frozen=True)
class Failure:
    """The object that `--json` prints for an error. `next`: the command to type now."""

    error: str
    next: str
    exit_code: int


@dataclass(frozen=True)
class Error(Failure):
    """An error, which ends the verb."""

    event: Literal[Kind.ERROR] = Kind.ERROR


Event = Step | Result | Error
_TYPES: dict[Kind, type[Event]] = {Kind.RESULT: Result, Kind.ERROR: Error}


def read(line: str) -> Event | None:
    """Return the event of a line, or None if the line is not an event."""
    try:
        facts = json.loads(line)
        return _TYPES.get(Kind(facts["event"]), Step)(**facts)
    except (ValueError, KeyError, TypeError):
        return None


def text(document: Any, indent: int | None = None) -> str:
    """Return a document as JSON; dataclasses and models in it become objects."""
    return json.dumps(document, indent=indent, default=_plain)


def _plain(value: Any) -> Any:
    """Return a dataclass or a model as its schema in docs/json says."""
    if isinstance(value, Result):
        return vars(value)  # `data` can be of any type, and comes here by itself
    kind: Any = type(value)
    found = _adapter(kind).dump_python(value, mode="json", by_alias=True, warnings=False)
    optional = getattr(kind, "__dataclass_fields__", {}).values()
    lacking = {each.name for each in optional if each.metadata.get("may lack")}
    return {key: its for key, its in found.items() if its is not None or key not in lacking}


@cache
def _adapter(kind: type) -> Any:
    from pydantic import TypeAdapter  # its import takes time, and few verbs print JSON

    return TypeAdapter(kind)
