"""Numbers: the names of labs for those who must not know yet what is wrong: `2`, or `p02`.

The id of a lab names its cause, and its number tells nothing. A number is read wherever the name of
a lab is, also in `12@7`, `p02+b47` and `2~old-overflow`. No other module knows how it is written.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from faultlab.core import document
from faultlab.lab import collection
from faultlab.lab.collection import Collection, bare

# A lab in such a name. What follows a `~` is one only if it has a dose.
_LAB = re.compile(r"(?:(?<![^/+])|(?<=~)(?=[^~]*@))[a-z0-9-]+(?![^@+~])")
_NUMBER = re.compile(r"([a-z]?)0*([0-9]+)")


@dataclass(frozen=True)
class Numbered:
    """A lab with a number. `lab`: the name of its folder. `letter`: of its track."""

    lab: str
    number: int
    letter: str

    @property
    def code(self) -> str:
        """The neutral name of the lab in its collection."""
        return f"{self.letter}{self.number:02}"


def read(folder: Path) -> Numbered | None:
    """Return the lab in a folder if it has a number, also where its lab.toml has a mistake."""
    facts = document.readable(folder / "lab.toml")
    number, track = facts.get("number"), facts.get("track")
    if isinstance(number, int) and isinstance(track, str) and track:
        return Numbered(folder.name, number, track[0])
    return None


def of(its: Collection) -> Iterator[Numbered]:
    """Yield the labs of a collection that have a number."""
    yield from filter(None, (read(its.folder(lab_id)) for lab_id in its.ids()))


def names() -> list[str]:
    """Return each name that a stack of one lab can have: all ids, and all that have a number."""
    found = []
    for its in collection.every():
        found += [*its.ids(), *(its.id_of(each.code) for each in of(its))]
    return found


def real(name: str) -> str:
    """Return a name with the id of each lab in it. A number that no lab has stays."""
    its = collection.of(name)
    if its is None or not any(_NUMBER.fullmatch(word[0]) for word in _LAB.finditer(name)):
        return name
    every, ids = [*of(its)], {bare(lab_id) for lab_id in its.ids()}

    def lab(word: re.Match[str]) -> str:
        said = _NUMBER.fullmatch(word[0])
        if said is None or word[0] in ids:
            return word[0]
        fits = (x.lab for x in every if said[2] == str(x.number) and said[1] in ("", x.letter))
        return next(fits, word[0])

    return _LAB.sub(lab, name)


def spelled(name: str) -> str:
    """Return a name that has a number as we write it, `p02+b47`; another name as it is."""
    lab_id = real(name)
    return name if lab_id == name else other(lab_id)


def other(name: str) -> str:
    """Return the same name with ids for numbers or, if it has none, with numbers for ids."""
    lab_id, its = real(name), collection.of(name)
    if its is None or lab_id != name:
        return lab_id
    codes = {each.lab: each.code for each in of(its)}
    return _LAB.sub(lambda word: codes.get(word[0], word[0]), name)
