"""Closing: what the projector shows of the whole class: its repairs, a line to all, and its end.

Names are shown in the ranking alone, which class.toml has to want.
"""

from __future__ import annotations

from typing import Any

from faultlab.workshop.roster import Roster, Turn

_SHOWN = 600.0  # seconds for which a line to all is shown


def told(roster: Roster, now: float) -> dict[str, Any]:
    """Return the repairs of the class, the last line to all, and at its end what came of it."""
    every = [turn for seat in roster.seats for turn in seat.turns]
    return {
        "repaired": sum(map(_is_repaired, every)),
        "labs": len(every),
        "line": _line(roster, now),
        "final": _final(roster, now, every) if roster.ended else None,
    }


def ranking(roster: Roster, now: float) -> list[dict[str, Any]]:
    """Return the seats by their points, then by their repairs; equals share a place."""
    rows = [
        {
            "name": seat.name,
            "points": sum(roster.score(turn, now).points for turn in seat.turns),
            "repaired": sum(map(_is_repaired, seat.turns)),
        }
        for seat in roster.seats
    ]
    keys = sorted(((row["points"], row["repaired"]) for row in rows), reverse=True)
    placed = [{"place": keys.index((r["points"], r["repaired"])) + 1, **r} for r in rows]
    return sorted(placed, key=lambda row: int(row["place"]))


def _is_repaired(turn: Turn) -> bool:
    return turn.state == "green" and not turn.gave_up


def _line(roster: Roster, now: float) -> dict[str, str] | None:
    """Return the last message to all seats, for some minutes."""
    said = [
        item
        for item in roster.agenda.items.values()
        if item.what.message and not item.what.seats and item.state == "fired"
    ]
    last = max(said, key=lambda item: item.at, default=None)
    if last is None or now - last.at > _SHOWN or roster.ended:
        return None
    return {"sender": last.what.sender, "text": last.what.message}


def _final(roster: Roster, now: float, every: list[Turn]) -> dict[str, Any]:
    return {
        "checks": sum(turn.checks for turn in every),
        "hints": sum(len(turn.hints) for turn in every),
        "farewell": roster.plan.farewell,
        "ranking": ranking(roster, now) if roster.plan.ranking else [],
    }
