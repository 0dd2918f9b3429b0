"""Scorecard: the figures of a score, for a person, as Markdown, for a program."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from faultlab.core import text
from faultlab.core.events import MAY_LACK
from faultlab.core.statistics import Share
from faultlab.core.terminal import Terminal
from faultlab.score import figures, results
from faultlab.score.figures import Cell, Disagreement, Row
from faultlab.score.results import Results

HEADINGS = (
    *("tool", "catches", "false alarms", "less false", "cause named", "component named"),
    *("seconds", "no diagnosis"),
)


@dataclass(frozen=True)
class ShareFacts:
    """A count out of a total, with its interval of 95% in percent."""

    of: int
    happened: int
    interval: tuple[float, float]


@dataclass(frozen=True)
class RowFacts:
    """One tool over all trials. `informed`: detection less false alarms, in percent."""

    tool: str
    detects: ShareFacts
    cause: ShareFacts
    component: ShareFacts
    false: ShareFacts
    seconds: float | None
    unknown: int
    absent: int
    informed: float | None


@dataclass(frozen=True, kw_only=True)
class Scorecard:
    """The figures of a score. `seed`, `machine`: how and where it was made."""

    file: str
    seed: int | None = field(default=None, metadata=MAY_LACK)
    machine: dict[str, Any] | None = field(default=None, metadata=MAY_LACK)
    tools: dict[str, dict[str, str]]
    rows: list[RowFacts]
    cells: list[Cell]
    disagreements: list[Disagreement]


def together(files: Sequence[str]) -> Results:
    """Return the results of all these files; the last file wins. Raises BadInput."""
    kept = results.read(Path(files[0]))
    for file in files[1:]:
        other = results.read(Path(file))
        kept.trials |= other.trials
        kept.tools |= other.tools
    return kept


def scorecard(term: Terminal, files: Sequence[str], markdown: bool) -> Scorecard:
    """Print the figures of one or several files together. Raises BadInput."""
    kept = together(files)
    if markdown:
        term.console.width = 2000
        term.say(as_markdown(kept).rstrip())
    else:
        show(term, kept)
    return facts(kept)


def show(term: Terminal, kept: Results) -> None:
    """Print the figures of each tool, the matrix, and what is not as expected."""
    rows = figures.rows(kept)
    term.say()
    term.table(
        ("", "tool", "catches", "false alarms", "cause", "where", "s"),
        [
            [
                str(number),
                row.tool,
                _brief(row.detects),
                _brief(row.false),
                _part(row.cause),
                _part(row.component),
                "-" if row.seconds is None else f"{row.seconds:.1f}",
            ]
            for number, row in enumerate(rows, 1)
        ],
    )
    term.say("Beside the counts: the interval of their share (95%, Wilson).")
    term.say()
    for line in grid([row.tool for row in rows], figures.cells(kept)):
        term.say(line)
    term.say()
    for line in figures.LEGEND:
        term.say(line)
    _amiss(term, kept)


def _amiss(term: Terminal, kept: Results) -> None:
    unknown = figures.unknowns(kept)
    if unknown:
        term.say()
        for (tool, reason), count in unknown.items():
            term.say(f"no diagnosis: {tool}, {count} times: {reason}")
    wrong = figures.disagreements(kept)
    if wrong:
        term.say()
        for each in wrong:
            term.say(f"not as expected: {each.text}")


def grid(tools: Sequence[str], cells: Mapping[str, Mapping[str, Cell]]) -> list[str]:
    """Return a row for each lab, with a numbered column for each tool."""
    lines = ["".rjust(16) + "".join(f"{number:>3}" for number in range(1, len(tools) + 1))]
    for lab_id, each in cells.items():
        marks = "".join(f" {each[t].letters if t in each else '  '}" for t in tools)
        lines.append(f"{lab_id:<17}{marks}".rstrip())
    return lines


def _brief(share: Share) -> str:
    if share.percent is None:
        return "-"
    low, high = share.interval
    return f"{share.happened}/{share.of} {low:.0f}-{high:.0f}%"


def _part(share: Share) -> str:
    return f"{share.happened}/{share.of}" if share.of else "-"


def as_markdown(kept: Results) -> str:
    """Return the Markdown of docs/scorecard.md."""
    rows = figures.rows(kept)
    lines = text.markdown(HEADINGS, map(_cells, rows))
    labs = [
        [f"`{lab_id}`", *(each[r.tool].letters.strip() if r.tool in each else "" for r in rows)]
        for lab_id, each in figures.cells(kept).items()
    ]
    lines += ["", *text.markdown(["", *(row.tool for row in rows)], labs)]
    lines += ["", *(f"- {line}" for line in figures.LEGEND)]
    return "\n".join(lines) + "\n"


def _cells(row: Row) -> list[str]:
    informed = "-" if row.informed is None else f"{row.informed:+.0f}"
    return [
        row.tool,
        row.detects.text,
        row.false.text,
        informed,
        row.cause.text,
        row.component.text,
        "-" if row.seconds is None else f"{row.seconds:.1f}",
        str(row.unknown),
    ]


def facts(kept: Results) -> Scorecard:
    """Return shares with their intervals, cells and disagreements, but not the trials."""
    return Scorecard(
        file=str(kept.file),
        seed=kept.facts.get("seed"),
        machine=kept.facts.get("machine"),
        tools=kept.tools,
        rows=[_row_facts(row) for row in figures.rows(kept)],
        cells=[cell for each in figures.cells(kept).values() for cell in each.values()],
        disagreements=figures.disagreements(kept),
    )


def _row_facts(row: Row) -> RowFacts:
    named = {name: getattr(row, name) for name in ("detects", "cause", "component", "false")}
    shares = {n: ShareFacts(s.of, s.happened, s.interval) for n, s in named.items()}
    return RowFacts(**{**vars(row), **shares}, informed=row.informed)
