"""Data: the verbs that record stacks for others, and try alert rules on what was recorded."""

from pathlib import Path

from click import argument, option

from faultlab.cli.verb import ENGINE, verb
from faultlab.core.errors import BadInput
from faultlab.core.terminal import Terminal

_FOLDER = option(
    "--dataset", "folder", metavar="DIR", help="a folder of `faultlab dataset` (runs/dataset)"
)


@verb(
    "runs/dataset --labs mtu,healthy",
    "runs/dataset --severities --repeat 2",
    "runs/dataset --phases healthy,faulty --seconds 300",
)
@argument("out", help="a new folder, or one to go on with")
@option("--labs", metavar="LAB,LAB", help="use only these labs (all that run here)")
@option("--phases", default="healthy,faulty,fixed", help="(healthy,faulty,fixed)")
@option("--severities", is_flag=True, help="use each lab at all of its severities")
@option("--repeat", default=1, metavar="N", help="how often to record each (1)")
@option("--seconds", default=60.0, metavar="S", help="how long to record each (60)")
@option("--every", default=1.0, metavar="S", help="the seconds between readings (1)")
@option("--seed", default=0, metavar="S", help="seed of the random order (0)")
@ENGINE
def dataset(
    term: Terminal,
    out: str,
    *,
    labs: str | None,
    phases: str,
    severities: bool,
    repeat: int,
    seconds: float,
    every: float,
    seed: int,
    wanted: str,
) -> object:
    """Record metrics, logs and configuration of labs as an open data set, under drawn names."""
    from faultlab.data import dataset
    from faultlab.data.scrape import Span

    return dataset.make(
        term,
        out,
        labs.split(",") if labs else [],
        phases.split(","),
        span=Span(seconds, every),
        severities=severities,
        repeat=repeat,
        seed=seed,
        wanted=wanted,
    )


@verb(
    "my-rules.yml",
    "my-rules.yml --dataset DIR --json baseline.json",
    "my-rules.yml --baseline baseline.json --markdown",
    "--lessons",
    "--lessons --dataset DIR",
)
@argument("file", required=False, help="a file of Prometheus rules")
@_FOLDER
@option("--baseline", metavar="FILE", help="an earlier --json; to be worse than it is exit code 1")
@option("--json", "json_file", metavar="FILE", help="write the result to a file")
@option("--markdown", "as_markdown", is_flag=True, help="print Markdown, for a comment")
@option("--lessons", is_flag=True, help="try the alert expressions of all lessons instead")
def rules(
    term: Terminal,
    file: str | None,
    folder: str | None,
    *,
    baseline: str | None,
    json_file: str | None,
    as_markdown: bool,
    lessons: bool,
) -> None:
    """Try alert rules on a data set in Prometheus itself: what they catch, and false alarms."""
    from faultlab.core import paths
    from faultlab.data import lessons as of_lessons
    from faultlab.data import rules

    if (file is None) != lessons:
        raise BadInput("Name a file of rules, or say --lessons.", "faultlab rules --help")
    to = paths.in_a_folder(json_file) if json_file else None
    if file is None:
        if baseline or as_markdown:
            what = "--lessons has no baseline and no Markdown."
            raise BadInput(what, "faultlab rules --lessons")
        of_lessons.try_out(term, Path(folder) if folder else None, to)
        return
    where = Path(folder) if folder else paths.runs() / "dataset"
    before = Path(baseline) if baseline else None
    rules.try_out(term, Path(file), where, baseline=before, json_file=to, as_markdown=as_markdown)


@verb("", "--dataset DIR --metrics my-metrics.txt", "--dataset DIR --json")
@_FOLDER
@option("--metrics", metavar="FILE", help="only these, a name a line: what your exporters have")
def counters(term: Terminal, folder: str | None, metrics: str | None) -> object:
    """Show the fewest readings of a data set that tell all of its faults apart."""
    from faultlab.core import paths
    from faultlab.data import counters

    where = Path(folder) if folder else paths.runs() / "dataset"
    return counters.show(term, where, Path(metrics) if metrics else None)
