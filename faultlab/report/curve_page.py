"""Curve page: recorded curves for a person, as Markdown for docs/curves.md, and as pictures."""

from collections.abc import Sequence
from pathlib import Path

from faultlab.core import paths, text
from faultlab.core.naming import flat
from faultlab.core.terminal import Terminal
from faultlab.report import plot
from faultlab.verify.curve import Curve, Curves, print_one, read, said, table


def again(term: Terminal, file: str, markdown: bool, pictures: str | None) -> Curves:
    """Print the curves of a file, or draw them into a folder. Runs nothing. Raises BadInput."""
    found = read(Path(file))
    if pictures:
        for each in found:
            to = paths.in_a_folder(f"{pictures}/{picture(each)}")
            to.write_text(svg(each))
            term.say(paths.show(to))
    elif markdown:
        term.console.width = 2000
        term.say(page(found).rstrip())
    else:
        for each in found:
            print_one(term, each)
    return Curves(found)


def picture(curve: Curve) -> str:
    """Return the name of the file with a curve's picture."""
    return f"curve-{flat(curve.lab)}.svg"


def page(curves: Sequence[Curve]) -> str:
    """Return the Markdown of docs/curves.md."""
    parts = []
    for curve in curves:
        where = f"{curve.engine}, kernel {curve.kernel}, {curve.cpus} CPUs, run {curve.run}"
        shown = f"![{curve.lab}](pictures/{picture(curve)})"
        lines = "\n".join(text.markdown(*table(curve)))
        parts.append(f"## {curve.lab}\n\n{said(curve)} ({where})\n\n{shown}\n\n{lines}\n")
    return "\n".join(parts)


def svg(curve: Curve) -> str:
    """Return the picture of a curve: a panel for each measure, its range at each dose."""
    labels = [dose.severity for dose in curve.doses]

    def draw(panel: plot.Axes, number: int) -> None:
        its = [dose.measures[number] for dose in curve.doses]
        colours = [plot.LINES[0][0] if not dose.felt else plot.LINES[1][0] for dose in curve.doses]
        places = range(len(its))
        panel.plot(places, [points.median for points in its], "-", color=plot.LINES[2][0])
        for place, points, colour in zip(places, its, colours, strict=True):
            panel.plot([place] * len(points.values), points.values, "o", color=colour)
        panel.axhline(curve.healthy[number].median, linestyle=":", color=plot.LINES[0][0])
        panel.set_title(
            f"{its[0].measure} ({its[0].unit})" if its[0].unit else its[0].measure,
            loc="left",
            fontsize="medium",
        )
        panel.set_ylim(bottom=0)
        panel.set_xticks(list(places), labels)
        if number == len(curve.healthy) - 1:
            panel.set_xlabel(f"dose, the weakest first   (run {curve.run})")

    numbers = range(len(curve.healthy))
    return plot.picture(f"{curve.lab}: {said(curve)}", numbers, draw, height=1.7)
