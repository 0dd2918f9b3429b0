"""Blocks: what the pages say about the blocks of a class: its timetable, its clock, who is done."""

from __future__ import annotations

from typing import Any

from faultlab.core.text import minutes
from faultlab.workshop.plan import Block
from faultlab.workshop.roster import Roster, Seat, Turn
from faultlab.workshop.timetable import begins, clock


def title(roster: Roster) -> str:
    """Return the title of a class with that of its open block."""
    block = roster.timetable.now
    return f"{roster.plan.title} · {block.title}" if block else roster.plan.title


def waits_for(roster: Roster) -> str:
    """Return what a seat is told whose lab is ready before its block is open."""
    block = roster.timetable.now
    if block is None:
        return "The class has not begun yet: your trainer opens the first block."
    if block.pause:
        return f"Now: {block.title}. You get your next lab in the block after it."
    return "You get your next lab in the next block, which your trainer opens."


def advice(roster: Roster, seat: Seat, now: float) -> str:
    """Return what a seat is told about the block that follows its own; empty without news."""
    table, turn = roster.timetable, seat.turn
    if roster.ended or not turn.block:
        return ""
    if roster.is_behind(seat) and table.now:
        if roster.following(seat) is None:
            return f"Now: {table.now.title}."
        left = 60 * roster.plan.grace - table.seconds(now)
        when = f"in {minutes(max(1, round(left / 60)))}" if left > 0 else "in a moment"
        return f"Now: {table.now.title}. This lab ends {when}; what you have achieved counts."
    done = _is_done(turn) and not roster.can_go_on(seat)
    if done and turn.told and table.next and roster.following(seat) is not None:
        return f"You are done with this block. The next one is: {table.next.title}."
    return ""


def told(roster: Roster, now: float) -> dict[str, Any] | None:
    """Return the open block, its clock and who is done, without labs; None without blocks.

    `left`: seconds, less than 0 if it is late, None before the first block. `runs`: whether the
    clock does. `repaired` of `labs`, which all seats have in it; `done`: seats that have ended all
    of theirs. `ready`: seats whose next lab is prepared.
    """
    table = roster.timetable
    if not table.blocks:
        return None
    each = [[turn for turn in it.turns if turn.block == table.at] for it in roster.seats]
    its = [turn for turns in each for turn in turns]
    return {
        "number": table.at,
        "of": len(table.blocks),
        "title": table.now.title if table.now else "",
        "pause": bool(table.now and table.now.pause),
        "next": table.next.title if table.next else "",
        "left": table.left(now),
        "runs": table.since is not None,
        "labs": len(its),
        "repaired": sum(turn.state == "green" and not turn.gave_up for turn in its),
        "done": sum(bool(turns) and all(map(_is_done, turns)) for turns in each),
        "ready": sum(_is_ready(roster, it) for it in roster.seats),
        "seats": len(roster.seats),
        "by_clock": roster.plan.opens == "by the clock",
    }


def timetable(roster: Roster) -> list[dict[str, Any]]:
    """Return the blocks as the trainer sees them, with their labs."""
    plan, at = roster.plan, roster.timetable.at
    return [
        {
            "number": number,
            "begins": clock(begin),
            "title": block.title,
            "minutes": block.minutes,
            "labs": what(block),
            "blind": not block.pause and plan.is_blind(number),
            "note": block.note,
            "state": "open" if number == at else "over" if number < at else "",
        }
        for number, (block, begin) in enumerate(zip(plan.block, begins(plan.block), strict=True), 1)
    ]


def what(block: Block) -> str:
    """Return the labs of a block in words; empty for a pause."""
    if block.draw:
        return f"{block.draw.count} drawn for each seat"
    return ", ".join(block.labs)


def _is_done(turn: Turn) -> bool:
    return turn.state == "over" or turn.told


def _is_ready(roster: Roster, seat: Seat) -> bool:
    """Return whether the lab of a seat in the next block is prepared."""
    table = roster.timetable
    place = seat.first_of(table.at + 1)
    return place is not None and seat.turns[place].state == "prepared"
