"""Probe: the slow query log as pt-query-digest summarises it. Source: pt-query-digest(1).

It is read where the server writes it, which can be another file or the table mysql.slow_log.
"""

import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache

from faultlab.core.errors import CannotRun
from faultlab.engine.shell import Shell
from faultlab.probes.mysql import Statement

FILE = "/var/log/mysql/slow.log"
ENTRY = "# Query_time"  # in a line of each logged query
_ALIKE = 0.9
_WHERE = """mysql -BNe "SELECT @@log_output, NOW(6),
IF(@@slow_query_log_file LIKE '/%', @@slow_query_log_file,
CONCAT(@@datadir, @@slow_query_log_file))" """
_ROWS = r"""SELECT CONCAT("# User@Host: ", user_host, "\n# Query_time: ", TIME_TO_SEC(query_time),
"  Lock_time: 0  Rows_sent: ", rows_sent, "  Rows_examined: ", rows_examined, "\n", sql_text, ";")
FROM mysql.slow_log WHERE start_time >= "{}" """


@dataclass(frozen=True)
class Logged:
    """All logged queries of one form: how many, and the sum of their times in seconds."""

    form: str
    calls: int
    seconds: float

    def statement(self, ran: Sequence[Statement]) -> Statement | None:
        """Return the statement of performance_schema with this form, if there is one.

        It writes some words differently (`MONTH(day)` is `SQL_TSI_MONTH ( DAY )` there), so the
        most similar statement is taken. If the logged time is much longer than its own, in total or
        on average, the server did not log it.
        """
        alike = {s: _likeness(self.form, s.text) for s in ran}
        best = max(alike, key=alike.__getitem__, default=None)
        if best is None or alike[best] <= _ALIKE or self.seconds > 1.5 * best.seconds:
            return None
        return best if self.seconds / self.calls <= 5 * best.seconds / best.calls else None


@dataclass(frozen=True)
class Mark:
    """The present end of a log: a file and its size in bytes, or a time for the server's table."""

    file: str
    size: int
    time: str


def mark(machine: Shell) -> Mark:
    """Return the present end of the log, from which `since` reads on."""
    output, time, file = machine.must(_WHERE).strip().split("\t")
    if "FILE" not in output:
        return Mark("", 0, time)
    size = machine.must(f"stat -c %s {shlex.quote(machine.root + file)} 2>/dev/null || echo 0")
    return Mark(file, int(size), time)


def since(machine: Shell, start: Mark) -> list[Logged]:
    """Return the forms logged after a mark, the one that took the most time first."""
    if not start.file:
        read = f"mysql -BNre {shlex.quote(_ROWS.format(start.time))}"
    elif mark(machine).size > start.size:
        read = f"tail -c +{start.size + 1} {shlex.quote(machine.root + start.file)}"
    else:
        return []
    command = f"{{ {read}; }} | pt-query-digest --output json --limit 100"
    return parse(machine.must(command, timeout=120))


def parse(out: str) -> list[Logged]:
    """Parse the JSON of pt-query-digest, which prints a line of text if nothing was logged.

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


@lru_cache(10_000)  # a walk compares the same texts many times, for 6 ms each
def _likeness(form: str, text: str) -> float:
    """Return how similar a form in the log is to a statement, from 0 to 1."""
    return SequenceMatcher(None, _bare(form), _bare(text), False).ratio()


def _bare(text: str) -> str:
    """Remove quotes, blanks, points and case, because both write most of the rest alike."""
    return re.sub(r"[^a-z0-9_?*]", "", text.lower())
