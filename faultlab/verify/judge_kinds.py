"""Judge kinds: for each kind of hole and each lab, whether the lab's check had it and was mended.

The file is written by people: lab, kind, state and reason, parted by tabs, a line each.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from faultlab.core import paths, text
from faultlab.core.errors import BadInput
from faultlab.lab import load as labs
from faultlab.lab.repair import AIMED

FILE = "docs/judge-kinds.tsv"
STATES = {"not possible": "-", "mended": "m", "was right": "r"}
_UNTOLD = "?"
_PARTS = ("lab", "kind", "state", "because")


@dataclass(frozen=True)
class KindState:
    """The state of a kind in a lab, and its reason."""

    lab: str
    kind: str
    state: str
    because: str


def read(file: Path) -> list[KindState]:
    """Return the lines of the file; none without it. Raises BadInput with line and mistake."""
    if not file.is_file():
        return []
    found = []
    for number, line in enumerate(file.read_text().splitlines(), 1):
        parts = [part.strip() for part in line.split("\t")]
        if not line.strip() or tuple(parts) == _PARTS:
            continue
        found.append(_parsed(parts, f"{paths.show(file)}: line {number}"))
    twice = [told for i, told in enumerate(found) if any(_same(told, old) for old in found[:i])]
    if twice:
        raise BadInput(f"{paths.show(file)}: {twice[0].lab}, {twice[0].kind}: there are two lines")
    return found


def _same(one: KindState, other: KindState) -> bool:
    return (one.lab, one.kind) == (other.lab, other.kind)


def _parsed(parts: Sequence[str], where: str) -> KindState:
    if len(parts) != len(_PARTS) or not all(parts):
        raise BadInput(f"{where}: expected {', '.join(_PARTS)}, parted by tabs")
    told = KindState(*parts)
    for word, allowed in ((told.lab, labs.ours()), (told.kind, AIMED), (told.state, STATES)):
        if word not in allowed:
            raise BadInput(f"{where}: expected one of {', '.join(sorted(allowed))}, got {word!r}")
    return told


def as_markdown(every: Sequence[KindState]) -> Iterator[str]:
    """Yield a table of labs and kinds, and then the reasons, kind by kind."""
    known = {(told.lab, told.kind): told for told in every}
    signs = [f"`{sign}` {state}" for state, sign in STATES.items()]
    yield f"{', '.join(signs)}, `{_UNTOLD}` not looked for yet."
    yield ""
    rows = []
    for lab_id in labs.ours():
        cells = [known.get((lab_id, kind)) for kind in AIMED]
        rows.append([lab_id, *(STATES[told.state] if told else _UNTOLD for told in cells)])
    yield from text.markdown(("lab", *AIMED), rows)
    for kind in AIMED:
        if its := [told for told in every if told.kind == kind]:
            yield from ("", f"### {kind[0].upper()}{kind[1:]}", "")
            yield from text.markdown(("state", "because", "labs"), _reasons(its))


def _reasons(its: Sequence[KindState]) -> Iterator[list[str]]:
    """Yield each reason once, with the labs that it is true of."""
    for state in STATES:
        for because in dict.fromkeys(told.because for told in its if told.state == state):
            of = [told.lab for told in its if (told.state, told.because) == (state, because)]
            yield [state, because.replace("|", "/"), ", ".join(of)]
