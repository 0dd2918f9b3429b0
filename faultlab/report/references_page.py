"""The page about references: for a person in 80 columns, as Markdown, for a program."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from faultlab.core import paths, text
from faultlab.core.errors import CannotRun
from faultlab.core.terminal import Terminal
from faultlab.core.text import number
from faultlab.report import references
from faultlab.report.references import Compared, Ladder, Limited, ladders, svg
from faultlab.run.record import Record

_ABOUT_FIGURES = """\
# The figures of the sources, and what is measured here

Each value comes from a whole run of `faultlab verify`; the runs are listed at the end.

Each row has the source's figures (faulty → fixed), ours, and both ratios. A row holds if the
direction is the same and our ratio is at least half of the source's. `-`: the source gives only
one value, or 0.
"""
_ABOUT_LIMITS = """
## Measured values beside the limits

`good` must hold in the healthy and in the fixed phase, `bad` in the faulty one. `gaps`: the smaller
distance between the faulty phase and the others, in gaps between the two limits; two or more are
wanted, so that chance does not decide. Exit codes have no distance and are left out.
"""
_ABOUT_LADDERS = """
## Ladders

In a ladder, one case of a source begins with the value that another one ended with. Each lab has a
stack of its own, so the ratios are multiplied: the gain of all steps so far. Drawn by
`faultlab origins --picture docs/ladder.svg`:

![the gain of each step, in the source and here](ladder.svg)
"""
_ABOUT_RUNS = """
## The runs
"""
FIGURES = ("lab", "figure", "origin", "ratio", "measured", "ratio", "holds")
_LADDERS = ("figure", "step", "origin", "gain", "measured", "ratio", "gain")
_LIMITS = ("lab", "measure", "healthy", "faulty", "fixed", "good", "bad", "gaps", "holds")


@dataclass(frozen=True)
class Climbed:
    """A ladder: the gain of each step against the first value, in the source and here."""

    figure: str
    labs: list[str]
    document: list[float]
    measured: list[float]


@dataclass(frozen=True)
class Origins:
    """The tables, and the labs without a whole run."""

    figures: list[Compared]
    limits: list[Limited]
    ladders: list[Climbed]
    without: list[str]


def show(term: Terminal, lab_ids: Sequence[str], markdown: bool, picture: str | None) -> Origins:
    """Print the tables, and draw the ladders to a file if asked.

    Raises CannotRun if no lab has a whole run, and for a picture without a ladder.
    """
    figures, limits, without = references.collect(lab_ids)
    if not (figures or limits):
        raise CannotRun("No lab has a whole run yet.", "faultlab verify --all")
    found = ladders(figures)
    if markdown:
        term.console.width = 1000  # a Markdown table is not wrapped
        term.say(_ABOUT_FIGURES)
    _print(term, FIGURES, [figure_row(row) for row in figures], markdown)
    if found:
        term.say(_ABOUT_LADDERS if markdown else "")
        _print(term, _LADDERS, [row for ladder in found for row in _ladder_rows(ladder)], markdown)
    if picture:
        _draw(found, picture)
    term.say(_ABOUT_LIMITS if markdown else "")
    _print(term, _LIMITS, [_limit_row(row) for row in limits], markdown)
    if markdown:
        term.say(_ABOUT_RUNS)
        runs = [*(row.run for row in figures), *(row.run for row in limits)]
        for run in dict.fromkeys(runs):
            term.say(f"- {run}: {_where(run)}")
    if without:
        term.say()
        term.say(f"No whole run yet: {', '.join(without)}")
    climbed = [
        Climbed(each.name, [step.lab for step in each.steps], each.documents_gain, each.our_gain)
        for each in found
    ]
    return Origins(figures, limits, climbed, without)


def _draw(found: Sequence[Ladder], picture: str) -> None:
    if not found:
        raise CannotRun("No two figures follow each other.", "faultlab origins")
    paths.in_a_folder(picture).write_text(svg(found))


def figure_row(row: Compared) -> list[str]:
    """Return the cells of a row, below FIGURES."""
    return [
        row.lab,
        row.name,
        _arrow(row.origin),
        _times(row.origin_ratio),
        _arrow(row.ours),
        _times(row.our_ratio),
        "yes" if row.holds else "NO",
    ]


def _ladder_rows(ladder: Ladder) -> list[list[str]]:
    gains = zip(ladder.document, ladder.documents_gain, ladder.our_gain, strict=True)
    (value, _, _), *gained = gains
    rows = [[ladder.name, "all faults", number(value), "", "", "", ""]]
    for step, (value, theirs, ours) in zip(ladder.steps, gained, strict=True):
        measured = [_arrow(step.ours), _times(step.our_ratio), _times(ours)]
        rows.append(["", f"{step.lab} fixed", number(value), _times(theirs), *measured])
    return rows


def _limit_row(row: Limited) -> list[str]:
    return [
        row.lab,
        row.name,
        *(number(value) for value in (row.healthy, row.faulty, row.fixed)),
        row.good,
        row.bad,
        number(row.distance),
        "yes" if row.holds else "NO",
    ]


def _print(
    term: Terminal, columns: Sequence[str], rows: Sequence[Sequence[str]], markdown: bool
) -> None:
    if not markdown:
        term.table(columns, rows)
        return
    for line in text.markdown(columns, rows):
        term.say(line)


def _where(run: str) -> str:
    """Return where a run took place."""
    facts = Record.read(run).facts
    return f"engine {facts['engine']}, kernel {facts['kernel']}, {facts['cpus']} CPUs"


def _times(ratio: float | None) -> str:
    """Return a ratio as text, such as `x 28.5` or `/ 1010`."""
    if ratio is None:
        return "-"
    if ratio in (0, math.inf):
        return "to 0" if ratio == 0 else "from 0"
    return f"x {number(ratio)}" if ratio >= 1 else f"/ {number(1 / ratio)}"


def _arrow(pair: Sequence[float | None]) -> str:
    return " → ".join("-" if value is None else number(value) for value in pair)
