"""Reliability: how often each lab passes, and how far its measures stay from their limits.

Everything is computed from recorded walks; nothing is measured here.
"""

import math
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

from pydantic import Field, computed_field

from faultlab.core.document import Finite
from faultlab.core.statistics import Share
from faultlab.lab import loader as labs
from faultlab.lab.limits import Bound
from faultlab.verify.walks import BURDENS, Kind, Limit, Walk, Walks

ENOUGH = 4.0  # standard deviations between a mean and its limit; chance crosses it once in 30,000


@dataclass(frozen=True)
class Distance:
    """The distance of a measure in a phase: the standard deviations between its values and a limit.

    Infinite: exact, without any spread. None: too few values. Below 0: on the wrong side.
    """

    phase: str
    kind: Kind
    measure: str
    values: int
    sigmas: Finite

    @computed_field  # type: ignore[prop-decorator]
    @property
    def text(self) -> str:
        """Return a text such as `12.3` or `exact`."""
        if self.sigmas is None:
            return "-"
        if math.isinf(self.sigmas):
            return "exact" if self.sigmas > 0 else "crossed"
        return f"{self.sigmas:.1f}" if self.sigmas < 100 else "> 99"


@dataclass(frozen=True)
class LabWalks:
    """The walks of one lab on one engine, for the state that the lab has today."""

    lab: str
    engine: str
    walks: tuple[Walk, ...]
    limits: tuple[Limit, ...]

    @property
    def name(self) -> str:
        """Return a name such as `mtu` or `conntrack (vm)`."""
        return f"{self.lab} (vm)" if self.engine == "vm" else self.lab

    def count(self, verdict: str) -> int:
        """Return the number of walks with this verdict."""
        return sum(walk.verdict == verdict for walk in self.walks)

    @property
    def passes(self) -> Share:
        """Return the share of passes of the walks that were decided."""
        passed = self.count("pass")
        return Share(passed + self.count("fail"), passed)

    @property
    def unknown(self) -> Share:
        """Return the share of unknowns of all walks."""
        return Share(len(self.walks), self.count("unknown"))

    @property
    def again(self) -> Share:
        """Return the share of looks that were taken again."""
        return Share(sum(w.looks for w in self.walks), sum(len(w.again) for w in self.walks))

    @property
    def seconds(self) -> tuple[float, float, float]:
        """Return the median, the shortest and the longest walk in seconds."""
        found = [walk.seconds for walk in self.walks]
        return statistics.median(found), min(found), max(found)

    @cached_property
    def distances(self) -> list[Distance]:
        """Return the distances of every measure in every phase."""
        return [_distance(limit, self.walks) for limit in self.limits]

    @cached_property
    def smallest(self) -> Distance | None:
        """Return the distance that chance crosses first; a cheat needs one failing measure only."""
        cheats: dict[str, list[Distance]] = {}
        for each in self.distances:
            if each.kind == "cheat":
                cheats.setdefault(each.phase, []).append(each)
        telling = [max(told, key=_far) for found in cheats.values() if (told := _known(found))]
        return smallest([*telling, *(d for d in self.distances if d.kind != "cheat")])

    @property
    def weak(self) -> bool:
        """Return whether it is closer to a limit than chance allows."""
        return self.smallest is not None and _far(self.smallest) < ENOUGH


@dataclass(frozen=True)
class Seconds:
    """How long walks took."""

    median: float
    shortest: float
    longest: float


@dataclass(frozen=True)
class RowFacts:
    """The walks of one lab on one engine, for a program."""

    lab: str
    engine: str
    walks: int
    pass_: Annotated[int, Field(alias="pass")]
    fail: int
    unknown: int
    interval: list[float]
    unknown_share: float
    seconds: Seconds
    looks: int
    again: int
    why_again: dict[str, int]
    weak: bool
    smallest: Distance | None
    distances: list[Distance]


@dataclass(frozen=True)
class Burden:
    """The other work of the machine, in the median walk and at most."""

    median: float
    most: float


@dataclass(frozen=True)
class Reliability:
    """All labs. `left_out`: walks of labs that have changed since."""

    labs: list[RowFacts]
    left_out: int
    again: dict[str, int]
    burdens: dict[str, Burden]


def rows(kept: Walks) -> tuple[list[LabWalks], int]:
    """Return a row for each lab and engine, and the number of walks of an older state of a lab."""
    found = []
    for lab_id in labs.ids():
        today = kept.of(lab_id)
        for engine in sorted({walk.engine for walk in today}):
            its = tuple(walk for walk in today if walk.engine == engine)
            found.append(LabWalks(lab_id, engine, its, tuple(kept.limits.get(lab_id, []))))
    return found, len(kept.walks) - sum(len(row.walks) for row in found)


