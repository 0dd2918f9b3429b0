"""Cpus: sets of CPUs as the kernel writes them: `0-2,5`."""

from collections.abc import Iterable
from itertools import groupby


def parse(text: str) -> frozenset[int]:
    """Return the numbers of such a list; an empty text has none. Raises ValueError."""
    ends = [part.partition("-") for part in text.strip().split(",") if part]
    return frozenset(
        n for first, _, last in ends for n in range(int(first), int(last or first) + 1)
    )


def show(numbers: Iterable[int]) -> str:
    """Return the list of these numbers."""
    runs = groupby(enumerate(sorted(numbers)), lambda pair: pair[1] - pair[0])
    ends = [[n for _, n in run] for _, run in runs]
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in ends)
