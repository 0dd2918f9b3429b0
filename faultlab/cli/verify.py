"""Verify: the verbs that prove the labs themselves."""

from typing import Any

from click import option

from faultlab.cli.verb import ENGINE, EVENTS, many, verb
from faultlab.core import defaults
from faultlab.core.errors import BadInput
from faultlab.core.terminal import Terminal


@verb(
    "mtu somaxconn",
    "--all --quick --jobs 2",
    "--all --repeat 3 --json result.json",
    "--all --junit result.xml",
)
@many("labs", "labs to verify")
@option("--all", "everything", is_flag=True, help="every lab")
@option("--jobs", default=1, metavar="N", help="how many labs at a time (1)")
@option("--quick", is_flag=True, help="only the fix, one cheat, and the parts whose turn it is")
@option("--repeat", default=1, metavar="N", help="how often to verify each (1)")
@option(
    "--json", "json_file", metavar="FILE", help="file of cases; an interrupted verify is continued"
)
@option("--junit", "junit_file", metavar="FILE", help="write the result as JUnit XML")
@ENGINE
@EVENTS
def verify(term: Terminal, labs: tuple[str, ...], **how: Any) -> object:
    """Run the whole contract of labs and let pytest judge it."""
    from faultlab.verify import verify

    return verify.verify(term, labs, **how)


@verb("php-workers", "--all --json docs/curves.json", "--file docs/curves.json")
@many("labs", "labs to measure")
@option("--all", "everything", is_flag=True, help="every lab that has severities")
@option("--looks", default=5, metavar="N", help="how many looks at each dose (5)")
@option("--json", "json_file", metavar="FILE", help="file that keeps the last curve of each lab")
@option("--file", metavar="FILE", help="show the curves of this file and run nothing")
@option("--markdown", is_flag=True, help="with --file: print the Markdown of docs/curves.md")
@option("--pictures", metavar="DIR", help="with --file: draw each curve, as SVG")
@ENGINE
def curve(
    term: Terminal,
    labs: tuple[str, ...],
    *,
    file: str | None,
    markdown: bool,
    pictures: str | None,
    **how: Any,
) -> object:
    """Measure what users meet at each dose of a fault (see list --severities)."""
    from faultlab.report import curve_page
    from faultlab.verify import curve

    if bool(file) == bool(labs or how["everything"]):
        raise BadInput("Name labs to measure, or a file to show.", "faultlab curve --help")
    if (markdown or pictures) and not file:
        raise BadInput("--markdown and --pictures need --file.", "faultlab curve --help")
    return (
        curve_page.again(term, file, markdown, pictures) if file else curve.show(term, labs, **how)
    )


@verb("", "--prove --json docs/decoys.json", "mtu-1400 --prove")
@many("decoys", "decoys to try; all by default")
@option("--prove", is_flag=True, help="try each on two labs without a fault")
@option("--json", "json_file", metavar="FILE", help="with --prove: file that keeps the last trials")
@option("--markdown", is_flag=True, help="print the table of docs/decoys.md")
@ENGINE
def decoys(
    term: Terminal,
    decoys: tuple[str, ...],
    *,
    prove: bool,
    json_file: str | None,
    markdown: bool,
    wanted: str,
) -> object:
    """List what looks like a fault and harms no user, or try it (see mystery --decoys)."""
    from faultlab.lab import collection
    from faultlab.run import harmless

    if (json_file or decoys) and not prove:
        raise BadInput("Use --prove to try decoys.", "faultlab decoys --help")
    its = collection.ours()
    if prove:
        return harmless.prove(term, decoys, wanted, json_file, its)
    return harmless.show(term, its, markdown=markdown)


@verb("mtu iptables-drop", "--all", "mtu --all", "--recorded", "--collect docs/matrix.json")
@many("labs", "labs to run")
@option("--all", "everything", is_flag=True, help="look for the evidence of every lab")
@option("--recorded", is_flag=True, help="show the newest recorded rows and run nothing")
@option("--file", metavar="FILE", help="show the rows of this file and run nothing")
@option("--collect", metavar="INTO", help="put the newest recorded rows into this file")
@option("--markdown", is_flag=True, help="with --file: print the Markdown of docs/matrix.md")
@ENGINE
def matrix(
    term: Terminal,
    labs: tuple[str, ...],
    *,
    everything: bool,
    recorded: bool,
    file: str | None,
    collect: str | None,
    markdown: bool,
    wanted: str,
) -> object:
    """Check that the evidence of each lab shows in no other lab."""
    from faultlab.verify import matrix

    if (labs or everything) and (collect or recorded or file):
        raise BadInput("Name labs to run, or say what to show, not both.", "faultlab matrix --help")
    if markdown and not (recorded or file):
        raise BadInput("--markdown needs --file or --recorded.", "faultlab matrix --help")
    if collect:
        return matrix.collect(term, collect)
    if recorded or file:
        return matrix.again(term, file, markdown)
    return matrix.show(term, labs, everything, wanted)


@verb(
    "",
    "runs/campaign.json",
    "runs/campaign.json --collect docs/reliability.json",
    "--markdown docs/reliability.json",
)
@many("files", f"what `faultlab verify --json` or --collect wrote ({defaults.RELIABILITY})")
@option("--markdown", is_flag=True, help="print the Markdown of docs/reliability.md")
@option("--collect", metavar="INTO", help="add the walks of these files to this file")
@option("--proof", is_flag=True, help="print each repair and each cheat, as in docs/proof.md")
def reliability(term: Terminal, files: tuple[str, ...], **how: Any) -> object:
    """Show how often each lab passes, and how far its measures stay from their limits."""
    from faultlab.verify import reliability_page

    return reliability_page.show(term, files, **how)


@verb(
    "mtu somaxconn",
    "--all --jobs 2 --json docs/judge.json",
    "mtu --only 'TCP probes for the MTU'",
    "--all --share 2/3 --json 2.json",
    "--all --json all.json --from 1.json --from 2.json",
    "--show page",
)
@many("labs", "labs whose repairs to try")
@option("--all", "everything", is_flag=True, help="every lab")
@option("--kind", default="", metavar="K", help="only repairs of this kind (see repairs.toml)")
@option("--only", default="", metavar="TITLE", help="only the repair with this title")
@option("--walks", is_flag=True, help="also alternatives and cheats that no recorded walk tried")
@option("--later", type=float, metavar="MINUTES", help="look again at what is accepted (see docs)")
@option("--jobs", default=1, metavar="N", help="how many labs at a time (1)")
@option("--share", default="", metavar="I/N", help="only the I-th of N parts of the labs")
@option("--json", "json_file", metavar="FILE", help="file of verdicts; the same command continues")
@option("--from", "more", multiple=True, metavar="FILE", help="take over the verdicts of this file")
@option("--show", metavar="PART", help="print page, remedies or line of docs/, and try nothing")
@ENGINE
def judge_error(
    term: Terminal,
    labs: tuple[str, ...],
    *,
    kind: str,
    only: str,
    walks: bool,
    later: float | None,
    show: str | None,
    **how: Any,
) -> object:
    """Try repairs on fresh faults, and count how often a check is wrong."""
    from faultlab.verify import judge_error, judge_page

    if show:
        return judge_page.show(term, show)
    wish = judge_error.Wish(kind, only, walks, later)
    return judge_error.try_repairs(term, labs, wish=wish, **how)
