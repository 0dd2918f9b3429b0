"""Probe: the slow query log as pt-query-digest sums it up. Source: pt-query-digest(1)."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from faultlab.core.errors import CannotRun
from faultlab.engine.shell import Shell
from faultlab.probes.mysql import Statement

FILE = "/var/log/mysql/slow.log"
ENTRY = "# Query_time"  # in a line of each query that it has kept
_ALIKE = 0.9


@dataclass(frozen=True)
class Logged:
    """All logged queries of one form: how many, and their times added up, in seconds."""

    form: str
    calls: int
    seconds: float

    def statement(self, ran: Sequence[Statement]) -> Statement | None:
        """Return the statement of performance_schema with this form, if there is one.

        It writes some words in its own way (`MONTH(day)` is `SQL_TSI_MONTH ( DAY )` there), so the
        most alike statement is taken.
        """
        form = _bare(self.form)
        alike = {s: SequenceMatcher(None, form, _bare(s.text), False).ratio() for s in ran}
        best = max(alike, key=alike.__getitem__, default=None)
        return best if best and alike[best] > _ALIKE else None


def size(machine: Shell) -> int:
    """Return the size of the log in bytes, 0 when there is none: `since` reads on from there."""
    return int(machine.must(f"stat -c %s {FILE} 2>/dev/null || echo 0"))


def since(machine: Shell, start: int) -> list[Logged]:
    """Return the forms logged after `start` bytes, the one that took the most time first."""
    if size(machine) <= start:
        return []
    command = f"tail -c +{start + 1} {FILE} | pt-query-digest --output json --limit 100"
    return parse(machine.must(command, timeout=120))


def parse(out: str) -> list[Logged]:
    """Read the JSON of pt-query-digest, which prints a line of text when nothing was logged.

    Raises CannotRun.
    """
    begin = out.find("{")
    if begin < 0:
        return []
    try:
        classes = json.loads(out[begin:])["classes"]
        return [
            Logged(c["fingerprint"], c["query_count"], float(c["metrics"]["Query_time"]["sum"]))
            for c in classes
        ]
    except (ValueError, KeyError) as error:
        raise CannotRun(f"pt-query-digest printed no JSON: {out[:60]!r}") from error


def _bare(text: str) -> str:
    """Drop quotes, blanks and points, and the case: both write most of the rest alike."""
    return re.sub(r"[^a-z0-9_?*]", "", text.lower())
