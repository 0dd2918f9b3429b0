"""Diagnosis: the output of a tool as an alarm, causes and a component.

Nothing here knows which lab the tool examined.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import regex
from pydantic import BaseModel, ConfigDict, ValidationError

from faultlab.probes.cgroup import Spent
from faultlab.score.tool import Alarm, Tool

_CONVENTION = (0, 1, 2)  # of the monitoring plugins: OK, warning, critical; 3 is unknown
_SEARCH = 1.0  # seconds for a pattern in one line
_KEPT = 5  # lines of evidence
_LINE = 200  # characters of one line
_SIGNALS = 40  # different lines that tell an alarm from another
_CHANGING = regex.compile(r"0x[0-9a-f]+|\b[0-9a-f]{12,}\b|\d+(?:[.,:/]\d+)*")


Stream = Literal["out", "err", "end"]


class Broken(Exception):
    """The tool gave no diagnosis; the text says why."""


@dataclass(frozen=True)
class Said:
    """A line that the tool printed or served: the seconds since it began, and its origin.

    `stream`: out; err, which is not read for a diagnosis; or end, when an instance ended, and how.
    """

    seconds: float
    machine: str
    line: str
    stream: Stream = "out"

    @property
    def text(self) -> str:
        """Return it as a line of a log."""
        return f"{self.seconds:6.2f} {self.machine:<8} {self.stream} {self.line}"


@dataclass(frozen=True)
class InstanceEnd:
    """How one instance of the tool ended. `code`: None if it was still running, as intended."""

    machine: str
    seconds: float
    code: int | None
    lines: list[Said]
    complaint: str = ""  # the last line on standard error
    spent: Spent = field(default_factory=Spent)


@dataclass(frozen=True)
class Diagnosis:
    """A tool's diagnosis. `seconds`: from its start to its first alarm, or to its end.

    `signals`: the lines of its alarm, each with its machine and without the numbers in it. They
    tell an alarm from those of the same tool in another look. Old trials have none.
    """

    alarm: bool
    causes: list[str] = field(default_factory=list)
    component: str = ""
    evidence: list[str] = field(default_factory=list)
    seconds: float = 0.0
    signals: list[str] = field(default_factory=list, compare=False)


class _Told(BaseModel):
    """A diagnosis in the form that a tool prints."""

    model_config = ConfigDict(strict=True)
    alarm: bool
    causes: list[str] = []
    component: str = ""
    evidence: str | list[str] = []


def of(tool: Tool, ended: Sequence[InstanceEnd]) -> Diagnosis:
    """Return the diagnosis of all instances together. Raises Broken if one of them gave none."""
    each = [_of_one(tool, one) for one in ended]
    loud = sorted((v for v in each if v.alarm), key=lambda v: v.seconds)
    if not loud:
        return Diagnosis(False, seconds=max(v.seconds for v in each))
    most = max(loud, key=lambda v: len(v.evidence))
    return Diagnosis(
        True,
        _once(cause for v in loud for cause in v.causes),
        most.component,
        _once(line for v in loud for line in v.evidence)[:_KEPT],
        loud[0].seconds,
        _once(signal for v in loud for signal in v.signals)[:_SIGNALS],
    )


def _of_one(tool: Tool, one: InstanceEnd) -> Diagnosis:
    match tool.output:
        case "exit":
            return _by_exit(tool, one)
        case "json":
            return _by_json(one)
        case "alerts" if one.code is not None:
            raise Broken(_how(one))
        case "lines" if one.code not in (None, *_CONVENTION):
            raise Broken(_how(one))
    told = _by_lines(tool, one)
    if tool.output == "lines" and one.code and not told.alarm:
        raise Broken(_how(one))  # a crash is no silence
    return told


def _by_lines(tool: Tool, one: InstanceEnd) -> Diagnosis:
    """Return an alarm for each line that a mapping matches."""
    found = [(said, alarm, hit) for said in one.lines for alarm, hit in matching(tool, said.line)]
    if not found:
        return Diagnosis(False, seconds=one.seconds)
    places = [hit.groupdict().get("component") or alarm.component for _, alarm, hit in found]
    return Diagnosis(
        True,
        _once(cause for _, alarm, _ in found for cause in alarm.causes),
        next((place for place in places if place), one.machine),
        _once(said.line[:_LINE] for said, _, _ in found)[:_KEPT],
        min(said.seconds for said, _, _ in found),
        _once(_signal(said.machine, said.line) for said, _, _ in found)[:_SIGNALS],
    )


def matching(tool: Tool, line: str) -> Iterator[tuple[Alarm, regex.Match[str]]]:
    """Yield each alarm of a tool that a line means. Raises Broken after a timeout."""
    for alarm in tool.alarm:
        if hit := _search(alarm.match, line):
            yield alarm, hit


def _signal(machine: str, line: str) -> str:
    """Return a line as it is in every look: with its machine, and without its numbers."""
    return f"{machine}: {_CHANGING.sub('#', line)}"[:_LINE]


def _search(pattern: str, line: str) -> regex.Match[str] | None:
    """Search a line for a tool's pattern. Raises Broken after a timeout."""
    try:
        return regex.search(pattern, line, timeout=_SEARCH)
    except TimeoutError as error:
        raise Broken(f"its pattern {pattern!r} takes more than {_SEARCH:g} s") from error


def _by_exit(tool: Tool, one: InstanceEnd) -> Diagnosis:
    """Take the alarm from the exit code, and its causes from the lines."""
    if one.code not in _CONVENTION:
        raise Broken(_how(one))
    if one.code == 0:
        return Diagnosis(False, seconds=one.seconds)
    told = _by_lines(tool, one)
    lines = told.evidence or [said.line[:_LINE] for said in one.lines if said.line.strip()][:1]
    signals = told.signals or [_signal(one.machine, line) for line in lines or ["alarm"]]
    where = told.component or one.machine
    return Diagnosis(True, told.causes, where, lines, one.seconds, signals)


def _by_json(one: InstanceEnd) -> Diagnosis:
    text = next((said.line for said in reversed(one.lines) if said.line.strip()), "")
    if one.code != 0:
        raise Broken(_how(one))
    try:
        told = _Told.model_validate(json.loads(text))
    except (ValueError, ValidationError) as error:
        why = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise Broken(f"its last line is not a diagnosis: {why}") from error
    lines = [told.evidence] if isinstance(told.evidence, str) else told.evidence
    if not told.alarm:
        return Diagnosis(False, seconds=one.seconds)
    kept = [line[:_LINE] for line in lines if line][:_KEPT]
    signals = _once(_signal(one.machine, line) for line in [*told.causes, *lines] or ["alarm"])
    where = told.component or one.machine
    return Diagnosis(True, told.causes, where, kept, one.seconds, signals[:_SIGNALS])


def _how(one: InstanceEnd) -> str:
    how = "it did not end in time" if one.code is None else f"it ended with exit code {one.code}"
    return f"{how} on {one.machine}" + (f": {one.complaint[:_LINE]}" if one.complaint else "")


def _once(things: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(things))
