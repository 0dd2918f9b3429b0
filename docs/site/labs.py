"""Labs: the catalogue, and a page with the ticket of each lab. Its lesson has a page of its own."""

from collections.abc import Iterable

from faultlab.core import text
from faultlab.lab import collection, numbers
from faultlab.lab.model import Lab
from faultlab.report.catalogue import level

_WARNING = """<div class="admonition warning">
<p class="admonition-title">{title}</p>

{body}

</div>"""


def catalogue(labs: Iterable[Lab]) -> str:
    """Return the page that lists all labs, track by track."""
    found = list(labs)
    parts = [
        "# Labs",
        "Each lab starts with a ticket, as its users report it. The order is a path: a track begins"
        " with what its later labs build on. `faultlab next` recommends the lab to take now.",
    ]
    for track, title in collection.ours().tracks.items():
        rows = [
            [f"[`{lab.code}`]({lab.id}/ticket.md)", lab.title, str(lab.minutes), level(lab)]
            for lab in found
            if lab.track == track
        ]
        columns = ("lab", "what its users report", "minutes", "level")
        parts += [f"## {title}", "\n".join(text.markdown(columns, rows))]
    return "\n\n".join(parts)


def ticket(lab: Lab) -> str:
    """Return the page of a lab: its facts and its ticket, and no word about the cause."""
    codes = {each.lab: each.code for each in numbers.of(lab.collection)}
    needs = (f"[`{codes.get(need, need)}`](../{need}/ticket.md)" for need in lab.needs)
    before = ", ".join(needs) or "none"
    where = "the lab VM" if lab.scope == "kernel" else "containers"
    if lab.scope != "kernel" and lab.requires:
        where = "containers, or the lab VM if this kernel lacks something"
    facts = {
        "Track": lab.collection.tracks[lab.track],
        "Level": level(lab),
        "Minutes": str(lab.minutes),
        "Take before": before,
        "Runs in": where,
    }
    return "\n\n".join(
        [
            f"# {lab.code}: {lab.title}",
            " · ".join(f"**{name}:** {fact}" for name, fact in facts.items()),
            f'<div class="ticket">\n\n{lab.ticket}\n\n</div>',
            f"```sh\nfaultlab start {lab.code}    # or: make lab-{lab.code}\n"
            f"faultlab check {lab.code}    # is it fixed?\n"
            f"faultlab hint {lab.code}     # the next hint\n```",
            _WARNING.format(
                title="The lesson gives the answer away",
                body=f"Read [the lesson of {lab.code}](README.md) when you have repaired it.",
            ),
        ]
    )


def lesson(written: str) -> str:
    """Return a lesson that says so in its heading, with a warning below it."""
    heading, _, rest = written.partition("\n")
    heading = heading.replace("# ", "# Lesson: ", 1)
    warning = _WARNING.format(
        title="This page gives the answer away",
        body="To find it yourself, begin with [the ticket](ticket.md).",
    )
    return f"{heading}\n\n{warning}\n{rest}"
