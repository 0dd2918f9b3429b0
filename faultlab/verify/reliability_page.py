"""The page about reliability: for a person in 80 columns, as Markdown, for a program."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from faultlab.core import paths, text
from faultlab.core.defaults import RELIABILITY
from faultlab.core.errors import BadInput, CannotRun
from faultlab.core.statistics import Share
from faultlab.core.terminal import Terminal
from faultlab.verify import proof as proofs
from faultlab.verify import reliability, walks
from faultlab.verify.reliability import ENOUGH, Distance, LabWalks, smallest
from faultlab.verify.walks import Walk, Walks

_ABOUT = """\
# How reliable the labs are

A walk is one `faultlab verify` of a lab: healthy, faulty, fixed, each alternative
and each cheat.

- `95%`: the interval of the true share of passes, of the decided walks (Wilson). `?`: unknown.
- `seconds`: median and range. `again`: looks that proved nothing and were taken again.
- `sigmas`: the smallest distance between the mean of a measure and its limit, over all phases, in
  standard deviations. If the limit is a multiple of the healthy value, logarithms are compared.
  For few walks it is a rough figure. `exact`: it never varied. `-`: fewer than two walks.
"""
_WALKS = ("lab", "walks", "pass", "fail", "?", "95%", "seconds", "again", "sigmas")
_DISTANCES = ("lab", "measure", "healthy", "faulty", "cheats")
_WEAK = ("lab", "sigmas", "measure", "phase")
_NEEDS = f"Under {ENOUGH:.0f} sigmas: needs a stronger fault or a better measure."


def show(
    term: Terminal, files: Sequence[str], *, markdown: bool, collect: str | None, proof: bool
) -> reliability.Reliability:
    """Print the page of these files together. Raises BadInput, and CannotRun without a walk."""
    kept = _collected(files, collect) if collect else walks.together(_files(files))
    if not kept.walks:
        raise CannotRun("There is no walk in it.", "faultlab verify --all --json FILE")
    if markdown or proof:
        term.console.width = 2000
        term.say((proofs.as_markdown(kept) if proof else as_markdown(kept)).rstrip())
    else:
        _print(term, kept)
    return reliability.facts(kept)


def _files(names: Sequence[str]) -> list[Path]:
    return [Path(name) for name in names] or [paths.root() / RELIABILITY]


def _collected(files: Sequence[str], into: str) -> Walks:
    """Add these files to the compact file, write it back, and return its walks."""
    if not files:
        raise BadInput("Name the files to collect from.", "faultlab reliability --help")
    target = paths.in_a_folder(into)
    there = target.exists() and target.stat().st_size > 0
    kept = walks.read(target) if there else Walks()
    kept.add(walks.together(_files(files)))
    kept.write(target)
    return kept


def _print(term: Terminal, kept: Walks) -> None:
    found, left = reliability.rows(kept)
    weak = [row for row in found if row.weak]
    if weak:
        term.say(_NEEDS)
        term.table(_WEAK, [_weak(row) for row in weak])
        term.say()
    term.table(_WALKS, [_cells(row) for row in found])
    term.say("?: unknown. 95%: of the share of passes, where decided (Wilson).")
    term.say()
    for line in _summary(found, left):
        term.say(line)


def as_markdown(kept: Walks) -> str:
    """Return the page as Markdown, as docs/reliability.md has it."""
    found, left = reliability.rows(kept)
    weak = [row for row in found if row.weak]
    lines = [_ABOUT, "## Where chance can decide", ""]
    told = sum(row.smallest is not None for row in found)
    none = f"In none of the {told} labs with more than one walk."
    lines += [_NEEDS, "", *text.markdown(_WEAK, map(_weak, weak))] if weak else [none]
    lines += ["", "## Walks", "", *text.markdown(_WALKS, map(_cells, found))]
    lines += ["", *(f"- {line}" for line in _summary(found, left))]
    lines += ["", "## The distance of each measure", ""]
    lines += ["The smallest distance while healthy, while faulty, and after a cheat.", ""]
    lines += text.markdown(_DISTANCES, (cells for row in found for cells in _measures(row)))
    lines += ["", "## Where it was", "", *(f"- {place}" for place in _places(found))]
    return "\n".join(lines) + "\n"


def _weak(row: LabWalks) -> list[str]:
    least = row.smallest
    assert least is not None
    return [row.name, least.text, least.measure, least.phase]


def _cells(row: LabWalks) -> list[str]:
    median, shortest, longest = row.seconds
    seconds = f"{median:.0f}"
    if len(row.walks) > 1:
        seconds += f" ({shortest:.0f}-{longest:.0f})"
    low, high = row.passes.interval
    again = row.again.percent
    return [
        row.name,
        str(len(row.walks)),
        *(str(row.count(verdict)) for verdict in ("pass", "fail", "unknown")),
        f"{low:.0f}-{high:.0f}%" if row.passes.of else "-",
        seconds,
        "-" if again is None else f"{again:.0f}%",
        row.smallest.text if row.smallest else "-",
    ]


def _summary(found: Sequence[LabWalks], left: int) -> Iterator[str]:
    """Yield the facts about all walks together, a line each."""
    each = [walk for row in found for walk in row.walks]
    unknown = Share(len(each), sum(walk.verdict == "unknown" for walk in each))
    yield f"{len(each)} walks, {unknown.happened} unknown ({unknown.percent or 0:.0f}%)"
    looks, again = sum(walk.looks for walk in each), sum(len(walk.again) for walk in each)
    if looks:
        yield f"{looks} looks, {again} taken again ({again / looks:.1%})"
    for reason, count in reliability.reasons(each).most_common():
        yield f"taken again {count} x: {reason}"
    for name, (median, most) in reliability.burdens(each).items():
        yield f"{name}, the most in a walk: median {median:.3g}, largest {most:.3g}"
    for walk in each:
        if walk.verdict != "pass":
            yield f"{walk.verdict}: {walk.lab} {walk.run or walk.began}: {walk.reason}"
    without = sum(not walk.values for walk in each)
    if without:
        yield f"{without} walks have no values here, so no distance"
    if left:
        yield f"left out: {left} walks of labs that have changed since"


def _measures(row: LabWalks) -> Iterator[list[str]]:
    """Yield for each measure its smallest distance in each kind of phase."""
    for measure in dict.fromkeys(limit.measure for limit in row.limits):
        own = [each for each in row.distances if each.measure == measure]
        cells = [_least([d for d in own if d.kind == kind]) for kind in ("well", "ill", "cheat")]
        yield [row.name, measure, *cells]


def _least(found: Sequence[Distance]) -> str:
    least = smallest(found)
    if least is None:
        return "-"
    return least.text if least.text == "exact" else f"{least.text} ({least.phase})"


def _places(found: Sequence[LabWalks]) -> Iterator[str]:
    def place(walk: Walk) -> str:
        where = f"engine {walk.engine or '?'}, kernel {walk.kernel or '?'}, {walk.cpus} CPUs"
        return f"{walk.began[:10]}, commit {walk.commit or '?'}: {where}"

    counted: dict[str, int] = {}
    for row in found:
        for walk in row.walks:
            counted[place(walk)] = counted.get(place(walk), 0) + 1
    yield from (f"{where}: {count} walks" for where, count in sorted(counted.items()))
