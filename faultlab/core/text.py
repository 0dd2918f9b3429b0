"""Text: numbers as people read them, and the lines of a stream."""

import math
import re
from collections.abc import Iterable, Iterator, Sequence

_PAINT = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")  # colours and cursor movements of a terminal


def number(value: float, unit: str = "") -> str:
    """Return a number in three significant digits; these machines repeat no more."""
    whole = math.isfinite(value) and (abs(value) >= 100 or value == int(value))
    text = f"{value:.0f}" if whole else f"{value:.3g}"
    return f"{text} {unit}".strip()


def minutes(count: float) -> str:
    """Return a time such as `3 minutes`, `1 minute` or `30 seconds`."""
    value, unit = (count, "minute") if count >= 1 else (60 * count, "second")
    return number(value, unit if value == 1 else f"{unit}s")


def colourless(text: str) -> str:
    """Return a text without the colours of a terminal, and without blanks around it."""
    return _PAINT.sub("", text).strip()


def markdown(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a Markdown table."""
    return [f"| {' | '.join(each)} |" for each in (columns, ["---"] * len(columns), *rows)]


def lines(chunks: Iterable[bytes]) -> Iterator[str]:
    """Yield each line of a stream as soon as its line break has come."""
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (line.decode(errors="replace") for line in whole)
