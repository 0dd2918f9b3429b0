"""Report: the verbs that show the catalogue and the recorded runs."""

from click import Choice, argument, option

from faultlab.cli.verb import BY_NAME, many, spelled, verb
from faultlab.core.terminal import Terminal

RUN = argument("run", help="a run of `faultlab runs`")


@verb("", "mtu --last 5", "--json")
@argument("lab", required=False, callback=spelled, help="only runs of this lab (all)")
@option("--last", default=20, metavar="N", help="how many runs (20)")
def runs(term: Terminal, lab: str | None, last: int) -> object:
    """List the recorded runs, the newest first."""
    from faultlab.report import history

    return history.runs(term, lab, last)


@verb("20261121-205240-temp-tables-ccfd")
@RUN
def show(term: Terminal, run: str) -> object:
    """Tell the story of a recorded run: what happened and what was measured (a spoiler)."""
    from faultlab.report import history

    return history.show(term, run)


@verb("20261121-205240-temp-tables-ccfd")
@RUN
def judge(term: Terminal, run: str) -> object:
    """Judge a recorded run by today's limits, without Docker."""
    from faultlab.report import judge

    return judge.judge(term, run)


@verb("", "--all")
@argument("run", required=False, help="a run of `faultlab runs` (the newest)")
@option("--all", "everything", is_flag=True, help="one page about all labs and their runs")
def report(term: Terminal, run: str | None, everything: bool) -> object:
    """Write an HTML page about one run, or about all of them (a spoiler)."""
    from faultlab.report import index, page

    if everything:
        return index.show(term)
    return page.show(term, run)


@verb("bandwidth", "bandwidth --to picture.svg")
@argument(
    *("run",), metavar="RUN|LAB", callback=spelled, help="a run, or a lab (its newest with a sweep)"
)
@option("--to", metavar="FILE", help="the file to write (runs/RUN/sweep.svg)")
def plot(term: Terminal, run: str, to: str | None) -> object:
    """Draw what a run measured under a growing load, as SVG (a spoiler)."""
    from faultlab.report import plot

    return plot.draw(term, run, to)


@verb("", "--tier web --level 2", "--new", "--json")
@option("--tier", metavar="TIER", help="only web, app or data")
@option("--level", type=int, metavar="N", help="highest level, 1 to 5")
@option("--new", is_flag=True, help="only labs that you have not started yet")
@option("--severities", is_flag=True, help="how strong each fault can be")
@option("--together", is_flag=True, help="faults that were proven on one stack")
@BY_NAME
@option(
    "--markdown",
    type=Choice(("labs", "tracks")),
    help="print the table of docs/start.md or of the README",
)
def list_(
    term: Terminal,
    *,
    tier: str | None,
    level: int | None,
    new: bool,
    severities: bool,
    together: bool,
    by_name: bool,
    markdown: str | None,
) -> object:
    """List labs, track by track."""
    from faultlab.lab import curriculum
    from faultlab.learn import progress
    from faultlab.report import catalogue

    found = curriculum.narrowed(curriculum.labs_in_order(), tier, level)
    found = progress.new(found) if new else found
    if severities:
        return catalogue.severities(term, found, by_name)
    if together:
        return catalogue.together(term, found, by_name)
    return catalogue.show(term, found, markdown, by_name)


@verb("", "--json")
def terms(term: Terminal) -> object:
    """List the causes, components and resources that a diagnosis can name."""
    from faultlab.report import catalogue

    return catalogue.terms(term)


@verb("", "conntrack", "--markdown")
@many("labs", "compare only these labs")
@option("--markdown", is_flag=True, help="print the Markdown of docs/origins.md")
@option("--picture", metavar="FILE", help="draw cases that build on each other, as SVG")
def origins(term: Terminal, labs: tuple[str, ...], markdown: bool, picture: str | None) -> object:
    """Compare measured figures with those of the sources, and with the limits."""
    from faultlab.report import references_page

    return references_page.show(term, labs, markdown=markdown, picture=picture)