def _distance(limit: Limit, walks: Iterable[Walk]) -> Distance:
    pairs = []
    for walk in walks:
        value, healthy = (walk.value(limit.measure, phase) for phase in (limit.phase, "healthy"))
        if value is not None and healthy is not None:
            pairs.append((value, healthy))
    far = sigmas(limit.bound, pairs, holds=limit.kind != "cheat")
    return Distance(limit.phase, limit.kind, limit.measure, len(pairs), far)


def smallest(found: Iterable[Distance]) -> Distance | None:
    """Return the smallest known distance; None if all are unknown."""
    return min(_known(found), key=_far, default=None)


def _known(found: Iterable[Distance]) -> list[Distance]:
    return [each for each in found if each.sigmas is not None]


def _far(each: Distance) -> float:
    return math.inf if each.sigmas is None else each.sigmas


def reasons(walks: Iterable[Walk]) -> Counter[str]:
    """Return the reasons why looks were taken again, without their figures."""
    return Counter(reason for walk in walks for text in walk.again for reason in _kinds(text))


def _kinds(text: str) -> Iterable[str]:
    for part in filter(None, text.split("; ")):
        name, measured, _ = part.partition(": measured ")
        yield f"{name}: not within a limit" if measured else re.sub(r"\d[\d.,]*", "…", part)


def burdens(walks: Sequence[Walk]) -> dict[str, tuple[float, float]]:
    """Return for each kind of other work the median of the walks' maxima, and the maximum."""
    found = {name: [w.most[name] for w in walks if name in w.most] for name in BURDENS}
    return {name: (statistics.median(each), max(each)) for name, each in found.items() if each}


def facts(kept: Walks) -> Reliability:
    """Return a row for each lab and engine, with all distances."""
    found, left = rows(kept)
    again = reasons(walk for row in found for walk in row.walks)
    burden = burdens([walk for row in found for walk in row.walks])
    return Reliability(
        [_row_facts(row) for row in found],
        left,
        dict(again.most_common()),
        {name: Burden(*each) for name, each in burden.items()},
    )


def _row_facts(row: LabWalks) -> RowFacts:
    return RowFacts(
        lab=row.lab,
        engine=row.engine,
        walks=len(row.walks),
        pass_=row.count("pass"),
        fail=row.count("fail"),
        unknown=row.count("unknown"),
        interval=[round(end / 100, 4) for end in row.passes.interval],
        unknown_share=row.unknown.happened / row.unknown.of,
        seconds=Seconds(*row.seconds),
        looks=row.again.of,
        again=row.again.happened,
        why_again=dict(reasons(row.walks).most_common()),
        weak=row.weak,
        smallest=row.smallest,
        distances=row.distances,
    )


Pair = tuple[float, float]  # a value, and the healthy value of the same run

FEW = 2  # values; fewer have no standard deviation


def sigmas(bound: Bound, pairs: Sequence[Pair], *, holds: bool = True) -> float | None:
    """Return the distance of the mean from the limit, positive on the side where it must be.

    `holds`: whether the limit must hold; for a cheat it must not. Returns None for too few values,
    and infinity if the values are exact, without any spread, or if the limit is beyond all numbers;
    below 0 if one of them is on the wrong side.
    """
    if len(pairs) < FEW:
        return None
    right = [bound.holds(value, healthy) is holds for value, healthy in pairs]
    exact = math.inf if all(right) else -math.inf
    values, limit = _scaled(bound, pairs)
    finite = [value for value in values if math.isfinite(value)]
    beyond = len(finite) < len(values)
    if bound.op == "exactly" or len(finite) < FEW or (beyond and not all(right)):
        return exact
    spread = statistics.stdev(finite)
    if spread <= abs(limit) * 1e-12:
        return exact
    apart = statistics.mean(finite) - limit
    upwards = (bound.op == "at least") is holds
    return (apart if upwards else -apart) / spread


def _scaled(bound: Bound, pairs: Sequence[Pair]) -> tuple[list[float], float]:
    """Return the values and the limit on the scale on which they are judged."""
    if not bound.times:
        return [value for value, _ in pairs], bound.limit
    ratios = [value / healthy if 0 < healthy < math.inf else math.nan for value, healthy in pairs]
    if bound.limit <= 0 or any(ratio <= 0 for ratio in ratios):
        return ratios, bound.limit
    return [math.log(ratio) for ratio in ratios], math.log(bound.limit)
