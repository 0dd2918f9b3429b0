"""Slides: one deck for the day, as Markdown that Marp shows: tickets first, then what it was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from faultlab.core.text import markdown
from faultlab.lab.model import Lab
from faultlab.verify.lesson import typed
from faultlab.workshop import lessons
from faultlab.workshop.plan import ClassPlan
from faultlab.workshop.timetable import begins, clock

Facts = tuple[str, str, bool, Sequence[Lab]]  # heading, time, whether it is drawn, its labs
_HEAD = """---
marp: true
paginate: true
title: {title}
style: |
  section { font-size: 27px; }
  section.long { font-size: 22px; }
  blockquote { font-style: normal; }
---
"""
_LONG = 75  # words of a slide from which its letters are smaller
_MOST = 125  # words of a ticket on one slide
_ROWS = 8  # of a table on one slide
_LINE = 90  # characters of a command on a slide


def deck(plan: ClassPlan, parts: Sequence[Facts]) -> str:
    """Return the slides of a class."""
    slides = [
        f"# {plan.title}\n\n{len(plan.seats)} seats · one fault at a time · proven by measurement"
    ]
    if plan.block:
        rows = [
            [clock(begin), block.title, f"{block.minutes:g} min"]
            for begin, block in zip(begins(plan.block), plan.block, strict=True)
        ]
        slides.append("\n".join(["## The day", "", *markdown(["", "", ""], rows)]))
    slides.append(_RULES)
    for heading, time, drawn, its in parts:
        slides.append(f"# {heading}\n\n{time}")
        slides += _of_draw(its) if drawn else [each for lab in its for each in _of_lab(lab)]
    slides.append(
        "# What will you look at first, from now on?\n\nThe form: three minutes, no name."
    )
    head = _HEAD.replace("{title}", plan.title.replace('"', "'").join('""'))
    return head + "\n---\n\n".join(f"{_sized(text)}\n" for text in slides)


_RULES = """## How we work

1. What do users get? Measure it before you look at a machine.
2. Which number is not as it should be? Say it aloud.
3. Change one thing. Measure again, as users do.
4. A repair counts when it has lasted: it is looked at again."""


def _sized(text: str) -> str:
    long = len(text.split()) > _LONG or text.count("\n") > 14
    return f"<!-- _class: long -->\n\n{text}" if long else text


def _of_lab(lab: Lab) -> Iterator[str]:
    """Yield the ticket of a lab, and then its debrief: what it was, its repair, its rule."""
    tickets = _pages(lessons.plain(lab.ticket))
    for number, text in enumerate(tickets, 1):
        more = f" ({number} of {len(tickets)})" if len(tickets) > 1 else ""
        quoted = "\n".join(f"> {line}".rstrip() for line in text.splitlines())
        yield f"## The ticket{more}\n\n{quoted}"
    yield "## Debrief\n\nHands off the keyboards.\n\nWhat did you rule out, and by which number?"
    causes = "\n".join(f"- {each}" for each in lessons.causes(lab.lesson, 3))
    yield f"## It was `{lab.id}`\n\n*{lab.title}*\n\n{causes}"
    if lab.fix:
        steps = "\n".join(lessons.short(typed(step), _LINE) for step in lab.fix)
        also = f"\n\nAlso: {lab.alternative[0].why}" if lab.alternative else ""
        yield f"## The repair\n\n```\n{steps}\n```{also}"
    yield f"## The rule\n\n> {lessons.rule(lab.lesson)}"


def _of_draw(its: Sequence[Lab]) -> Iterator[str]:
    """Yield how to work on a drawn lab, and what all of them were."""
    yield (
        "## Each of you has another fault. Or none.\n\n- Find out what it is before you change"
        " anything.\n- Answer: component, resource, cause. Thirty points, and ten for the repair."
        '\n- "Nothing is wrong" is an answer: none, none, none.'
        "\n- Hints and second answers cost points."
    )
    yield "## Debrief\n\nWhat did users get? Which number decided it? What did you rule out?"
    rows = [[f"`{lab.id}`", lab.title, lab.truth.cause] for lab in its]
    for at in range(0, len(rows), _ROWS):
        table = markdown(["lab", "what users met", "cause"], rows[at : at + _ROWS])
        yield "\n".join(["## What they were", "", *table])


def _pages(ticket: str) -> list[str]:
    """Return a ticket in pieces of whole paragraphs that fit on a slide."""
    found: list[str] = []
    for part in ticket.strip().split("\n\n"):
        if found and len(f"{found[-1]} {part}".split()) <= _MOST:
            found[-1] += f"\n\n{part}"
        else:
            found.append(part)
    return found
