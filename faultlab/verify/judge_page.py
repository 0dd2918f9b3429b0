"""Judge page: both errors of the checks as Markdown, for docs/judge.md and docs/remedies.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from faultlab.core import paths, text
from faultlab.core.errors import BadInput
from faultlab.core.statistics import Share
from faultlab.core.terminal import Terminal
from faultlab.lab import loader as labs
from faultlab.lab.model import Remedy, Step
from faultlab.lab.repair import AIMED, PUBLIC
from faultlab.run import judge_error
from faultlab.run.judge_error import ALL_KINDS, ALTERNATIVE, CHEAT, Document, Errors, Seen, Tried
from faultlab.verify import trials

_COUNTS = ("unsound", "accepted", "95%", "sound", "refused", "95%", "?", "failed")
_WRONG = ("lab", "repair", "kind", "sound judge", "check", "why", "what decided")
_UNDECIDED = ("lab", "repair", "sound judge", "check", "reason")
_ANSWERS = ("what people answer", "here", "what users met", "why", "source")
# For each kind of hole and each lab, whether its check had it and was mended. People write it:
# lab, kind, state and reason, parted by tabs, a line each.
KINDS = "docs/judge-kinds.tsv"
_STATES = {"not possible": "-", "mended": "m", "was right": "r"}
_UNTOLD = "?"
_PARTS = ("lab", "kind", "state", "because")
_MOST = 3  # findings in a cell

Part = Callable[[Sequence[Tried]], Iterator[str]]


def show(term: Terminal, part: str) -> Document:
    """Print a part of the documents from the recorded campaign: `page`, `remedies` or `line`."""
    rows = judge_error.recorded()
    parts: dict[str, Part] = {"page": _page, "remedies": _remedies, "line": _line}
    if part not in parts:
        raise BadInput(
            f"--show: expected one of {', '.join(parts)}.", "faultlab judge-error --help"
        )
    term.console.width = 2000
    for line in parts[part](rows):
        term.say(line)
    return Document(rows)


def _line(rows: Sequence[Tried]) -> Iterator[str]:
    yield judge_error.line(rows) or "No repair has been tried yet."


def _page(rows: Sequence[Tried]) -> Iterator[str]:
    own = [row for row in rows if row.kind in (ALTERNATIVE, CHEAT)]
    others = [row for row in rows if row.kind not in (ALTERNATIVE, CHEAT)]
    public = [row for row in others if row.kind == PUBLIC]
    parts = {
        "repairs of `repairs.toml`": others,
        "of these, from public sources": public,
        "alternatives and cheats of the labs": own,
        "all": rows,
    }
    yield from _table("repairs", parts)
    yield from ("", "## Kind by kind", "")
    yield from _table("kind", {kind: [r for r in rows if r.kind == kind] for kind in ALL_KINDS})
    yield from ("", "## Each wrong verdict", "")
    wrong = [row for row in rows if row.wrong]
    yield from text.markdown(_WRONG, map(_wrong, wrong)) if wrong else ["None."]
    yield from ("", "## No verdict", "")
    undecided = [row for row in rows if not row.decided]
    yield from text.markdown(_UNDECIDED, map(_undecided, undecided)) if undecided else ["None."]
    yield from ("", "## Kinds in each lab", "")
    yield from kinds_as_markdown(read_kinds(paths.root() / KINDS))
    yield from ("", "## Lab by lab", "")
    yield from _table("lab", {lab: [r for r in rows if r.lab == lab] for lab in labs.ours()})
    yield from ("", "## Where they were tried", "", *_places(rows))


def _table(name: str, parts: dict[str, Sequence[Tried]]) -> list[str]:
    found = [(title, judge_error.errors(rows)) for title, rows in parts.items()]
    return text.markdown((name, *_COUNTS), [[title, *_cells(its)] for title, its in found])


def _cells(found: Errors) -> list[str]:
    counts = [str(found.unknown), str(found.broken)]
    return [*_share(found.unsound), *_share(found.sound), *counts]


def _share(of: Share) -> list[str]:
    low, high = of.interval
    return [str(of.of), str(of.happened), f"{low:.1f}-{high:.1f}%" if of.of else "-"]


def _wrong(row: Tried) -> list[str]:
    decided = _words(row.deciding)
    return [row.lab, _cell(row.title), row.kind, row.expected, row.got, _cell(row.why), decided]


def _undecided(row: Tried) -> list[str]:
    return [row.lab, _cell(row.title), row.expected, row.got, _cell(row.reason)]


def _words(found: Sequence[Seen]) -> str:
    more = f"; and {len(found) - _MOST} more" if len(found) > _MOST else ""
    return _cell("; ".join(seen.words for seen in found[:_MOST]) + more)


def _cell(words: str) -> str:
    return " ".join(words.replace("|", "\\|").split())


def _places(rows: Sequence[Tried]) -> Iterator[str]:
    today = {trial.row.key for lab_id in labs.ours() for trial in trials.of(labs.load(lab_id))}
    if stale := sum(row.key not in today for row in rows):
        yield f"- {stale} of them were tried before their lab or its check was last changed"
    counted = Counter(
        f"{row.began[:10]}, commit {row.commit or '?'}: engine {row.engine}, kernel"
        f" {row.kernel or '?'}, {row.cpus} CPUs{', recorded walks' if row.walks else ''}"
        for row in rows
        if row.decided
    )
    yield from (f"- {place}: {count} repairs" for place, count in sorted(counted.items()))


def _remedies(rows: Sequence[Tried]) -> Iterator[str]:
    """Yield for each symptom the popular answers, and what each did to users here."""
    for lab_id in labs.ours():
        its = [row for row in rows if row.lab == lab_id and row.kind == PUBLIC]
        if not its:
            continue
        lab = labs.load(lab_id)
        known = {repair.title: repair for repair in labs.repairs(lab)}
        yield from (f"## {lab.title}", "")
        yield from (f"`make lab-{lab_id}`", "")
        yield from text.markdown(_ANSWERS, [_remedy(row, known.get(row.title)) for row in its])
        yield ""
    kernels = sorted({f"{row.kernel} ({row.engine})" for row in rows if row.kernel})
    yield f"Kernels: {', '.join(kernels) or 'none'}."


def _remedy(row: Tried, repair: Remedy | None) -> list[str]:
    typed = "; ".join(map(_typed, repair.steps)) if repair else ""
    answer = f"{_cell(row.title)}: {_code(typed)}" if typed else _cell(row.title)
    return [answer, _helps(row), _met(row), _cell(row.why), _cell(row.source)]


def _met(row: Tried) -> str:
    """Return what users met after a repair; if it helps, without what was wanted."""
    if row.got != "accept":
        return _words(row.deciding) if row.decided else _cell(row.reason)
    return _cell("; ".join(f"{seen.name}: {seen.measured}" for seen in row.deciding[:_MOST]))


def _helps(row: Tried) -> str:
    said = {"accept": "helps", "refuse": "does not help", "broken": "cannot be done"}
    word = said.get(row.got, "could not be judged")
    return f"{word} (this verdict is [wrong](judge.md#each-wrong-verdict))" if row.wrong else word


def _typed(step: Step) -> str:
    if step.run is not None:
        return f"{step.at}# {step.run}"
    what = f"update {step.limit.flags}" if step.limit else "restart"
    return f"$ docker {what} …-{step.at}"


def _code(words: str) -> str:
    """Return a command as code in a cell of a table."""
    words = " ".join(words.split()).replace("|", "\\|")
    fence = "``" if "`" in words else "`"
    return f"{fence}{words}{fence}"


@dataclass(frozen=True)
class KindState:
    """The state of a kind in a lab, and its reason."""

    lab: str
    kind: str
    state: str
    because: str


def read_kinds(file: Path) -> list[KindState]:
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
    for word, allowed in ((told.lab, labs.ours()), (told.kind, AIMED), (told.state, _STATES)):
        if word not in allowed:
            raise BadInput(f"{where}: expected one of {', '.join(sorted(allowed))}, got {word!r}")
    return told


def kinds_as_markdown(every: Sequence[KindState]) -> Iterator[str]:
    """Yield a table of labs and kinds, and then the reasons, kind by kind."""
    known = {(told.lab, told.kind): told for told in every}
    signs = [f"`{sign}` {state}" for state, sign in _STATES.items()]
    yield f"{', '.join(signs)}, `{_UNTOLD}` not looked for yet."
    yield ""
    rows = []
    for lab_id in labs.ours():
        cells = [known.get((lab_id, kind)) for kind in AIMED]
        rows.append([lab_id, *(_STATES[told.state] if told else _UNTOLD for told in cells)])
    yield from text.markdown(("lab", *AIMED), rows)
    for kind in AIMED:
        if its := [told for told in every if told.kind == kind]:
            yield from ("", f"### {kind[0].upper()}{kind[1:]}", "")
            yield from text.markdown(("state", "because", "labs"), _reasons(its))


def _reasons(its: Sequence[KindState]) -> Iterator[list[str]]:
    """Yield each reason once, with the labs that it is true of."""
    for state in _STATES:
        for because in dict.fromkeys(told.because for told in its if told.state == state):
            of = [told.lab for told in its if (told.state, told.because) == (state, because)]
            yield [state, because.replace("|", "/"), ", ".join(of)]
