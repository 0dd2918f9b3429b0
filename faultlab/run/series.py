"""Series: the timeline of a run as lines over one grid of seconds.

Counters become rates between two samples of the same machine. A counter that fell was restarted,
so it has no rate there. A line that is always 0 is left out.
"""

import json
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from faultlab.core.statistics import median
from faultlab.run.timeline import SECONDS

Line = list[float | None]
Numbers = Mapping[str, float]
Samples = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True)
class Chart:
    """One chart: lines with one unit over the same seconds."""

    title: str
    unit: str
    about: str
    lines: dict[str, Line] = field(default_factory=dict)


@dataclass(frozen=True)
class Kind:
    """How a number of the samples is shown: its chart, its name, its unit, its factor."""

    chart: str
    name: str
    of: str
    factor: float = 1.0
    counter: bool = True


_ABOUT = {
    "Processor time": ("%", "of one CPU; throttled: time in which the quota stopped it"),
    "Processors of the host": ("%", "of all CPUs together, with everything that runs on it"),
    "Memory": ("MB", "without file cache that the kernel can drop at once"),
    "Swapped out": ("MB", "of its memory"),
    "Network": ("Mbit/s", "of each machine's own interfaces"),
    "Packets lost or sent again": ("/s", "dropped by an interface; repeated by TCP"),
    "Accept queue overflows": ("/s", "connections that found the accept queue full"),
    "Sockets in TIME_WAIT": ("", "of each machine"),
    "Tracked connections": ("", "in the connection tracking table"),
    "PHP-FPM": ("", "busy workers, and connections that wait for one"),
    "Database: queries": ("/s", "that it received"),
    "Database: rows": ("/s", "that it read"),
}
_GAP = 60  # points of the grid
_NETWORK = (
    Kind("Network", "{} in", "rx_bytes", 8e-6),
    Kind("Network", "{} out", "tx_bytes", 8e-6),
    Kind("Packets lost or sent again", "{} dropped", "drops"),
    Kind("Packets lost or sent again", "{} sent again", "retransmits"),
    Kind("Accept queue overflows", "{}", "overflows"),
    Kind("Sockets in TIME_WAIT", "{}", "time_wait", counter=False),
    Kind("Tracked connections", "{}", "conntrack", counter=False),
)
_CONTAINER = (
    Kind("Processor time", "{}", "us+sy", 100),
    Kind("Processor time", "{} throttled", "throttled", 100),
    Kind("Memory", "{}", "memory", 1e-6, counter=False),
    Kind("Swapped out", "{}", "swap", 1e-6, counter=False),
    Kind("PHP-FPM", "{} busy", "active", counter=False),
    Kind("PHP-FPM", "{} waiting", "queue", counter=False),
    Kind("Database: queries", "{}", "queries"),
    Kind("Database: rows", "{}", "rows"),
)
_HOST = tuple(Kind("Processors of the host", name, name) for name in ("us", "sy", "si"))


def read(file: Path) -> Samples:
    """Return the samples by machine; lines that are truncated or no samples are skipped."""
    found: Samples = defaultdict(list)
    try:
        text = file.read_text()
    except OSError:
        return {}
    for line in text.splitlines():
        try:
            sample = json.loads(line)
            found[str(sample["machine"])].append(sample)
            float(sample["t"])
        except (ValueError, KeyError, TypeError):
            continue
    return dict(found)


def unit(title: str) -> str:
    """Return the unit of a chart."""
    return _ABOUT[title][0]


def pause(samples: Samples) -> float:
    """Return the usual time between two samples of a machine, in whole half seconds."""
    gaps = [b["t"] - a["t"] for each in samples.values() for a, b in pairwise(each)]
    return max(SECONDS, round(statistics.median(gaps) / SECONDS) * SECONDS) if gaps else SECONDS


def seconds(samples: Samples, also: Iterable[float] = ()) -> list[float]:
    """Return the grid, from the first sample to the last, with a point for each pause.

    `also`: other moments that it needs. A long time without either has one point, where every line
    is interrupted.
    """
    times = [sample["t"] for each in samples.values() for sample in each]
    if not times:
        return []
    step = pause(samples)
    points = sorted({round(t / step) for t in [*times, *also]})
    grid = points[:1]
    for before, after in pairwise(points):
        grid += range(before + 1, after) if after - before <= _GAP else [before + 1]
        grid.append(after)
    return [round(i * step, 3) for i in grid]


def charts(samples: Samples, also: Iterable[float] = ()) -> list[Chart]:
    """Return every chart that has something to show. `also`: see `seconds`."""
    grid = seconds(samples, also)
    step = pause(samples)
    place = {round(t / step): i for i, t in enumerate(grid)}
    made = {title: Chart(title, *about) for title, about in _ABOUT.items()}
    for kind, name, points in _points(samples):
        line: Line = [None] * len(grid)
        for t, value in points:
            line[place[round(t / step)]] = float(f"{value:.4g}")
        if any(line):
            made[kind.chart].lines[name] = line
    return [chart for chart in made.values() if chart.lines]


def _points(samples: Samples) -> Iterator[tuple[Kind, str, list[tuple[float, float]]]]:
    hosts = max(samples.values(), key=len, default=[])  # they all see the same host
    for kind in _HOST:
        yield kind, kind.name, list(_of_host(hosts, kind.of))
    for machine, each in samples.items():
        parts = [(sample["t"], sample.get("network", {})) for sample in each]
        for kind in _NETWORK:
            yield kind, kind.name.format(machine), list(_values(kind, parts))
        for role in {role: None for sample in each for role in sample.get("containers", {})}:
            parts = [(s["t"], s.get("containers", {}).get(role, {})) for s in each]
            for kind in _CONTAINER:
                yield kind, kind.name.format(role), list(_values(kind, parts))


def _values(kind: Kind, parts: Iterable[tuple[float, Numbers]]) -> Iterator[tuple[float, float]]:
    names = kind.of.split("+")
    before: tuple[float, float] | None = None
    for t, numbers in parts:
        if any(name not in numbers for name in names):
            before = None
            continue
        value = sum(numbers[name] for name in names)
        if not kind.counter:
            yield t, kind.factor * value
        elif before and value >= before[1] and t > before[0]:
            yield t, kind.factor * (value - before[1]) / (t - before[0])
        before = (t, value)


def _of_host(samples: Sequence[dict[str, Any]], name: str) -> Iterator[tuple[float, float]]:
    for before, after in pairwise(samples):
        spent = {key: after["host"][key] - before["host"].get(key, 0) for key in after["host"]}
        whole = sum(spent.values())
        if whole > 0 and name in spent:
            yield after["t"], 100 * max(0.0, spent[name]) / whole


def between(grid: Sequence[float], line: Line, begin: float, end: float) -> float | None:
    """Return the median of a line between two moments; None if it has no value there."""
    found = [v for t, v in zip(grid, line, strict=True) if v is not None and begin <= t <= end]
    return median(found)
