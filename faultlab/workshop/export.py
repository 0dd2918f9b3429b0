"""Export: the results of a class, for a table, for a program, and as a page."""

import csv
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from jinja2 import Environment, FileSystemLoader
from pydantic import Field

from faultlab.lab import loader as labs
from faultlab.lab.model import Truth
from faultlab.run import judge_error
from faultlab.workshop.journal import Journal
from faultlab.workshop.roster import WORDS, Roster

ClassId = Annotated[str, Field(alias="class")]
Rows = list[dict[str, Any]]
KINDS = {"csv": "text/csv", "json": "application/json", "html": "text/html"}
_COLUMNS = (
    *("seat", "name", "lab", "state", "gave_up", "minutes", "checks", "hints", "answers"),
    *("component", "resource", "cause", "sure", "points", "of"),
)


def rows(roster: Roster, now: float) -> Rows:
    """Return a row for each lab that a seat has started; parts of an answer are true or false.

    `sure`: of the last answer, in per cent.
    """
    found = []
    for seat in roster.seats:
        for turn in seat.turns[: seat.at + 1]:
            score = roster.score(turn, now)
            found.append(
                {
                    "seat": seat.number,
                    "name": seat.name,
                    "lab": labs.loaded(turn.whole).id,
                    "state": turn.state,
                    "gave_up": turn.gave_up,
                    "minutes": round(score.minutes, 1),
                    "checks": turn.checks,
                    "hints": len(turn.hints),
                    "answers": len(turn.answers),
                    **{part: _right(score.right, part) for part in Truth.model_fields},
                    "sure": score.sure,
                    "points": score.points,
                    "of": score.of,
                }
            )
    return found


def _right(parts: Mapping[str, bool], part: str) -> bool | None:
    """Return whether a part is right, of several faults for each; None if none was asked for."""
    its = [right for name, right in parts.items() if name.rpartition(" ")[2] == part]
    return all(its) if its else None


def text(roster: Roster, journal: Journal, kind: str, now: float) -> str:
    """Return all results in one of KINDS; JSON also contains the journal."""
    found = rows(roster, now)
    plan = roster.plan
    if kind == "json":
        whole = {"class": plan.model_dump(), "turns": found, "events": journal.events}
        return json.dumps(whole, indent=1) + "\n"
    if kind == "csv":
        out = io.StringIO()
        table = csv.DictWriter(out, _COLUMNS, lineterminator="\n")
        table.writeheader()
        table.writerows({key: _harmless(value) for key, value in row.items()} for row in found)
        return out.getvalue()
    pages = Environment(loader=FileSystemLoader(Path(__file__).parent / "pages"), autoescape=True)
    facts = {"plan": plan, "rows": found, "columns": _COLUMNS, "ended": roster.ended}
    facts["words"] = WORDS
    facts["judge_error"] = judge_error.said()
    return pages.get_template("export.html").render(facts)


def _harmless(value: Any) -> Any:
    """Mark a name as text that a spreadsheet would take for a formula."""
    return f"'{value}" if isinstance(value, str) and value[:1] in "=+-@\t\r" else value
