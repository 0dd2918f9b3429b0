"""Scorecard: the figures of a score, for a person, as Markdown, for a program."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from faultlab.core import text
from faultlab.core.events import MAY_LACK
from faultlab.core.statistics import Share
from faultlab.core.terminal import Terminal
from faultlab.score import (
    agent_metrics,
    baselines,
    dimensions,
    metrics,
    noise_baseline,
    results,
    tables,
)
from faultlab.score.agent_metrics import AgentRow
from faultlab.score.compare import Better
from faultlab.score.dimensions import DoseRow
from faultlab.score.metrics import Cell, Disagreement, ToolRow
from faultlab.score.noise_baseline import Cost, Floor
from faultlab.score.results import ALONE, CROWD, Results, Way


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


@dataclass(frozen=True)
class CompanyFacts:
    """One tool where a fault was not alone: precision, recall, whole answers, and led astray."""

    tool: str
    right: ShareFacts
    found: ShareFacts
    whole: ShareFacts
    astray: ShareFacts


@dataclass(frozen=True, kw_only=True)
class Scorecard:
    """The figures of a score. `seed`, `machine`: how and where it was made.

    `way`: how the tools of `rows` and `cells` looked. `crowd`, `alone`: the rows of those that
    also looked in the other way. `guesses`: rows of the computed baselines. `groups`: those of
    tools that cannot be ranked; `better` says who is better than whom.
    """

    file: str
    seed: int | None = field(default=None, metadata=MAY_LACK)
    machine: dict[str, Any] | None = field(default=None, metadata=MAY_LACK)
    tools: dict[str, dict[str, str]]
    way: Way
    rows: list[RowFacts]
    crowd: list[RowFacts]
    alone: list[RowFacts]
    guesses: list[RowFacts]
    groups: dict[str, int]
    better: list[Better]
    floors: list[Floor]
    costs: list[Cost]
    doses: list[DoseRow]
    company: list[CompanyFacts]
    agents: list[AgentRow]
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
    shown = metrics.of_way(kept, metrics.headline(kept))
    rows = metrics.rows(shown)
    cells = []
    for number, row in enumerate(rows, 1):
        shares = _brief(row.detects), _brief(row.false), _part(row.cause), _part(row.component)
        cells.append((str(number), row.tool, *shares, tables.number(row.seconds)))
    term.say()
    term.table(("", "tool", "catches", "false alarms", "cause", "where", "s"), cells)
    term.say("Beside the counts: the interval of their share (95%, Wilson).")
    _more(term, kept)
    term.say()
    for line in grid([row.tool for row in rows], metrics.cells(shown)):
        term.say(line)
    term.say()
    for line in metrics.LEGEND:
        term.say(line)
    _disagreements(term, shown)


def _more(term: Terminal, kept: Results) -> None:
    """Print which tools cannot be ranked, and the other tables for tools that looked alone."""
    _, _, groups = tables.ranked(kept)
    for group in sorted({*groups.values()}):
        named = ", ".join(tool for tool, its in groups.items() if its == group)
        term.say(f"Group {group}, which cannot be ranked: {named}.")
    for table in tables.tables(kept):
        if table.title in (tables.DOSES, tables.COMPANY, tables.COSTS, tables.AGENTS):
            term.say()
            cells = [[_brief(c) if isinstance(c, Share) else c for c in row] for row in table.rows]
            term.table(table.headings, cells)


def _disagreements(term: Terminal, kept: Results) -> None:
    unknown = metrics.unknowns(kept)
    if unknown:
        term.say()
        for (tool, reason), count in unknown.items():
            term.say(f"no diagnosis: {tool}, {count} times: {reason}")
    wrong = metrics.disagreements(kept)
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
    lines = []
    for table in tables.tables(kept):
        cells = [[c.text if isinstance(c, Share) else c for c in row] for row in table.rows]
        body = text.markdown(table.headings, cells)
        lines += [f"## {table.title}", "", *textwrap.wrap(table.text, 100), "", *body, ""]
    shown = metrics.of_way(kept, metrics.headline(kept))
    rows = metrics.rows(shown)
    labs = [
        [f"`{lab_id}`", *(each[r.tool].letters.strip() if r.tool in each else "" for r in rows)]
        for lab_id, each in metrics.cells(shown).items()
    ]
    lines += ["## See each lab", "", *text.markdown(["", *(row.tool for row in rows)], labs)]
    lines += ["", *(f"- {line}" for line in metrics.LEGEND)]
    return "\n".join(lines) + "\n"


def facts(kept: Results) -> Scorecard:
    """Return shares with their intervals, cells and disagreements, but not the trials."""
    way = metrics.headline(kept)
    shown = metrics.of_way(kept, way)
    crowd, alone = (
        metrics.rows(metrics.of_way(kept, each)) if each != way else [] for each in (CROWD, ALONE)
    )
    _, better, groups = tables.ranked(kept)
    return Scorecard(
        file=str(kept.file),
        seed=kept.facts.get("seed"),
        machine=kept.facts.get("machine"),
        tools=kept.tools,
        way=way,
        rows=[_row_facts(row) for row in metrics.rows(shown)],
        crowd=[_row_facts(row) for row in crowd],
        alone=[_row_facts(row) for row in alone],
        guesses=[_row_facts(row) for row in baselines.rows(baselines.guesses(shown))],
        groups=groups,
        better=better,
        floors=noise_baseline.floors(kept),
        costs=noise_baseline.costs(kept),
        doses=dimensions.doses(kept),
        company=[
            CompanyFacts(
                row.tool, **{n: _share(s) for n, s in vars(row).items() if isinstance(s, Share)}
            )
            for row in dimensions.company(kept)
        ],
        agents=agent_metrics.rows(kept),
        cells=[cell for each in metrics.cells(shown).values() for cell in each.values()],
        disagreements=metrics.disagreements(shown),
    )


def _share(share: Share) -> ShareFacts:
    return ShareFacts(share.of, share.happened, share.interval)


def _row_facts(row: ToolRow) -> RowFacts:
    named = {name: getattr(row, name) for name in ("detects", "cause", "component", "false")}
    shares = {name: _share(its) for name, its in named.items()}
    return RowFacts(**{**vars(row), **shares}, informed=row.informed)
