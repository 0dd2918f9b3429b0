"""Ladder: cases of a source that build on each other: one begins where another ended.

The labs of such cases have separate stacks, so their ratios are compared with the source's, not
their values: the total gain of all steps so far, against the first value.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import mul

from faultlab.core.text import number
from faultlab.report import plot
from faultlab.report.comparison import Compared


@dataclass(frozen=True)
class Ladder:
    """Figures of the same thing, in the order of their cases."""

    steps: tuple[Compared, ...]

    @property
    def name(self) -> str:
        """Return the figure and its unit, such as `bookings [/s]`."""
        return self.steps[0].name

    @property
    def document(self) -> list[float]:
        """Return the source's values, from the first to the last."""
        first, *_ = self.steps
        return [first.origin[0] or 0.0, *(step.origin[1] or 0.0 for step in self.steps)]

    @property
    def documents_gain(self) -> list[float]:
        """Return the source's values divided by the first of them."""
        return [value / self.document[0] for value in self.document]

    @property
    def our_gain(self) -> list[float]:
        """Return our ratios, multiplied up to each step."""
        return list(accumulate((step.our_ratio for step in self.steps), mul, initial=1.0))


def ladders(figures: Sequence[Compared]) -> list[Ladder]:
    """Return figures of different labs that follow each other in their source, two or more."""
    ends = {(f.name, f.rises, f.origin[1]) for f in figures}
    firsts = [f for f in figures if f.origin[0] and (f.name, f.rises, f.origin[0]) not in ends]
    found = [Ladder(tuple(_up(first, figures))) for first in firsts]
    return [ladder for ladder in found if len(ladder.steps) > 1]


def _up(step: Compared, figures: Sequence[Compared]) -> Iterator[Compared]:
    """Yield this step and those above it. All rise or all fall, so this ends."""
    yield step
    for other in figures:
        above = other.name == step.name and other.origin[0] == step.origin[1]
        if above and other.origin_ratio not in (None, 1) and other.rises == step.rises:
            yield from _up(other, figures)
            return


def svg(found: Sequence[Ladder]) -> str:
    """Return a panel for each ladder with both gains, step by step."""

    def draw(panel: plot.Axes, ladder: Ladder) -> None:
        places = range(len(ladder.steps) + 1)
        gains = {"document": ladder.documents_gain, "measured": ladder.our_gain}
        look = dict(xytext=(0, 6), textcoords="offset points", ha="center", fontsize="small")
        for (whose, gain), (colour, line) in zip(gains.items(), plot.LINES, strict=False):
            panel.plot(places, gain, line, color=colour, label=whose)
            for place, value in zip(places, gain, strict=True):
                panel.annotate(number(value), (place, value), **look, color=colour)
        panel.set_title(f"{ladder.name}: times the first value", loc="left", fontsize="medium")
        panel.set_yscale("log", base=2)
        panel.margins(y=0.25)
        panel.set_xticks(places, ["all faults", *(f"{step.lab}\nfixed" for step in ladder.steps)])

    title = "; ".join(ladder.name for ladder in found)
    return plot.picture(title, found, draw, height=2.4, share=False)
