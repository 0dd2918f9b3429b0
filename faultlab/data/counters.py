"""Counters: the fewest readings of a data set that tell all of its faults apart.

A reading is a series on a machine: of a counter its rate, of anything else its mean. It moves in a
fault if its value there is beyond all values of the same lab healthy and fixed, by more than the
distance between those and by more than a quarter. One that is only there in the fault goes up, and
one that is only there without it goes down. A reading that moves in a control is noise.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from pathlib import Path

from faultlab.core.errors import BadInput
from faultlab.core.terminal import Terminal
from faultlab.data import truth
from faultlab.data.openmetrics import UP, Metrics, Points, label, name_of
from faultlab.data.truth import Truth
from faultlab.run.phase import FAULTY

NOTHING = "nothing is wrong"
_MARGIN = 0.25
_GONE = 0.25  # of an item: what has no value in its last part is not there
_SERIES = 16  # of a metric on a machine; more than that are added up
_NODES = 20_000  # of the search for a smaller set
_LINES = 12  # of what cannot be told apart
Moves = dict[str, dict[str, int]]  # by reading and lab: 1 for up, -1 for down


@dataclass(frozen=True)
class Chosen:
    """A reading of the set, and the labs in which it goes up and down."""

    reading: str
    up: list[str]
    down: list[str]


@dataclass(frozen=True)
class Smallest:
    """The set. `at_least`: no smaller number can do; the set is the smallest if it has as many.

    `alike`: faults that no reading tells apart, and `unseen` those in which none moves. `readings`:
    those that were looked at; `noise`: those left out because they move in a control.
    """

    chosen: list[Chosen]
    at_least: int
    alike: list[list[str]]
    unseen: list[str]
    faults: int
    readings: int
    noise: int
    seconds: float


def show(term: Terminal, folder: Path, only: Path | None = None) -> Smallest:
    """Print the smallest set, of all metrics or of those in a file. Raises BadInput."""
    began = time.monotonic()
    items = truth.read(folder)
    names = _listed(only) if only else None
    with term.alive("counters", f"{len(items)} items"):
        read = {item.item: readings(truth.metrics(folder, item), names) for item in items}
        moves, looked, noise = moving(items, numbers(read))
        found = smallest(moves, sorted({item.lab for item in items if item.fault}))
    took = round(time.monotonic() - began, 1)
    said = Smallest(*found, readings=looked, noise=noise, seconds=took)
    _print(term, said, bool(only))
    return said


def _listed(file: Path) -> set[str]:
    try:
        lines = (line.split("#")[0].strip() for line in file.read_text().splitlines())
    except (OSError, ValueError) as error:
        raise BadInput(f"{file} cannot be read.", f"ls -l {file}") from error
    return {line for line in lines if line}


@dataclass(frozen=True)
class Value:
    """A reading in an item: its rate and its mean, and whether it never falls, or never changes."""

    rate: float
    mean: float
    grows: bool
    rests: bool
    kind: str

    def __add__(self, other: Value) -> Value:
        both = (self.rate + other.rate, self.mean + other.mean)
        return Value(*both, self.grows and other.grows, self.rests and other.rests, self.kind)


def readings(metrics: Metrics, names: set[str] | None) -> dict[str, Value]:
    """Return each reading of an item; `names`: of these metrics only."""
    count = Counter((name_of(each), label(each, "instance")) for each in metrics.series)
    ended = max((points[-1][0] for points in metrics.series.values()), default=0.0)
    began = min((points[0][0] for points in metrics.series.values()), default=0.0)
    late = ended - _GONE * (ended - began)
    found: dict[str, Value] = {}
    for series, points in metrics.series.items():
        name, machine = name_of(series), label(series, "instance")
        if name == UP or points[-1][0] < late or (names is not None and name not in names):
            continue
        many = count[name, machine] > _SERIES
        key = f'{name}{{instance="{machine}"}}' if many else series
        value = _value(points, metrics.kind(name))
        if math.isfinite(value.mean):
            found[key] = found[key] + value if key in found else value
    return found


def _value(points: Points, kind: str) -> Value:
    values = [value for _, value in points]
    seconds = points[-1][0] - points[0][0]
    return Value(
        rate=(values[-1] - values[0]) / seconds if seconds else 0.0,
        mean=sum(values) / len(values),
        grows=all(a <= b for a, b in pairwise(values)),
        rests=len({*values}) == 1,
        kind=kind,
    )


def numbers(every: Mapping[str, Mapping[str, Value]]) -> dict[str, dict[str, float]]:
    """Return a number of each reading by item: the rate of a counter, else the mean.

    Many exporters do not say what is a counter. Then it is one if it never falls in any item, and
    grows in one.
    """
    by_key: dict[str, list[Value]] = {}
    for its in every.values():
        for key, value in its.items():
            by_key.setdefault(key, []).append(value)
    rates = {key for key, values in by_key.items() if _counts(values)}
    return {
        item: {key: value.rate if key in rates else value.mean for key, value in its.items()}
        for item, its in every.items()
    }


def _counts(values: Sequence[Value]) -> bool:
    if values[0].kind != "unknown":
        return values[0].kind != "gauge"
    return all(value.grows for value in values) and not all(value.rests for value in values)


def moving(
    items: Sequence[Truth], values: Mapping[str, Mapping[str, float]]
) -> tuple[Moves, int, int]:
    """Return how each reading moves in each fault, the number of readings, and those of noise."""
    by_lab: dict[str, list[Truth]] = {}
    for item in items:
        by_lab.setdefault(item.lab, []).append(item)
    found: Moves = {}
    noise, every = set[str](), set[str]()
    for lab, its in by_lab.items():
        ill = [values[item.item] for item in its if item.phase == FAULTY]
        sound = [values[item.item] for item in its if item.phase != FAULTY]
        every |= {key for value in (*ill, *sound) for key in value}
        for key in {key for value in (*ill, *sound) for key in value} if ill and sound else ():
            way = _way(ill, sound, key)
            if way and not any(item.fault for item in its):
                noise.add(key)
            elif way:
                found.setdefault(key, {})[lab] = way
    return {key: its for key, its in found.items() if key not in noise}, len(every), len(noise)


Values = Sequence[Mapping[str, float]]


def _way(ill: Values, sound: Values, key: str) -> int:
    """Return 1 or -1 if all values of the fault are well above or below the sound ones, else 0."""
    there, before = ([each[key] for each in some if key in each] for some in (ill, sound))
    if len(there) < len(ill) or len(before) < len(sound):
        both = bool(there) and bool(before)
        return 0 if both else int(len(there) == len(ill)) - int(len(before) == len(sound))
    low, high = min(before), max(before)
    room = max(high - low, _MARGIN * max(abs(low), abs(high)))
    return int(min(there) > high + room) - int(max(there) < low - room)


Found = tuple[list[Chosen], int, list[list[str]], list[str], int]


def smallest(moves: Moves, faults: Sequence[str]) -> Found:
    """Return the chosen readings, the bound, what is alike, what is unseen, and how many faults."""
    states = [NOTHING, *faults]
    pairs = list(combinations(states, 2))
    covers: dict[int, str] = {}  # of the readings that tell the same pairs apart, the first by name
    for key in sorted(moves):
        its = moves[key]
        bits = sum(1 << n for n, (a, b) in enumerate(pairs) if its.get(a, 0) != its.get(b, 0))
        covers.setdefault(bits, key)
    told = 0
    for bits in covers:
        told |= bits
    search = _Search([bits for bits in covers if bits])
    best = search.run(told)
    chosen = []
    for key in sorted(covers[bits] for bits in best):
        ways = moves[key]
        up, down = ([lab for lab in faults if ways.get(lab) == way] for way in (1, -1))
        chosen.append(Chosen(key, up, down))
    apart = [pair for n, pair in enumerate(pairs) if not told >> n & 1]
    unseen = [b for a, b in apart if a == NOTHING]
    alike = [[a, b] for a, b in apart if a != NOTHING]
    return chosen, search.at_least, alike, unseen, len(faults)


class _Search:
    """The search for the fewest sets of bits that cover all: exact, if it needs few nodes."""

    def __init__(self, sets: Sequence[int]) -> None:
        self._sets = sets
        self._best: list[int] = []
        self._left = _NODES
        self.at_least = 0

    def run(self, wanted: int) -> list[int]:
        """Return the best cover that was found; `at_least` is then a bound for any."""
        bits = [1 << n for n in range(wanted.bit_length()) if wanted >> n & 1]
        # The part of each bit in a set that covers it: no set has more than 1 of these in all.
        self._having = {bit: [its for its in self._sets if its & bit] for bit in bits}
        self._part = {
            bit: 1 / max(its.bit_count() for its in having) for bit, having in self._having.items()
        }
        self._best = self._greedy(wanted)
        self._deepen(wanted, [])
        self.at_least = len(self._best) if self._left else self._bound(wanted)
        return self._best

    def _greedy(self, wanted: int) -> list[int]:
        found = []
        while wanted:
            found.append(max(self._sets, key=lambda its: (its & wanted).bit_count()))
            wanted &= ~found[-1]
        return found

    def _bound(self, wanted: int) -> int:
        """Return how many sets are needed at least: a dual of the cover as a linear program."""
        parts = sum(part for bit, part in self._part.items() if wanted & bit)
        return math.ceil(parts - 1e-9)

    def _deepen(self, wanted: int, chosen: list[int]) -> None:
        """Try all covers that begin with these, by the bit that has the fewest sets left."""
        if not wanted:
            self._best = [*chosen]
        if not wanted or not self._left or len(chosen) + self._bound(wanted) >= len(self._best):
            return
        self._left -= 1
        bits = (bit for bit in self._having if bit & wanted)
        rarest = min(bits, key=lambda bit: len(self._having[bit]))
        for its in sorted(self._having[rarest], key=lambda its: -(its & wanted).bit_count()):
            self._deepen(wanted & ~its, [*chosen, its])


def _print(term: Terminal, said: Smallest, listed: bool) -> None:
    rows = [
        [each.reading, ", ".join(each.up) or "-", ", ".join(each.down) or "-"]
        for each in said.chosen
    ]
    if rows:
        term.table(("reading", "goes up in", "goes down in"), rows)
        term.say()
    count = len(said.chosen)
    how = "no smaller set can" if count == said.at_least else f"{said.at_least} are needed at least"
    term.say(f"{count} readings tell {said.faults} faults apart as far as any do; {how}.")
    term.say(f"{said.readings} readings were looked at; {said.noise} move in a control.")
    if said.unseen:
        whose = "Your exporters cannot see" if listed else "No reading moves in"
        term.say(f"{whose}: {', '.join(said.unseen)}.")
    for pair in said.alike[:_LINES]:
        term.say(f"Not told apart: {pair[0]} and {pair[1]}.")
    if len(said.alike) > _LINES:
        term.say(f"... and {len(said.alike) - _LINES} more pairs; --json has all.")
