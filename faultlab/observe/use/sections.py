"""Sections: several readings in one shell command, taken twice, so that counters give differences.

A container is entered once for all its readings, because an exec costs more than a reading.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from faultlab.core.errors import CannotRun
from faultlab.engine.shell import Shell

T = TypeVar("T")

_END = re.compile(r"^==section (\w+) ended (\d+) at ([\d.]+)\n", re.MULTILINE)
NO_ANSWER = "no answer in time"
_NEXT = "==next look\n"


@dataclass(frozen=True)
class Pair(Generic[T]):
    """The same reading at the begin and at the end of an interval of `seconds`.

    Each pair has its own interval: on a busy machine looks take long, and not equally long.
    """

    before: T
    after: T
    seconds: float


@dataclass(frozen=True)
class Unread:
    """A reading that failed, and why."""

    why: str


@dataclass(frozen=True)
class Section:
    """The output of one command, with its errors, its exit code, and the time of its end."""

    out: str
    code: int
    at: float


@dataclass(frozen=True)
class Sections:
    """The sections of both looks by name. `why` is set if the place could not be read at all."""

    before: Mapping[str, Section]
    after: Mapping[str, Section]
    why: str = ""

    def pair(self, name: str, parse: Callable[[str], T]) -> Pair[T] | Unread:
        """Return one section of both looks as its probe parses it, or why it is missing."""
        if self.why:
            return Unread(self.why)
        if name not in self.before or name not in self.after:
            return Unread("it was cut off")
        first, second = self.before[name], self.after[name]
        before, after = _parsed(first, parse), _parsed(second, parse)
        if isinstance(before, Unread):
            return before
        if isinstance(after, Unread):
            return after
        return Pair(before, after, second.at - first.at)


def _parsed(section: Section, parse: Callable[[str], T]) -> T | Unread:
    last = (section.out.strip().splitlines() or ["it printed nothing"])[-1].strip()
    if section.code in (124, 137):
        return Unread(NO_ANSWER)
    if section.code != 0:
        return Unread(last)
    try:
        return parse(section.out)
    except (CannotRun, KeyError, ValueError, IndexError, TypeError, StopIteration):
        return Unread(f"not understood: {last[:60]}")


def read(place: Shell, commands: Mapping[str, str], seconds: float) -> Sections:
    """Run all commands, wait, and run them again, in one shell. A failure becomes `why`."""
    try:
        return split(place.run(script(commands, seconds), timeout=seconds + 60).out)
    except CannotRun as problem:
        return Sections({}, {}, problem.message)


def script(commands: Mapping[str, str], seconds: float) -> str:
    """Return the shell script of both looks. Each command runs in a subshell of its own."""
    body = "\n".join(
        f"( {command}\n) 2>&1; code=$?; read -r now idle </proc/uptime; echo;"
        f" echo ==section {name} ended $code at $now"
        for name, command in commands.items()
    )
    return f"look() {{\n{body}\n}}\nlook; echo '{_NEXT.strip()}'; sleep {seconds:g}; look"


def split(out: str) -> Sections:
    """Split the output of the script into sections."""
    before, _, after = out.partition(_NEXT)
    return Sections(_sections(before), _sections(after))


def _sections(out: str) -> dict[str, Section]:
    found = {}
    start = 0
    for end in _END.finditer(out):
        text = out[start : end.start()].removesuffix("\n")
        found[end[1]] = Section(text, int(end[2]), float(end[3]))
        start = end.end()
    return found
