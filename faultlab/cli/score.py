"""Score: the verbs that examine diagnostic tools."""

from typing import Any

from click import Choice, argument, option

from faultlab.cli.verb import ENGINE, LAB, many, verb
from faultlab.core.errors import BadInput
from faultlab.core.terminal import Terminal


@verb(
    "ss-rules tshark --labs mtu,healthy",
    "--all --repeat 3 --json result.json",
    "--all --hours 2",
    "./my-tool --labs mtu,iptables-drop",
    "./my-tool --labs fpm-backlog,port-range --severities",
    "./my-tool --labs mtu+regex,mtu~old-overflow",
    "--all --engine kubernetes --jobs 50",
    "tshark --from mtu.bundle.tar.gz",
)
@many("tools", "a folder in tools/, or any other (./NAME)")
@option("--all", "everything", is_flag=True, help="examine every tool in tools/")
@option("--labs", metavar="LAB,LAB", help="use only these labs (all that run here)")
@option("--severities", is_flag=True, help="use each lab at all of its severities")
@option("--repeat", default=1, metavar="N", help="how often to examine each (1)")
@option("--seed", default=0, metavar="S", help="seed of the random order (0)")
@option("--crowd", is_flag=True, help="let all tools look at the same time")
@option("--hours", type=float, metavar="H", help="stop in time; the widest intervals come first")
@option(
    "--engine",
    "wanted",
    type=Choice(("local", "kubernetes")),
    default="local",
    help="where the looks are made (local)",
)
@option("--jobs", default=1, metavar="N", help="on a cluster: how many looks at a time (1)")
@option("--network", is_flag=True, help="let the builds of other people's tools use a network")
@option("--from", "bundle", metavar="BUNDLE", help="use a recorded lab instead of live ones")
@option(
    "--json",
    "json_file",
    metavar="FILE",
    help="the file of trials; an existing one is continued (runs/score.json, --from: replay.json)",
)
def score(
    term: Terminal,
    tools: tuple[str, ...],
    labs: str | None,
    everything: bool,
    bundle: str | None,
    **how: Any,
) -> None:
    """Examine diagnostic tools: what they catch, name and miss, and their false alarms."""
    from faultlab.score import exam, tool

    names = [*tools, *(tool.ids() if everything else [])]
    if bundle and (labs or how["severities"]):
        raise BadInput("--from takes the lab of its bundle, so --labs makes no sense with it.")
    if bundle and how["wanted"] != "local":
        raise BadInput(
            "--from replays a bundle on this machine, so --engine makes no sense with it."
        )
    if bundle:
        exam.replay(term, names, bundle, how["json_file"], how["network"])
    else:
        exam.score(term, names, [] if labs is None else labs.split(","), **how)


@verb("ss-rules mtu", "./my-tool mtu --phase healthy --json")
@argument("tool", help="a folder in tools/, or any other (./NAME)")
@LAB
@option(
    "--phase",
    type=Choice(("healthy", "faulty", "fixed")),
    help="use a fresh stack that is healthy, faulty or fixed (one that is up, else faulty)",
)
@ENGINE
@option("--network", is_flag=True, help="let the build of another person's tool use a network")
def try_(term: Terminal, tool: str, lab: str, **how: Any) -> object:
    """Let one tool look once, and show what it printed and how that is read."""
    from faultlab.score import tryout

    return tryout.try_out(term, tool, lab, **how)


@verb("mtu", "conntrack --out /tmp/conntrack.tar.gz")
@LAB
@option("--out", metavar="FILE", help="the file to write (LAB.bundle.tar.gz)")
@ENGINE
def record(term: Terminal, lab: str, out: str | None, wanted: str) -> object:
    """Record the counters, logs and captures of a lab in one file."""
    from faultlab.score import recording

    return recording.record(term, lab, out, wanted)


@verb("runs/score.json", "docs/score.json --page runs/scorecard.html")
@many("files", "a file that `faultlab score --json` wrote", required=True)
@option("--markdown", is_flag=True, help="print the Markdown of docs/scorecard.md")
@option("--page", "to", metavar="HTML", help="write an HTML page")
def scorecard(term: Terminal, files: tuple[str, ...], markdown: bool, to: str | None) -> object:
    """Show the results of one or more scores together."""
    from faultlab.score import page, scorecard

    if to:
        return page.write(term, scorecard.together(files), to)
    return scorecard.scorecard(term, files, markdown)
