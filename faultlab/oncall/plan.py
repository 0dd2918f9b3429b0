"""Plan: which faults come in a shift, when, and for how long. It depends on the seed alone."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from faultlab.core.errors import BadInput
from faultlab.lab import checks, incident
from faultlab.lab import loader as labs
from faultlab.lab.collection import bare
from faultlab.lab.model import Lab

EACH = 600.0  # seconds of a shift for each fault that comes
MOST = 4  # different faults in one shift: each look looks for all of them
_LASTS = (240.0, 480.0)  # seconds that a fault stays if it is not repaired
_QUIET = (60.0, 240.0)  # seconds between the end of one and the next
_OVERLAPS = 0.4  # of the faults that may be there together with the one before
_WEAK = 0.5  # of the comings are at a weaker severity, where the fault has some


@dataclass(frozen=True)
class Coming:
    """One fault that comes: after how many seconds, at which severity, and for how long at most."""

    at: float
    fault: str
    lasts: float

    @property
    def ends(self) -> float:
        """Return after how many seconds it goes by itself."""
        return self.at + self.lasts


@dataclass(frozen=True)
class Plan:
    """The faults that come in a shift of so many seconds, by its seed."""

    seed: int
    seconds: float
    comings: list[Coming]

    @property
    def kinds(self) -> list[str]:
        """Return the labs whose faults come, each once."""
        return [*dict.fromkeys(bare(coming.fault) for coming in self.comings)]


def drawn(
    pool: Sequence[Lab], seconds: float, seed: int, pairs: Collection[frozenset[str]]
) -> Plan:
    """Return the plan of a shift. Raises BadInput for one that is too short for two faults.

    `pairs`: the faults that were proven together; only these overlap. At least one fault returns.
    """
    number = int(seconds // EACH)
    if number < 2:
        least = 2 * EACH / 3600
        raise BadInput(f"A shift takes {least:.2g} hours or more.", "faultlab oncall --help")
    chance = random.Random(seed)
    kinds = _that_fit(pool, min(MOST, number - 1), chance)
    order = [*kinds]
    while len(order) < number:
        order.append(chance.choice([lab for lab in kinds if lab is not order[-1]] or kinds))
    found: list[Coming] = []
    at = chance.uniform(*_QUIET)
    for i, lab in enumerate(order):
        # Where the look itself follows the dose, a shift looks with that of the strongest.
        rows = [lab] if checks.follows_dose(lab) else [r for r in labs.rows(lab) if not r.silent]
        its = chance.choice(rows) if chance.random() < _WEAK else rows[0]
        lasts = chance.uniform(*_LASTS)
        if at + lasts > seconds:
            break
        found.append(Coming(round(at, 1), bare(its.id, dosed=True), round(lasts, 1)))
        after = order[i + 1 : i + 2]
        both = {frozenset((bare(lab.id), bare(each.id))) for each in after}
        overlaps = bool(both & {*pairs}) and chance.random() < _OVERLAPS
        at += 0.5 * lasts if overlaps else lasts + chance.uniform(*_QUIET)
        at = max([at, *(coming.ends + _QUIET[0] for coming in found[:-1])])  # never three at once
    return Plan(seed, seconds, found)


def _that_fit(pool: Sequence[Lab], most: int, chance: random.Random) -> list[Lab]:
    """Return so many labs that can share one stack. Raises BadInput for fewer than one."""
    left, found = [*pool], list[Lab]()
    chance.shuffle(left)
    for lab in left:
        if len(found) < most and not any(incident.clash(lab, other) for other in found):
            found.append(lab)
    if not found:
        raise BadInput("None of these labs can be part of a shift.", "faultlab list --together")
    return found
