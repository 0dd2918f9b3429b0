"""View: the content of a page, for one seat or for all, as JSON.

A seat's view reveals nothing about its lab before the debrief opens. The trainer's does. The
projector's never does, and it has numbers instead of names.
"""

from dataclasses import asdict
from html import escape
from math import isfinite
from typing import Any

from faultlab.lab import loader as labs
from faultlab.lab import vocabulary
from faultlab.learn import hints, mystery
from faultlab.workshop import blocks, changes, closing, master
from faultlab.workshop.documents import Place, html
from faultlab.workshop.lessons import without_make
from faultlab.workshop.roster import DISK_FULL, STANDING, WORDS, News, Seat, State, Turn
from faultlab.workshop.session import Session


def seat(session: Session, it: Seat) -> dict[str, Any]:
    """Return what a participant sees. `left`: seconds until the lab ends, None without a limit."""
    turn, plan, then = it.turn, session.plan, session.journal.now()
    lab, first = session.lab(turn), labs.loaded(turn.lab)  # what has joined it is news
    shown, standing = turn.up, turn.state in STANDING
    told = turn.readable
    opened = session.roster.timetable.has_opened(turn.block)  # its block
    open_ = not turn.blind and opened and turn.state in ("starting", *STANDING)
    kept = turn.state == "failed" and turn.blind and turn.why != DISK_FULL
    soon = turn.state == "prepared"
    state: State = "waiting" if soon else turn.state
    return {
        "class": blocks.title(session.roster),
        "seat": it.number,
        "name": it.name,
        "turn": it.at + 1,
        "turns": len(it.turns),
        "lab": turn.lab if standing and not turn.blind else "",
        "title": lab.title if open_ else "",
        "state": state,
        "word": WORDS[state],
        "why": session.not_said if kept else blocks.waits_for(session.roster) if soon else turn.why,
        "advice": (session.advice(it) if shown else "") or blocks.advice(session.roster, it, then),
        "doing": session.doing.get(it.number, ""),
        "waited": session.waited(it),
        "usual": session.usual(it),
        "paused": session.roster.paused,
        "ended": session.roster.ended,
        "blind": turn.blind,
        "ticket": html(hints.as_typed(lab, first.ticket)) if standing or open_ else "",
        "machines": session.machines(it) if shown else [],
        "daemons": session.daemons(it) if shown else [],
        "states": session.states(it, session.daemons(it)) if shown else {},
        "map": _map(session, it) if shown else [],
        **_hints(session, turn, shown),
        "hand": it.hand is not None,
        "news": [_told(each) for each in reversed(turn.news)],
        "checks": turn.checks,
        "verdict": _verdict(turn),
        "findings": [_readable(found) for found in changes.since(turn.findings, turn.before)],
        "popular": turn.popular,
        "answer": turn.answers[-1] if turn.answers else [],
        "answers": len(turn.answers),
        "sure": turn.sure,
        "several": bool(lab.folders),
        "terms": vocabulary.meanings(lab) if turn.blind and shown else {},
        "seconds": turn.seconds(then),
        "left": None if plan.minutes is None else 60 * plan.minutes - turn.seconds(then),
        "last": not session.roster.can_go_on(it),
        "behind": session.roster.is_behind(it),
        **session.own(it),
        "again": None if turn.again is None else max(0.0, turn.again - then),
        "success": _success(session, it),
        "debrief": _debrief(session, it) if told and turn.state != "failed" else None,
    }


def _told(news: News) -> dict[str, Any]:
    """Return what a seat is told, as HTML."""
    text = html(news.text) if news.kind == "ticket" else escape(news.text)
    return {"t": news.t, "kind": news.kind, "sender": news.sender, "html": text}


def _map(session: Session, it: Seat) -> list[dict[str, Any]]:
    """Return the machines of a stack, each with its daemons; `state` is empty if not known."""
    names, home_of = session.machines(it), labs.loaded(it.turn.stacked).services.daemons
    states, daemons = session.states(it, names), session.daemons(it)

    def row(name: str) -> dict[str, Any]:
        return {"name": name, "state": states.get(name, "")}

    return [
        {**row(name), "daemons": [row(each) for each in daemons if home_of[each] == name]}
        for name in names
        if name not in daemons
    ]


