"""View: what a page shows: of one seat, or of all, as JSON.

A seat's view says nothing of its lab before the debrief is open; the trainer's does, the
projector's never, and it has numbers in place of names.
"""

import re
from functools import cache
from typing import Any

from markdown_it import MarkdownIt

from faultlab.lab import terms
from faultlab.lab.model import NO_FAULT
from faultlab.learn import hints
from faultlab.workshop.roster import DISK_FULL, Seat, Turn, known
from faultlab.workshop.session import Session

_NOT_SAID = "Your trainer sees why."  # the reason may name what the lab changes


def seat(session: Session, it: Seat) -> dict[str, Any]:
    """Return what a participant sees; `left`: seconds until the lab is over, None for no limit."""
    turn, plan, then = it.turn, session.plan, session.journal.now()
    lab = session.lab(turn)
    shown = turn.state in ("red", "green", "over")
    told = turn.told(plan.blind)
    kept = turn.state == "failed" and plan.blind and turn.why != DISK_FULL
    rungs = [rung.text for rung in lab.hint[: turn.hints]]
    costs = [rung.cost if plan.hint_cost is None else plan.hint_cost for rung in lab.hint]
    return {
        "class": plan.title,
        "seat": it.number,
        "name": it.name,
        "turn": it.at + 1,
        "turns": len(it.turns),
        "title": lab.title if shown and not plan.blind else "",
        "state": turn.state,
        "why": _NOT_SAID if kept else turn.why,
        "doing": session.doing.get(it.number, ""),
        "paused": session.roster.paused,
        "ended": session.roster.ended,
        "blind": plan.blind,
        "ticket": _html(hints.told(lab, lab.ticket)) if shown else "",
        "machines": session.machines(it) if shown else [],
        "daemons": session.daemons(it) if shown else [],
        "hints": [_html(_without_make(hints.told(lab, text))) for text in rungs],
        "hint_left": shown and turn.hints < session.hints(turn),
        "next_cost": costs[turn.hints] if shown and turn.hints < session.hints(turn) else 0,
        "checks": turn.checks,
        "findings": turn.findings,
        "answer": turn.answers[-1] if turn.answers else None,
        "answers": len(turn.answers),
        "terms": _terms() if plan.blind else {},
        "seconds": turn.seconds(then),
        "left": None if plan.minutes is None else 60 * plan.minutes - turn.seconds(then),
        "last": it.last,
        "debrief": _debrief(session, turn) if told and turn.state != "failed" else None,
    }


def _debrief(session: Session, turn: Turn) -> dict[str, Any]:
    lab = known(turn.lab)
    score = session.roster.score(turn, session.journal.now())
    return {
        "lab": lab.alias,
        "title": lab.title,
        "truth": lab.truth.model_dump(),
        "right": score.right,
        "points": score.points,
        "of": score.of,
        "gave_up": turn.gave_up,
        "lesson": _html(lab.lesson),
    }


def roster(session: Session) -> dict[str, Any]:
    """Return what the trainer sees: every seat with its lab."""

    def named(it: Seat) -> dict[str, Any]:
        return {
            **_line(session, it),
            "name": it.name,
            "lab": it.turn.lab,
            "doing": session.doing.get(it.number, ""),
            "why": it.turn.why,
            "refused": it.refused,
            "answer": it.turn.answers[-1] if it.turn.answers else None,
            "last": it.last,
        }

    return {**projector(session), "seats": [named(it) for it in session.roster.seats]}


def projector(session: Session) -> dict[str, Any]:
    """Return what may hang on the wall: no names, no labs."""
    return {
        "class": session.plan.title,
        "paused": session.roster.paused,
        "ended": session.roster.ended,
        "seats": [_line(session, it) for it in session.roster.seats],
    }


def _line(session: Session, it: Seat) -> dict[str, Any]:
    turn = it.turn
    return {
        "seat": it.number,
        "turn": it.at + 1,
        "turns": len(it.turns),
        "state": turn.state,
        "hints": turn.hints,
        "checks": turn.checks,
        "answers": len(turn.answers),
        "told": turn.told(session.plan.blind),
        "seconds": turn.seconds(session.journal.now()),
        "points": sum(
            session.roster.score(each, session.journal.now()).points for each in it.turns
        ),
    }


@cache
def _terms() -> dict[str, list[str]]:
    words = terms.words()
    every = {"component": words.components, "resource": words.resources, "cause": words.causes}
    return {part: [*its, NO_FAULT] for part, its in every.items()}


def _without_make(text: str) -> str:
    """There is no shell with `make` in a browser: `use-mystery` is the same seen from elsewhere."""
    return re.sub(r"\bmake (shell)-\S+ AT=(\w+)", r"the terminal of \2", text)


@cache
def _html(markdown: str) -> str:
    text = re.sub(r"<!--.*?-->", "", markdown, flags=re.DOTALL)  # notes for authors
    page = str(MarkdownIt("commonmark", {"html": False}).enable("table").render(text))
    return page.replace("<pre>", '<pre tabindex="0">')  # what scrolls must do so by keyboard, too
