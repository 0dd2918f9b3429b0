"""PromQL: what an expression asks for, and the same expression for a recording of some seconds.

Prometheus itself evaluates it. Here only its text is read: names, ranges, and calls whose value
depends on the length of a range or on the clock.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_STRING = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|`[^`]*`|#[^\n]*")
_RANGE = re.compile(r"\[\s*([\d.]\w*)\s*(:[^\]]*)?\]")
_OFFSET = re.compile(r"\boffset\s+-?\s*(\w+)|@\s*(?:\d|start|end)")
_GROUPED = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)")
_NAME = re.compile(r"\b[a-zA-Z_:][\w:]*(?![\w:]|\s*\()")
_WORDS = frozenset(
    [
        *("and", "or", "unless", "bool", "by", "without", "on", "ignoring", "offset", "inf", "nan"),
        *("group_left", "group_right", "atan2", "start", "end", "alerts", "alerts_for_state"),
    ]
)
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800, "y": 31536000}
_DURATION = re.compile(r"(\d+)(ms|[smhdwy])")
_SUMS = re.compile(r"\b(?:increase|delta)\s*\(")  # what a shorter range makes smaller
_TRENDS = re.compile(r"\b(?:predict_linear|deriv|holt_winters|double_exponential_smoothing)\s*\(")
_CLOCK = re.compile(r"\btime\s*\(\s*\)")
_STAMP = re.compile(r"\btimestamp\s*\(")
_CALENDAR = re.compile(r"\b(?:hour|minute|month|year|day_of_\w+|days_in_month)\s*\(\s*\)")


@dataclass(frozen=True)
class Fitted:
    """An expression for a recording. `cut`: a range was longer. `untold`: why it tells nothing."""

    text: str
    cut: bool = False
    untold: str = ""


def seconds(text: str) -> float:
    """Return a duration such as `1h30m` in seconds; 0 for what is none."""
    return float(sum(int(n) * _UNITS[unit] for n, unit in _DURATION.findall(str(text))))


def metrics(text: str) -> set[str]:
    """Return the names of metrics in an expression; `*` if a matcher chooses them."""
    bare = _masked(text)
    chosen = {"*"} if "__name__" in bare else set()
    for pattern in (r"\{[^}]*\}", r"\[[^\]]*\]", _GROUPED):
        bare = re.sub(pattern, " ", bare)
    return chosen | {name for name in _NAME.findall(bare) if name.lower() not in _WORDS}


def fitted(text: str, longest: float, began: float) -> Fitted:
    """Return the expression with no range longer than so many seconds.

    `began`: when the recording began, for expressions with a clock: in a test of rules Prometheus'
    clock begins at 0. `increase` and `delta` are multiplied, so that limits keep their meaning.
    """
    bare = _masked(text)
    ranges = [found for found in _RANGE.finditer(bare) if seconds(found[1]) > longest]
    if untold := _untold(bare, bool(ranges), longest):
        return Fitted(text, bool(ranges), untold)
    changes = [(found.start(1), found.end(1), f"{longest:.0f}s") for found in ranges]
    for call in _SUMS.finditer(bare):
        end = _closed(bare, call.end())
        its = [found for found in ranges if call.end() <= found.start() < end]
        if its:
            factor = seconds(its[-1][1]) / longest
            changes += [(call.start(), call.start(), f"({factor:.15g} * "), (end, end, ")")]
    changes += [(c.start(), c.end(), f"(time() + {began:.0f})") for c in _CLOCK.finditer(bare)]
    for call in _STAMP.finditer(bare):
        end = _closed(bare, call.end())
        changes += [(call.start(), call.start(), f"({began:.0f} + "), (end, end, ")")]
    for begin, end, new in sorted(changes, key=lambda change: change[:2], reverse=True):
        text = text[:begin] + new + text[end:]
    return Fitted(text, bool(ranges))


def _untold(bare: str, cut: bool, longest: float) -> str:
    if cut and _TRENDS.search(bare):
        return "its trend is longer than a recording"
    if any(not found[1] or seconds(found[1]) > longest for found in _OFFSET.finditer(bare)):
        return "it looks back to before a recording"
    if _CALENDAR.search(bare):
        return "it asks for the hour or the day"
    return "it asks for other alerts" if re.search(r"\bALERTS", bare) else ""


def expressions(block: str) -> Iterator[str]:
    """Yield the expressions of a block of code: each begins at the left, after a whole one.

    A line that begins with an operator, or follows one, continues the expression before it.
    """
    current: list[str] = []
    for line in block.splitlines():
        text = "\n".join(current)
        if current and not _goes_on(text, line):
            yield text.strip()
            current = []
        current.append(line)
    if "".join(current).strip():
        yield "\n".join(current).strip()


def _goes_on(text: str, line: str) -> bool:
    bare = _masked(text).rstrip()
    if not bare.strip() or not line.strip():
        return True
    if any(bare.count(a) > bare.count(b) for a, b in ("()", "{}", "[]")):
        return True
    begins = re.match(r"\s|(?:and|or|unless)\b|[-+*/%^<>=!)]", line)
    ends = re.search(
        r"(?:\b(?:and|or|unless|bool)|[-+*/%^<>=]|\b(?:on|ignoring)\s*\([^)]*\))$", bare
    )
    return bool(begins or ends)


def _masked(text: str) -> str:
    """Return the text with blanks for its strings and comments, at the same places."""
    return _STRING.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def _closed(bare: str, begin: int) -> int:
    """Return the place behind the bracket that closes a call whose arguments begin here."""
    depth = 1
    for place in range(begin, len(bare)):
        depth += {"(": 1, ")": -1}.get(bare[place], 0)
        if depth == 0:
            return place + 1
    return len(bare)