def _success(session: Session, it: Seat) -> dict[str, Any] | None:
    """Return what a repair took, and what users met before and after it; None without a repair.

    Its points are known once nothing is hidden any more.
    """
    turn, now = it.turn, session.journal.now()
    if turn.state not in ("amber", "green") or turn.gave_up:
        return None
    score = session.roster.score(turn, now) if turn.told else None
    rows = changes.between(turn.first or turn.began, turn.findings)
    return {
        "seconds": turn.seconds(now),
        "hints": len(turn.hints),
        "checks": turn.checks,
        "points": score.points if score else None,
        "of": score.of if score else None,
        "rows": [_readable(row) for row in rows],
    }


def _hints(session: Session, turn: Turn, shown: bool) -> dict[str, Any]:
    """Return the hints that were given, and what the next one costs at most."""
    lab, cost = session.lab(turn), session.plan.hint_cost
    texts = [hints.as_typed(lab, lab.hint[number - 1].text) for number in turn.hints]
    more = shown and len(turn.hints) - len(turn.free) < session.hints(turn)
    left = [lab.hint[n - 1].cost for n in turn.next_hints()] if more and not turn.no_hint else []
    return {
        "hints": [html(without_make(text)) for text in texts],
        "hint_left": bool(left),
        "next_cost": max(left, default=0) if cost is None else cost,
    }


def _verdict(turn: Turn) -> str:
    """Return what the last check came to, in a sentence; empty before the first one."""
    if not turn.checks or turn.state == "failed":
        return ""
    if not turn.findings:
        return "It could not be measured."
    well, every = sum(found["holds"] for found in turn.findings), len(turn.findings)
    if well == every:
        return "It is repaired: every measure is as wanted."
    how = "is as it" if well == 1 else "are as they"
    return f"Not yet: {well} of {every} measures {how} should be."


def _readable(found: dict[str, Any]) -> dict[str, Any]:
    """Return a finding that a browser can read: JSON has no infinity."""
    values = {key: found[key] for key in ("value", "was", "now") if key in found}
    return {**found, **{key: str(its) for key, its in values.items() if not isfinite(its)}}


def _debrief(session: Session, seat: Seat) -> dict[str, Any]:
    turn = seat.turn
    lab = labs.loaded(turn.whole)
    here = Place(f"labs/{lab.folder.name}", f"/seat/{seat.number}/read/", session.lessons(seat))
    its = here if lab.collection.ours else None  # no page serves the documents of others
    score = session.roster.score(turn, session.journal.now())
    return {
        "lab": lab.id,
        "title": lab.title,
        "truth": mystery.truths(lab),
        "answer": score.answer or {},
        "leads": [asdict(lead) for lead in mystery.false_leads(lab, score)],
        "right": score.right,
        "sure": score.sure,
        "points": score.points,
        "of": score.of,
        "gave_up": turn.gave_up,
        "lesson": html(lab.lesson, its),
    }


def roster(session: Session) -> dict[str, Any]:
    """Return what the trainer sees: every seat with its lab."""
    now = session.journal.now()

    def named(it: Seat) -> dict[str, Any]:
        return {
            **_line(session, it),
            "name": it.name,
            "lab": it.turn.known,
            "doing": session.doing.get(it.number, ""),
            "why": it.turn.why,
            "ended": session.ended(it),
            "refused": it.refused,
            "answer": it.turn.answers[-1] if it.turn.answers else [],
            "last": not session.roster.can_go_on(it),
            "hand": None if it.hand is None else now - it.hand,
            "prepared": master.prepared(session, it),
            "room": "" if it.turn.joined else it.turn.room,
        }

    seats = [named(it) for it in session.roster.seats]
    return {
        **projector(session),
        "blocks": blocks.timetable(session.roster),
        "seats": seats,
        **master.told(session),
    }


def projector(session: Session) -> dict[str, Any]:
    """Return what a projector can show: no names, no labs."""
    return {
        "class": session.plan.title,
        "paused": session.roster.paused,
        "ended": session.roster.ended,
        "block": blocks.told(session.roster, session.journal.now()),
        **closing.told(session.roster, session.journal.now()),
        "seats": [_line(session, it) for it in session.roster.seats],
    }


def _line(session: Session, it: Seat) -> dict[str, Any]:
    turn = it.turn
    asked = turn.state == "green" and not turn.told
    return {
        "seat": it.number,
        "turn": it.at + 1,
        "turns": len(it.turns),
        "state": turn.state,
        "word": WORDS[turn.state] + (", no answer yet" if asked else ""),
        "hints": len(turn.hints),
        "checks": turn.checks,
        "answers": len(turn.answers),
        "seconds": turn.seconds(session.journal.now()),
        "points": sum(
            session.roster.score(each, session.journal.now()).points for each in it.turns
        ),
    }
