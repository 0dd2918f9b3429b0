"""Decoys: what looks like a fault and harms no user, from `decoys/ID.toml` of a collection.

`mtu~old-overflow` is the lab mtu with the decoy old-overflow. A severity that users do not feel is
a decoy, too: `mtu~somaxconn@600`.
"""

from __future__ import annotations

from collections.abc import Sequence

from faultlab.core import document, paths
from faultlab.core.errors import BadInput
from faultlab.lab import release
from faultlab.lab.collection import MARK, Collection, bare
from faultlab.lab.model import Decoy, Lab

_MANUAL = "docs/decoys.md"


def ids(its: Collection) -> list[str]:
    """Return the ids of a collection's decoys that have a file."""
    return sorted(file.stem for file in its.decoys.glob("*.toml"))


def read(its: Collection, decoy_id: str) -> Decoy:
    """Read a decoy. Raises BadInput with the file, the key and the expected value."""
    file = its.decoys / f"{decoy_id}.toml"
    if not file.is_file():
        known = ", ".join(ids(its)) or "this collection has none"
        raise BadInput(f"There is no decoy {decoy_id!r}; {known}.", "faultlab decoys")
    found = document.strict(Decoy, file, paths.show(file), _MANUAL, release.text, id=decoy_id)
    known_labs = [bare(lab_id) for lab_id in its.ids()]
    named = [("suggests", found.suggests, known_labs)]
    named += [(f"not_with[{i}]", name, known_labs) for i, name in enumerate(found.not_with)]
    document.all_known(named, paths.show(file), _MANUAL)
    return found


def silent(lab: Lab) -> Decoy:
    """Return the decoy that a lab is at a severity that its users do not feel."""
    return Decoy(
        id=bare(lab.id, dosed=True),
        title=f"A real fault, too weak to be felt: {bare(lab.id, dosed=True)}",
        kind="silent",
        why="Its dose is so small that no user is served worse.",
        suggests=bare(lab.id),
        daemons=lab.daemons,
        steps=lab.inject,
    )


def clash(decoy: Decoy, lab: Lab) -> str:
    """Return why a lab cannot have a decoy; empty if nothing is known against it."""
    needs = [*decoy.daemons, *(step.at for step in decoy.steps)]
    there = lab.services.needed(lab.daemons)
    if lacking := [name for name in needs if name not in there]:
        return f"it needs {lacking[0]}"
    its = {bare(name) for name in lab.of or [lab.id]}
    if decoy.suggests in its:
        return "it suggests the fault that is there"
    if others := sorted(its.intersection(decoy.not_with)):
        return f"it cannot be combined with {others[0]}"
    if decoy.suggests in {other.suggests for other in lab.decoys}:
        return "another one suggests the same fault"
    return ""


def among(lab: Lab, decoys: Sequence[Decoy]) -> Lab:
    """Return a lab with decoys. Raises BadInput if it cannot have one of them."""
    for decoy in decoys:
        if why := clash(decoy, lab):
            raise BadInput(f"{lab.id} cannot have the decoy {decoy.id}: {why}.", "faultlab decoys")
        names = {"id": f"{lab.id}{MARK}{decoy.id}", "neutral": f"{lab.code}{MARK}{decoy.id}"}
        lab = lab.model_copy(update={**names, "decoys": [*lab.decoys, decoy]})
    return lab
