"""Score: the verbs that examine diagnostic tools."""

from typing import Any

from click import option

from faultlab.cli.verb import ENGINE, LAB, many, verb
from faultlab.core.terminal import Terminal


@verb(
    "ss-rules tshark --labs mtu,healthy",
    "--all --repeat 3 --json result.json",
    "./my-tool --labs mtu,iptables-drop",
    "tshark --from mtu.bundle.tar.gz",
)
@many("tools", "a folder of tools/, or any (./NAME)")
@option("--all", "everything", is_flag=True, help="every folder of tools/")
@option("--labs", metavar="LAB,LAB", help="on these only (all that run here)")
@option("--repeat", default=1, metavar="N", help="times each (1)")
@option("--seed", default=0, metavar="S", help="of the random order (0)")
@option("--network", is_flag=True, help="builds of tools from elsewhere may use a network")
@option("--from", "bundle", metavar="BUNDLE", help="a recorded lab, in place of live ones")
@option(
    "--json",
    "json_file",
    metavar="FILE",
    help="where trials are kept; one that is there goes on (runs/score.json)",
)
def score(
    term: Terminal,
    tools: tuple[str, ...],
    labs: str | None,
    everything: bool,
    bundle: str | None,
    **how: Any,
) -> None:
    """Examine diagnostic tools: what they catch, name, miss and cry about."""
    from faultlab.score import exam, tool

    names = [*tools, *(tool.ids() if everything else [])]
    if bundle:
        exam.replay(term, names, bundle, how["json_file"], how["network"])
    else:
        exam.score(term, names, [] if labs is None else labs.split(","), **how)


@verb("mtu", "conntrack --out /tmp/conntrack.tar.gz")
@LAB
@option("--out", metavar="FILE", help="where to (LAB.bundle.tar.gz)")
@ENGINE
def record(term: Terminal, lab: str, out: str | None, wanted: str) -> object:
    """Write what a lab leaves in counters, logs and captures into one file."""
    from faultlab.score import recording

    return recording.record(term, lab, out, wanted)


@verb("runs/score.json", "docs/score.json --page runs/scorecard.html")
@many("files", "what `faultlab score --json` wrote", required=True)
@option("--markdown", is_flag=True, help="as it stands in docs/scorecard.md")
@option("--page", "to", metavar="HTML", help="write it as a page for a browser")
def scorecard(term: Terminal, files: tuple[str, ...], markdown: bool, to: str | None) -> object:
    """Show the figures of a score that was made, of several together."""
    from faultlab.score import page, scorecard

    if to:
        return page.write(term, scorecard.together(files), to)
    else:
        return scorecard.scorecard(term, files, markdown)
