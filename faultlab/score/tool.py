"""Tool: a folder that says what a diagnostic tool is, how it runs, and what its output means.

`tool.toml` has the facts. A `Dockerfile` beside it installs the tool in an image of its own. If a
mapping is not enough, a script that the Dockerfile copies adapts the output. A mistake is reported
in one line with the file, the key and the expected value.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

import regex
from pydantic import Field, field_validator, model_validator

from faultlab import probes
from faultlab.core import document, paths
from faultlab.core.document import Strict
from faultlab.core.errors import BadInput
from faultlab.lab import images, release, vocabulary
from faultlab.lab import loader as labs
from faultlab.observe import use

SERVERS = "servers"  # `at`: every machine but client, with an instance on each
STACK = "stack"  # `at`: the whole stack, through the engine; only for faultlab's own tool
FILE = "tool.toml"
AGENT = "agent"  # `kind`: a program that works at a lab; `faultlab agent` examines it
_MANUAL = "docs/verifying-a-tool.md"

_LONGEST = 120  # seconds
_CAPABILITIES = ("NET_RAW", "NET_ADMIN", "SYS_PTRACE", "SYSLOG")  # that a tool can ask for

Detects = Literal["must", "may", "miss"]


class Alerts(Strict):
    """Where a running tool serves its alerts, and the jq program that makes a line of each."""

    url: Annotated[str, Field(pattern=r"^http://(127\.0\.0\.1|localhost)[:/]")]
    jq: str


class Alarm(Strict):
    """The meaning of a line of the tool: the causes that it names, and where.

    `match` is a regular expression. The place is its group `(?P<component>…)`, else `component`,
    else the machine that the tool looks from.
    """

    match: str
    causes: list[str] = []
    component: str = ""

    @field_validator("match")
    @classmethod
    def _compiles(cls, text: str) -> str:
        try:
            regex.compile(text)
        except regex.error as error:
            raise ValueError(f"expected a regular expression, {error}") from error
        return text


class Expect(Strict):
    """The expected result of the tool in these labs ("*": all that no other entry names), and why.

    must: it always alarms while the fault is present; may: sometimes; miss: never. A control has
    nothing to detect, so `miss` means silence.
    """

    labs: Annotated[list[str], Field(min_length=1)]
    detects: Detects
    why: str


class Tool(Strict):
    """The facts of one tool, from `tool.toml`.

    `output`: how it reports. exit: by its exit code, 0 for healthy, 1 and 2 for an alarm (the
    convention of the monitoring plugins); json: its last line is a diagnosis; lines: each line that
    an [[alarm]] matches is one; alerts: it serves alerts while it runs. `window`: the seconds that
    it can take; `settle`: the first of them, in which alerts do not count because they are about
    its start. `replay`: a command that reads a bundle in the current folder instead of a live
    stack.
    """

    id: str
    folder: Path
    title: str
    home: str = ""
    at: Annotated[list[str], Field(min_length=1)]
    window: Annotated[float, Field(gt=0, le=_LONGEST, strict=False)]
    settle: Annotated[float, Field(ge=0, le=_LONGEST, strict=False)] = 0
    output: Literal["exit", "json", "lines", "alerts"]
    command: str
    version: str = ""
    replay: str = ""
    capabilities: list[Literal[_CAPABILITIES]] = []  # type: ignore[valid-type]
    alerts: Alerts | None = None
    alarm: list[Alarm] = []
    expect: list[Expect] = []

    @model_validator(mode="after")
    def _alerts_are_served(self) -> Tool:
        if (self.output == "alerts") != (self.alerts is not None):
            raise ValueError('expected [alerts] with output = "alerts", and only then')
        if self.output in ("lines", "alerts") and not self.alarm:
            raise ValueError(f"expected [[alarm]], for output = {self.output!r} says no more")
        return self

    @property
    def image(self) -> str:
        """Return the tool's own image if it has a Dockerfile, else the image of every machine."""
        return str(self.folder) if (self.folder / "Dockerfile").is_file() else "machine"

    @property
    def digest(self) -> str:
        """Return the digest of all that can change its diagnoses, without expected results."""
        said = self.model_dump_json(exclude={"folder", "expect", "title", "home"})
        code = _built_in() if STACK in self.at else ""
        return hashlib.sha256(f"{images.tag(self.image)}{said}{code}".encode()).hexdigest()[:12]

    def expected(self, lab_id: str) -> Expect | None:
        """Return what is expected of the tool in a lab; None if nothing is."""
        named = [entry for entry in self.expect if lab_id in entry.labs]
        rest = [entry for entry in self.expect if "*" in entry.labs]
        return next(iter([*named, *rest]), None)


@cache
def _built_in() -> str:
    """Return the code of `faultlab use` and of its probes."""
    found = [file for folder in (use, probes) for file in Path(folder.__path__[0]).glob("*.py")]
    return "".join(file.read_text() for file in sorted(found))


def ids(kind: str = "") -> list[str]:
    """Return the names of the tools of this project, or those of another kind."""
    return sorted(
        file.parent.name for file in paths.tools().glob(f"*/{FILE}") if _kind(file) == kind
    )


def _kind(file: Path) -> str:
    """Return the kind of a tool; empty for a usual one, and for a file that `load` will refuse."""
    with suppress(tomllib.TOMLDecodeError, UnicodeDecodeError):
        return str(document.toml(file.read_text()).get("kind", ""))
    return ""


@cache
def causes() -> frozenset[str]:
    """Return the published terms: every cause that a lab has."""
    return frozenset(vocabulary.words().causes)


def folder_of(name: str, kind: str, known: Callable[[], Sequence[str]], manual: str) -> Path:
    """Return the folder of a tool or agent, here or anywhere. Raises BadInput if it is none.

    `known` returns the names of all of them, for that message.
    """
    folder = Path(name).resolve() if "/" in name else paths.tools() / name
    if not (folder / FILE).is_file():
        there = f"There is no {kind} called {name!r}; there are {', '.join(known())}."
        why = f"{name}: there is no {FILE}" if "/" in name else there
        raise BadInput(why, f"see {manual}")
    return folder


def load(name: str) -> Tool:
    """Read and validate a tool of this project, or one in any folder. Raises BadInput."""
    folder = folder_of(name, "tool", ids, _MANUAL)
    file = folder / FILE
    where = paths.show(file)
    if _kind(file) == AGENT:
        raise BadInput(f"{where}: this is an agent, not a tool.", f"faultlab agent {name}")
    tool = document.strict(Tool, file, where, _MANUAL, release.text, id=folder.name, folder=folder)
    named = [
        (f"alarm[{i}].causes", word, causes())
        for i, alarm in enumerate(tool.alarm)
        for word in alarm.causes
    ]
    known = frozenset({"*", *labs.ids()})
    named += [
        (f"expect[{i}].labs", word, known)
        for i, entry in enumerate(tool.expect)
        for word in entry.labs
    ]
    document.all_known(named, where, _MANUAL)  # a typing error would count as a wrong diagnosis
    return tool
