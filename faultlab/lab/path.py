"""Path: the best order of the labs: by track, and after the labs that they build on."""

from collections.abc import Mapping, Sequence

from faultlab.core import paths
from faultlab.core.errors import BadInput
from faultlab.lab import load as labs
from faultlab.lab.model import Lab

# Each track with its title, in the order of the path.
TRACKS = {
    "packets": "Packets",
    "queues": "Queues and ports",
    "memory": "Memory and CPUs",
    "queries": "Queries",
    "bytes": "Bytes",
}


def ordered() -> list[Lab]:
    """Return all labs in the order of the path. Raises BadInput for needs that cannot be met."""
    found = {lab_id: labs.load_folder(paths.labs() / lab_id) for lab_id in labs.ids()}
    tracks = list(TRACKS)

    def place(lab: Lab) -> tuple[int, int, int, int, str]:
        depth = _depth(lab, found, ())
        return tracks.index(lab.track), depth, lab.difficulty, lab.minutes, lab.id

    return sorted(found.values(), key=place)


def narrowed(labs: Sequence[Lab], tier: str | None, level: int | None) -> list[Lab]:
    """Return the labs of a tier and up to a level. Raises BadInput if no fault is among them."""
    found = [
        lab
        for lab in labs
        if tier in (None, lab.tier) and (level is None or lab.difficulty <= level)
    ]
    if all(lab.control for lab in found):
        asked = [f"of tier {tier}"] if tier else []
        asked += [f"of level {level} or below"] if level is not None else []
        tiers = sorted({lab.tier for lab in labs if not lab.control})
        raise BadInput(
            f"No lab is {' and '.join(asked)}; tiers: {', '.join(tiers)}.", "faultlab list"
        )
    return found


def _depth(lab: Lab, found: Mapping[str, Lab], above: tuple[str, ...]) -> int:
    """Return the length of the longest chain of labs that come before this one."""
    if lab.id in above:
        raise BadInput(f"{lab.id} needs itself, by way of {above[-1]}.", f"edit {lab.folder}")
    if unknown := [need for need in lab.needs if need not in found]:
        raise BadInput(f"{lab.id} needs {unknown[0]}, which is no lab.", f"edit {lab.folder}")
    return max((1 + _depth(found[need], found, (*above, lab.id)) for need in lab.needs), default=0)
