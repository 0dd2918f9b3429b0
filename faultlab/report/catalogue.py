"""Catalogue: every lab in a line, as a table for a person, for a program, and for the README."""

import textwrap
from collections.abc import Sequence

from faultlab.core import text
from faultlab.core.terminal import Terminal
from faultlab.lab import path
from faultlab.lab import terms as lab_terms
from faultlab.lab.model import Lab
from faultlab.lab.terms import Terms


def table(labs: Sequence[Lab]) -> str:
    """Return the table of these labs that is in the README; a test compares them."""
    rows = []
    for lab in labs:
        stars = "●" * lab.difficulty + "○" * (5 - lab.difficulty)
        link = f"[`{lab.id}`](labs/{lab.id}/ticket.md)"
        rows.append([link, lab.title, lab.track, str(lab.minutes), stars])
    columns = ("lab", "what its users report", "track", "minutes", "level")
    return "\n".join(text.markdown(columns, rows)) + "\n"


def show(term: Terminal, markdown: bool) -> list[Lab]:
    """Print the catalogue in the order of the path. The cause is in `--json` only."""
    found = path.ordered()
    if markdown:
        term.console.width = 200
        term.say(table(found).rstrip())
        return found
    term.table(
        ("lab", "what its users report", "track", "min", "level"),
        [(lab.id, lab.title, lab.track, str(lab.minutes), str(lab.difficulty)) for lab in found],
    )
    term.say()
    term.say("Start one: make lab-ID. The next one for you: make next")
    return found


def terms(term: Terminal) -> Terms:
    """Print the words of a diagnosis, each kind in a list of its own: no lab is named."""
    found = lab_terms.words()
    for kind, its in vars(found).items():
        term.heading(kind)
        for line in textwrap.wrap(", ".join(its), 76, break_on_hyphens=False):
            term.say(f"  {line}")
    return found
