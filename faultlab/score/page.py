"""Score: the scorecard as a page: the matrix first, then the results of each tool.

The page is in `runs/`, beside the runs whose reports it links to.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from faultlab.core import paths
from faultlab.core.terminal import Terminal
from faultlab.report.page import FILE as PAGE
from faultlab.report.page import render
from faultlab.score import metrics, tables
from faultlab.score.metrics import Cell
from faultlab.score.results import Results, Trial

_GROUPS = (
    ("Caught", "caught"),
    ("Missed", "missed"),
    ("False alarms", "cried"),
    ("Gave no diagnosis", "unknown"),
)
_KEPT = 3  # runs, and lines of evidence


@dataclass(frozen=True)
class Detail:
    """The result of a tool on a lab, with the runs to look at and the report of each, if any."""

    lab: str
    text: str
    runs: list[tuple[str, str]]
    evidence: list[str]


@dataclass(frozen=True)
class PageOfScore:
    """The page of a score."""

    file: str
    bytes: int


def write(term: Terminal, kept: Results, name: str) -> PageOfScore:
    """Write the page to a file. Raises BadInput if its folder does not exist."""
    file = paths.in_a_folder(name)
    file.write_text(html(kept, file.parent))
    term.say(f"{file}: open it in a browser; it needs no network.")
    return PageOfScore(str(file), file.stat().st_size)


def html(kept: Results, folder: Path) -> str:
    """Return the page, with links relative to a folder."""
    shown = metrics.of_way(kept, metrics.headline(kept))
    rows = metrics.rows(shown)
    return render(
        "score.html",
        rows=rows,
        cells=metrics.cells(shown),
        wrong={(each.tool, each.lab) for each in metrics.disagreements(shown)},
        legend=metrics.LEGEND,
        cry=metrics.LETTERS["cried"],
        tables=tables.tables(kept),
        tools=kept.tools,
        groups=_GROUPS,
        told={row.tool: _details(shown, row.tool, folder) for row in rows},
        machine=kept.facts.get("machine", {}),
        seed=kept.facts.get("seed"),
    )


def _details(kept: Results, tool: str, folder: Path) -> dict[str, list[Detail]]:
    found: dict[str, list[Detail]] = {kind: [] for _, kind in _GROUPS}
    for cell in (each[tool] for each in metrics.cells(kept).values() if tool in each):
        its = [t for t in kept.trials.values() if (t.tool, t.lab) == (tool, cell.lab)]
        for kind, text, trials in _kinds(cell, its):
            found[kind].append(
                Detail(
                    cell.lab, text, [_link(t.run, folder) for t in trials][:_KEPT], _lines(trials)
                )
            )
    return found


def _kinds(cell: Cell, its: Sequence[Trial]) -> list[tuple[str, str, list[Trial]]]:
    ill = [t for t in its if metrics.has_fault(t) and t.kind == "diagnosis"]
    loud = [t for t in ill if t.alarm]
    false = [t for t in its if t.alarm and not metrics.has_fault(t)]
    unknown = [t for t in its if t.kind == "unknown"]
    found = []
    if loud:
        causes = dict.fromkeys(c for t in loud for c in (t.diagnosis.causes if t.diagnosis else []))
        named = f", named {', '.join(causes)}" if causes else ", named no cause"
        found.append(("caught", f"{len(loud)} of {len(ill)}{named}", loud))
    elif ill:
        found.append(("missed", f"{len(ill)} of {len(ill)}", ill))
    if false:
        phases = ", ".join(dict.fromkeys(t.phase for t in false))
        found.append(("cried", f"{cell.false.happened} of {cell.false.of} ({phases})", false))
    if unknown:
        found.append(("unknown", f"{len(unknown)}: {unknown[0].reason}", unknown))
    return found


def _lines(trials: Sequence[Trial]) -> list[str]:
    return next((t.diagnosis.evidence[:_KEPT] for t in trials if t.diagnosis), [])


def _link(run: str, folder: Path) -> tuple[str, str]:
    page = paths.runs() / run / PAGE
    return run, os.path.relpath(page, folder) if run and page.is_file() else ""
