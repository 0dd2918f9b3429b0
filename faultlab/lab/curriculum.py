"""Curriculum: the best order of the labs: by track, and after the labs that they build on."""

from collections.abc import Mapping, Sequence

from faultlab.core.errors import BadInput
from faultlab.lab import collection
from faultlab.lab import loader as labs
from faultlab.lab.collection import Collection
from faultlab.lab.model import Lab


def labs_in_order() -> list[Lab]:
    """Return all labs in this order, collection by collection.

    Raises BadInput for needs that cannot be met.
    """
    return [lab for its in collection.every() for lab in of(its)]


def of(its: Collection) -> list[Lab]:
    """Return the labs of a collection in their order. Raises BadInput as `labs_in_order` does."""
    found = {lab_id: labs.load_in(its, lab_id) for lab_id in its.ids()}
    tracks = list(its.tracks)

    def place(lab: Lab) -> tuple[int, int, int, int, str]:
        depth = _depth(lab, found, ())
        return tracks.index(lab.track), depth, lab.difficulty, lab.minutes, lab.id

    return sorted(found.values(), key=place)


def tracks() -> list[str]:
    """Return the tracks of all collections, each once."""
    return [*dict.fromkeys(track for its in collection.every() for track in its.tracks)]


def heading(lab_id: str, track: str) -> str:
    """Return the title of the track that a lab is on, with the collection if it is another one."""
    its = collection.of(lab_id) or collection.ours()
    return its.tracks[track] if its.ours else f"{its.name}: {its.tracks[track]}"


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
        raise BadInput(f"{lab.id} needs itself, through {above[-1]}.", f"edit {lab.folder}")
    if unknown := [need for need in lab.needs if need not in found]:
        raise BadInput(f"{lab.id} needs {unknown[0]}, which is not a lab.", f"edit {lab.folder}")
    return max((1 + _depth(found[need], found, (*above, lab.id)) for need in lab.needs), default=0)
