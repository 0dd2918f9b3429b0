"""Find, read and check the folders of labs.

A mistake in a folder is reported in one line with the file, the key and the expected value. The
exit code is 2.
"""

import difflib
from collections.abc import Container, Sequence
from contextlib import suppress
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

from faultlab.core import document, paths
from faultlab.core.defaults import EXAM, MYSTERY, ONCALL
from faultlab.core.errors import BadInput
from faultlab.lab import collection, decoys, incident, numbers, release
from faultlab.lab.abilities import ABILITIES
from faultlab.lab.collection import MARK, Collection, bare
from faultlab.lab.model import KERNEL, Decoy, Lab, Sign, Step, Truth
from faultlab.lab.repair import Repair, Repairs
from faultlab.lab.severity import AT

AND = "+"  # between labs whose faults are to be there at once
_MANUAL = "docs/adding-a-lab.md"


def ids() -> list[str]:
    """Return the ids of all labs, those of faultlab first."""
    return [lab_id for its in collection.every() for lab_id in its.ids()]


def ours() -> list[str]:
    """Return the ids of the labs that faultlab brings, of which its documents speak."""
    return collection.ours().ids()


def load(lab_id: str) -> Lab:
    """Read and validate one lab. Raises BadInput with the file, the key and the expected value."""
    return load_in(*_known(lab_id))


def asked(name: str) -> Lab:
    """Return a lab as it was asked for: under its number if the name has one. Raises BadInput."""
    return load(name).asked(by_number=numbers.real(name) != name)


def load_in(its: Collection, lab_id: str) -> Lab:
    """Read and validate a lab of a collection, at its severity. Raises BadInput as `load` does."""
    if MARK in lab_id:
        name, *wanted = lab_id.split(MARK)
        return decoys.among(load_in(its, name), [decoy(its, each) for each in wanted])
    if AND in lab_id:
        return _put_together(its, bare(lab_id, dosed=True).split(AND))
    _, at, dose = lab_id.partition(AT)
    lab = load_folder(its.folder(lab_id), its)
    if not at or (lab.severity[:1] and dose == lab.severity[0].name):
        return lab
    names = [row.name for row in lab.severity]
    if dose not in names:
        known = f"it has {', '.join(names)}" if names else "it has only one strength"
        raise BadInput(f"{lab.id} has no severity {dose!r}; {known}.", "faultlab list --severities")
    return load_folder(its.folder(lab_id), its, dose)


def decoy(its: Collection, name: str) -> Decoy:
    """Return a decoy of a collection. Raises BadInput."""
    if AT not in name:
        found = decoys.read(its, name)
        load_in(its, found.suggests)
        return found
    lab = load_in(its, name)
    if not lab.silent:
        raise BadInput(f"Users feel {lab.id}, so it is not a decoy.", "faultlab decoys")
    return decoys.silent(lab)


def decoy_ids(its: Collection) -> list[str]:
    """Return the ids of a collection's decoys: those with a file, and its silent severities."""
    every = (load_in(its, lab_id) for lab_id in its.ids())
    weak = [row for lab in every if lab.severity for row in rows(lab) if row.silent]
    return [*decoys.ids(its), *(bare(row.id, dosed=True) for row in weak)]


def _put_together(its: Collection, names: Sequence[str]) -> Lab:
    """Return a lab that has the faults of these labs at once. Raises BadInput if that cannot be."""
    parts = [load_in(its, name) for name in names]
    for part in parts:
        if len(part.faults) != 1:
            why = "has several faults itself" if part.several else "has no fault"
            raise BadInput(f"{part.id} {why}, so it cannot be a part.", f"faultlab start {part.id}")
    for one, other in combinations(parts, 2):
        if why := incident.clash(one, other):
            starts = f"faultlab start {one.id}, later faultlab start {other.id}"
            raise BadInput(f"{one.id} and {other.id} cannot be combined: {why}.", starts)
    return Lab(
        id=its.id_of(AND.join(bare(part.id, dosed=True) for part in parts)),
        neutral=its.id_of(AND.join(bare(part.code, dosed=True) for part in parts)),
        folder=parts[0].folder,
        folders=[part.folder for part in parts],
        collection=its,
        of=[bare(part.id, dosed=True) for part in parts],
        **incident.facts(parts),
        **incident.texts(parts),
    )


def rows(lab: Lab) -> list[Lab]:
    """Return a lab at each of its severities, the strongest first; the lab alone if it has one."""
    names = [f"{bare(lab.id)}{AT}{row.name}" for row in lab.severity]
    return [load_in(lab.collection, name) for name in names] or [lab]


@cache
def loaded(lab_id: str) -> Lab:
    """Return a lab as `asked`, read only once: each view of a page asks for it, and each trial."""
    return asked(lab_id)


def chosen(lab_ids: Sequence[str], everything: bool, verb: str) -> list[Lab]:
    """Return the labs that a verb was given, or all. Raises BadInput for both and for neither."""
    if bool(lab_ids) == everything:
        raise BadInput("Name some labs, or say --all.", f"faultlab {verb} --help")
    named = map(numbers.real, lab_ids)
    return [load(lab_id) for lab_id in (ids() if everything else dict.fromkeys(named))]


def suggested(lab: Lab, decoy: Decoy) -> Truth:
    """Return the wrong answer that a decoy of this lab suggests."""
    return load_in(lab.collection, decoy.suggests).truth


def taken(lab: Lab, causes: Container[str]) -> list[str]:
    """Return the decoys of a lab that one of these causes has taken for its fault."""
    return [decoy.id for decoy in lab.decoys if suggested(lab, decoy).cause in causes]


def truths(lab: Lab) -> list[Truth]:
    """Return the truths that a diagnosis can name: the lab's, and those of its faults."""
    return [*dict.fromkeys([lab.truth, *(fault.truth for fault in lab.fault)])]


