"""Catalogue: every lab in a line, for a person and a program, and as tables of the documents."""

import textwrap
from collections.abc import Sequence
from itertools import groupby

from faultlab.core import text
from faultlab.core.terminal import Terminal
from faultlab.lab import curriculum, release, vocabulary
from faultlab.lab import loader as labs
from faultlab.lab.model import Lab
from faultlab.lab.vocabulary import Terms
from faultlab.run.together import proven


def table(labs: Sequence[Lab]) -> str:
    """Return the table of these labs that is in docs/start.md; a test compares them."""
    rows = []
    for lab in labs:
        rows.append([f"`{lab.code}`", lab.title, lab.track, str(lab.minutes), level(lab)])
    columns = ("lab", "what its users report", "track", "minutes", "level")
    return "\n".join(text.markdown(columns, rows)) + "\n"


def level(lab: Lab) -> str:
    """Return how hard a lab is, as one to five full dots."""
    return "●" * lab.difficulty + "○" * (5 - lab.difficulty)


def tracks(labs: Sequence[Lab]) -> str:
    """Return the table of the README, a row for each track of these labs; a test compares them."""
    rows = [
        [track, " ".join(f"`{lab.code}`" for lab in its)]
        for track, its in groupby(labs, lambda lab: lab.track)
    ]
    return "\n".join(text.markdown(("track", "labs"), rows)) + "\n"


def show(
    term: Terminal, found: list[Lab], markdown: str | None, by_name: bool = False
) -> list[Lab]:
    """Print labs, track by track, by their numbers. Their causes are in `--json` only.

    `markdown`: print the table of a document, `labs` or `tracks`. `by_name`: show their ids, too.
    """
    if markdown:
        term.console.width = 4000
        documented = [lab for lab in found if lab.collection.ours]
        term.say((tracks if markdown == "tracks" else table)(documented).rstrip())
        return found
    for title, its in groupby(found, lambda lab: curriculum.heading(lab.id, lab.track)):
        term.heading(title)
        rows = [
            (_called(lab, by_name), lab.title, str(lab.minutes), str(lab.difficulty)) for lab in its
        ]
        term.table(("lab", "what its users report", "min", "level"), rows)
        term.say()
    if found:
        ours = [lab.code for lab in found if lab.collection.ours]
        term.say(f"Start one: make lab-{(ours or ['ID'])[0]}. The next one for you: make next")
        if len(ours) < len(found):
            term.say("One of another collection: faultlab start NAME/LAB")
        term.say(f"The stack is made of {release.now().title}'s packages.")
    else:
        term.say("You have started all of these labs. Next: make progress")
    return found


def _called(lab: Lab, by_name: bool) -> str:
    return lab.both_names if by_name else lab.code


def severities(term: Terminal, found: Sequence[Lab], by_name: bool = False) -> list[Lab]:
    """Print how strong each fault can be, the usual strength first; return these labs.

    `by_name`: show their ids and what the numbers mean, too.
    """
    those = [lab for lab in found if lab.severity]
    rows = [
        (
            _called(one, by_name),
            "nothing" if one.silent else "the fault",
            *([", ".join(f"{k} {v:g}" for k, v in one.dose.numbers.items())] if by_name else []),
        )
        for lab in those
        for one in labs.rows(lab)
        if one.dose
    ]
    term.table(("lab", "users feel", *(["numbers"] if by_name else [])), rows)
    term.say()
    term.say("Start one that users feel: faultlab start LAB@SEVERITY")
    return those


def together(term: Terminal, found: Sequence[Lab], by_name: bool = False) -> list[Lab]:
    """Print which of these labs were proven with their faults on one stack; return those.

    `by_name`: show their ids, too.
    """
    known = {lab.id for lab in found}
    those = [lab for lab in proven() if known.issuperset(lab.of)]
    if not those:
        term.say("No labs have been proven together.")
        return those
    term.table(
        ("faults at once", "what users report"),
        [(_called(lab, by_name), lab.title) for lab in those],
    )
    term.say()
    term.say("Start one: faultlab start LAB+LAB, or one that is drawn: make mystery FAULTS=2")
    return those


def terms(term: Terminal) -> Terms:
    """Print the words of a diagnosis, each kind in a list of its own: no lab is named."""
    found = vocabulary.words()
    for kind, its in vars(found).items():
        term.heading(kind)
        for line in textwrap.wrap(", ".join(its), 76, break_on_hyphens=False):
            term.say(f"  {line}")
    return found
