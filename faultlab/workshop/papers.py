"""Papers: the day on one page, what is needed before it, and a form for feedback, as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from faultlab.core.text import markdown, number
from faultlab.lab import loader as labs
from faultlab.workshop import size
from faultlab.workshop.blocks import what
from faultlab.workshop.parts import Part, of_size
from faultlab.workshop.plan import ClassPlan
from faultlab.workshop.timetable import begins, clock

_MB = 1024
OTHERS = (24, 64)  # seats that the page about the machine counts as well


def said(its: size.Size) -> list[str]:
    """Return the size of a class in sentences."""
    two = (
        ""
        if its.prepared == its.memory
        else (f", {_gb(its.prepared)} with each next block prepared (computed from measured sizes)")
    )
    return [
        f"{its.seats} seats: {_gb(its.memory)} of memory{two}; "
        f"ready after about {size.in_minutes(its.ready)} (computed from recorded walks).",
        *(f"Note: {line}" for line in its.queues),
    ]


def _gb(memory: int) -> str:
    return f"{memory / _MB:.1f} GB"


def timetable(plan: ClassPlan, pages: Mapping[int, str] | None = None) -> list[str]:
    """Return the blocks of a class as a table. `pages`: of blocks, by number."""
    files, rows = pages or {}, []
    for number_, (block, begin) in enumerate(zip(plan.block, begins(plan.block), strict=True), 1):
        page_ = files.get(number_)
        title = f"[{block.title}]({page_})" if page_ else block.title
        named = ", ".join(f"`{lab_id}`" for lab_id in block.labs) or what(block)
        how = f"{named}, blind" if named and plan.is_blind(number_) else named
        told = ". ".join(filter(None, (how, block.note)))
        rows.append([clock(begin), title, told, f"{block.minutes:g} min"])
    return markdown(["begins", "block", "what", "time"], rows)


def overview(plan: ClassPlan, every: Sequence[Part], file: str) -> str:
    """Return the first page: the day on one sheet."""
    lines = [f"# {plan.title}: the trainer's papers", ""]
    lines += [f"{len(plan.seats)} seats. All answers are in these pages: do not hand them out.", ""]
    if plan.block:
        lines += timetable(plan, {part.number: part.file for part in every})
        opens = "when its time has come" if plan.opens == "by the clock" else "with its button"
        lines += [
            "",
            f"The first block opens with *Begin*, each other one {opens}. A seat that is still at",
            f"work is told so, and has {number(plan.grace)} minutes; what it has reached counts.",
        ]
    else:
        lines += [f"- [{part.title}]({part.file})" for part in every]
    lines += [
        "",
        "- [slides.md](slides.md): `npx @marp-team/marp-cli slides.md` makes a page of it",
    ]
    lines += ["- [prerequisites.md](prerequisites.md): send it a week before"]
    lines += ["- [feedback.md](feedback.md): print it, or paste it into your form", ""]
    lines += ["```", f"faultlab class start {file}", f"faultlab class export {file}"]
    lines += [f"faultlab class end {file}", "```", ""]
    return "\n".join(lines)


def prerequisites(plan: ClassPlan, chosen: Sequence[Sequence[str]], file: str) -> str:
    """Return what participants, the room and the machine need."""
    used = dict.fromkeys(lab_id for seat in chosen for lab_id in seat)
    every = [labs.loaded(lab_id) for lab_id in used]
    names = {*plan.named} or {part for lab in every for part in lab.of or [lab.id]}
    tracks = dict.fromkeys(lab.collection.tracks[lab.track].lower() for lab in every)
    taught = [*(each for lab in every for each in lab.needs)]
    needs = [each for each in dict.fromkeys(taught) if each not in names and each != "healthy"]
    lines = [f"# Before {plan.title}", "", "## Participants", ""]
    lines += [
        "- bring a laptop with a browser; nothing is installed, the terminals are in the page"
    ]
    lines += ["- can move in a Linux shell: `cd`, `less`, `grep`, `ps`"]
    lines += ["- know what a TCP connection and an HTTP status are"]
    lines += [f"- topics of the class: {', '.join(tracks)}"]
    if needs:
        named = listed(f"`{each}`" for each in needs)
        lines += [
            f"- if there is time: read the lessons of {named}, which labs of this class build on"
        ]
    lines += ["", "## Room", "", "- one network for all laptops and the machine of the labs"]
    lines += ["- a projector; the page for it has no names and no labs"]
    lines += ["- a board for what was ruled out", "", "## The machine of the labs", ""]
    counts = dict.fromkeys([len(plan.seats), *OTHERS])
    sizes = [of_size(plan, count) for count in counts]
    rows = [
        [
            str(s.seats),
            _gb(s.memory),
            _gb(s.prepared),
            size.in_minutes(s.ready),
            _last(s),
        ]
        for s in sizes
    ]
    lines += markdown(["seats", "memory", "with the next block", "ready after", "last check"], rows)
    lines += ["", *_formula(plan), "", "## Try it", "", "```", f"faultlab class lint {file}"]
    lines += [f"faultlab class start {file}     # the day before, with all seats", "```", ""]
    return "\n".join(lines)


def _last(its: size.Size) -> str:
    """Return how long the last check of the slowest moment waits."""
    return size.in_minutes(its.last) if its.last else f"below {size.in_minutes(size.LATE)}"


def _formula(plan: ClassPlan) -> list[str]:
    return [
        "How these are computed:",
        "",
        "- memory: the largest lab of each seat, added up, and 2 GB for the system. The size of",
        "  a lab is measured (the top of its page). With the next block: the largest two labs",
        "  that follow each other. With less memory, fewer labs are prepared, and the others",
        "  start when their block opens.",
        f"- ready: two looks for each seat; {size.AT_ONCE} seats at a time, labs that send load",
        "  alone on a slot of the CPUs. The seconds of a look are those of recorded walks, which",
        "  contain the start of their stacks.",
        "- last check: seats times the seconds of a look, where all check a lab that sends load.",
        "  A load has its slot to itself, so several slots of CPUs shorten it.",
        f"- disk: {plan.seat_disk} for each seat at worst, and 1.7 GB for faultlab.",
        "",
        "Measured, not computed, with twelve seats of the web tier on 2 CPUs and 24 GB",
        "(`bench/seats.py`): ready after 152 s, 877 MB for all twelve, and 2.6 s for a check of",
        "one seat while the others worked.",
    ]


def feedback(plan: ClassPlan, every: Sequence[Part]) -> str:
    """Return a form for the participants."""
    lines = [f"# {plan.title}: what was it like?", "", "No name needed. One mark in each row.", ""]
    rows = [[part.heading, "☐", "☐", "☐", "☐ ☐ ☐ ☐ ☐"] for part in every]
    lines += markdown(["block", "too slow", "right", "too fast", "of use at work: 1 to 5"], rows)
    lines += [
        "",
        "1. Which number or command will you look at first from now on?",
        "",
        "   ____",
        "",
    ]
    lines += ["2. Where were you stuck, and what would have helped?", "", "   ____", ""]
    lines += ["3. Which verdict of a check did you find unfair, and why?", "", "   ____", ""]
    lines += ["4. Which incident of your own should be a lab?", "", "   ____", ""]
    return "\n".join(lines)


def listed(words: Iterable[str]) -> str:
    """Return words as a sentence has them: a, b and c."""
    *first, last = [*words]
    return f"{', '.join(first)} and {last}" if first else last