def known(lab_id: str) -> None:
    """Raise BadInput, with the nearest name, if there is no such lab."""
    if lab_id not in (MYSTERY, ONCALL, EXAM):
        _known(lab_id)


def here(lab_id: str) -> bool:
    """Return whether there is such a lab."""
    with suppress(BadInput):
        its, name = _known(lab_id)
        if {AT, AND, MARK} & {*name}:
            load_in(its, name)
        return True
    return False


def _known(lab_id: str) -> tuple[Collection, str]:
    """Return the collection of a lab, and its id. Raises BadInput."""
    lab_id = numbers.real(lab_id)
    before, slash, names = lab_id.rpartition("/")
    for each in names.split(AND)[1:]:
        _known(before + slash + each)
    its, name = collection.ours(), before + slash + bare(names).partition(AND)[0]
    if name in its.ids():  # most are, and then the others need not be read
        return its, lab_id
    every = ids()
    if name in every:
        return next(each for each in collection.others() if name in each.ids()), lab_id
    near = difflib.get_close_matches(name, every, n=1, cutoff=0.6)
    raise BadInput(
        f"There is no lab called {lab_id!r}" + (f"; did you mean {near[0]}?" if near else "."),
        f"faultlab start {near[0]}" if near else "faultlab list",
    )


def hardest(lab: Lab) -> Lab:
    """Return a lab at the weakest severity that its users feel."""
    return [one for one in rows(lab) if not one.silent][-1]


def load_folder(folder: Path, its: Collection | None = None, dose: str = "") -> Lab:
    """Read and validate the lab in a folder, which can have any name; of faultlab by default.

    `dose`: one of its severities, not the first.
    """
    its = its or collection.ours()
    file = folder / "lab.toml"
    for needed in ("lab.toml", "ticket.md", "README.md"):
        if not (folder / needed).is_file():
            raise BadInput(
                f"{paths.show(folder / needed)}: missing file;"
                " a lab has lab.toml, ticket.md, README.md",
                "see docs/adding-a-lab.md",
            )
    name = its.id_of(folder.name) + (AT + dose if dose else "")
    own = {"id": name, "folder": folder, "collection": its, "dose": dose}
    own |= {"blind": None, "by_number": False, "folders": [], "decoys": []}
    number = numbers.read(folder)
    neutral = its.id_of(number.code if number else folder.name)
    own |= {"neutral": neutral + (AT + dose if dose else "")}
    whole = {**own, **_composed(file, its)}
    lab = document.strict(Lab, file, paths.show(file), _MANUAL, release.text, **whole)
    _check_places(lab, file)
    named = {key: [*map(its.id_of, getattr(lab, key))] for key in ("of", "needs", "twins")}
    return lab if its.ours else lab.model_copy(update=named)


def _composed(file: Path, its: Collection) -> dict[str, Any]:
    """Return what a lab has from the labs whose faults are its own; empty without `of`."""
    of = _of(file)
    if not of:
        return {}
    others = [bare(lab_id) for lab_id in its.ids()]
    others.remove(file.parent.name)
    alone = [name for name in others if not _of(its.labs / name / "lab.toml")]
    named = [(f"of[{i}]", each, alone) for i, each in enumerate(of)]
    document.all_known(named, paths.show(file), _MANUAL)
    return incident.facts([load_in(its, each) for each in of])


def _of(file: Path) -> list[str]:
    """Return the key `of` of a lab.toml that can be read; else the reader reports it."""
    found = document.readable(file).get("of")
    return [str(each) for each in found] if isinstance(found, list) else []


def repairs(lab: Lab) -> list[Repair]:
    """Return the repairs in a lab's repairs.toml, none without the file. Raises BadInput."""
    file = lab.folder / "repairs.toml"
    if lab.folders or not file.is_file():
        return []
    numbers = lab.dose.numbers if lab.dose else {}
    found = document.strict(
        Repairs, file, paths.show(file), _MANUAL, release.text, numbers=numbers
    ).repair
    steps = [
        (f"repair[{i}].steps[{j}]", step)
        for i, repair in enumerate(found)
        for j, step in enumerate(repair.steps)
    ]
    signs = [(f"repair[{i}].when", each.when) for i, each in enumerate(found) if each.when]
    _check_steps(lab, file, steps, signs)
    return found


def _check_places(lab: Lab, file: Path) -> None:
    """Check that daemons, abilities and places are known. Raises BadInput."""
    daemons = [*lab.services.daemons]
    named = [(f"daemons[{i}]", name, daemons) for i, name in enumerate(lab.daemons)]
    named += [(f"requires[{i}]", name, [*ABILITIES]) for i, name in enumerate(lab.requires)]
    its = lab.collection
    named += [("tier", lab.tier, its.tiers), ("track", lab.track, [*its.tracks])]
    document.all_known(named, paths.show(file), _MANUAL)
    signs = [(f"hint[{i}].when", rung.when) for i, rung in enumerate(lab.hint) if rung.when]
    _check_steps(lab, file, lab.steps(), signs)


def _check_steps(
    lab: Lab, file: Path, steps: Sequence[tuple[str, Step]], signs: Sequence[tuple[str, Sign]]
) -> None:
    """Check that steps and signs, each with its key, are where something is. Raises BadInput."""
    needed = lab.services.needed(lab.daemons)
    places = [*needed, *([KERNEL] if lab.scope == "kernel" else [])]
    found = [
        (f"{key}.at", step.at, places if step.run is not None else lab.daemons)
        for key, step in steps
    ]
    found += [(f"{key}.at", sign.at, needed) for key, sign in signs]
    document.all_known(found, paths.show(file), _MANUAL)
