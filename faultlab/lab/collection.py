"""Collection: a folder with labs, and all that they share: a stack, images and checks.

The labs that faultlab brings are the first one, and their ids have no prefix. All others are
`NAME/LAB`. They are found in the folders of FAULTLAB_PATH, among those of `faultlab add`, and by
the entry points of installed packages.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import Field, field_validator

from faultlab import __version__
from faultlab.core import document, paths
from faultlab.core.document import Strict
from faultlab.core.errors import BadInput
from faultlab.core.naming import flat
from faultlab.lab.severity import AT

FILE = "collection.toml"
MARK = "~"  # between a lab and its decoys
CHECK = "check.py"  # the check of a lab, in its folder
PATH = "FAULTLAB_PATH"  # folders of collections, with a colon between two
GROUP = "faultlab.collections"  # of entry points
MANUAL = "docs/adding-a-collection.md"
WORD = r"^[a-z][a-z0-9-]*$"


class Collection(Strict):
    """The facts that the labs of one folder share, as its `collection.toml` gives them.

    `ours`: faultlab brings it, so its labs have no prefix. `faultlab`: the version that it needs.
    `client`: the machine from which users come. `control`: a lab in which nothing is wrong.
    `tracks`: each with its title, in the order of the path.
    """

    root: Annotated[Path, Field(exclude=True)]
    ours: Annotated[bool, Field(exclude=True)] = False
    name: Annotated[str, Field(pattern=WORD)]
    faultlab: Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)*$")]
    client: Annotated[str, Field(pattern=WORD)] = "client"
    control: str = ""
    tiers: Annotated[list[str], Field(min_length=1)]
    tracks: Annotated[dict[str, str], Field(min_length=1)]

    def __hash__(self) -> int:
        """Let what is read from its files be kept."""
        return hash(self.root)

    @field_validator("faultlab")
    @classmethod
    def _is_here(cls, wanted: str) -> str:
        if _numbers(wanted) > _numbers(__version__):
            raise ValueError(f"expected at most {__version__}, got {wanted!r}")
        return wanted

    def id_of(self, name: str) -> str:
        """Return the id of the lab, or the full name of the image, in a folder of this name."""
        return name if self.ours else f"{self.name}/{name}"

    def ids(self) -> list[str]:
        """Return the ids of its labs. A folder that starts with `_` or `.` is not a lab."""
        if not self.labs.is_dir():
            hint = "cd to the project, or unset FAULTLAB_ROOT" if self.ours else f"see {MANUAL}"
            raise BadInput(f"There is no folder {self.labs}.", hint)
        names = [each.name for each in self.labs.iterdir() if each.is_dir()]
        return sorted(self.id_of(name) for name in names if name[0] not in "_.")

    @property
    def labs(self) -> Path:
        """The folder that holds a folder for each lab."""
        return self.root / "labs"

    @property
    def checks(self) -> Path:
        """The folder with the checks that are not in the folders of their labs."""
        return self.root / "checks"

    @property
    def decoys(self) -> Path:
        """The folder with its decoys; it may be missing."""
        return self.root / "decoys"

    @property
    def stack(self) -> Path:
        """The compose file of its machines and daemons."""
        own = self.root / "stack.yaml"
        return own if own.is_file() else self.labs / "stack.yaml"

    def folder(self, lab_id: str) -> Path:
        """Return the folder of one of its labs."""
        return self.labs / bare(lab_id)

    def check(self, lab_id: str) -> Path:
        """Return the check file of one of its labs; it may be missing."""
        within = self.folder(lab_id) / CHECK
        if within.is_file() or not self.checks.is_dir():
            return within
        return self.checks / f"test_{bare(lab_id).replace('-', '_')}.py"

    def image(self, name: str) -> str:
        """Return the full name of an image in its stack: its own, else one of faultlab."""
        return self.id_of(name) if self.image_folder(name).parent.parent == self.root else name

    def image_folder(self, name: str) -> Path:
        """Return the folder of an image in its stack: its own, else one of faultlab."""
        own = self.root / "images" / name
        return own if (own / "Dockerfile").is_file() else paths.images() / name

    def images(self) -> list[str]:
        """Return the images that its stack can use, by the names that they have there."""
        folders = {self.root / "images", paths.images()}
        return sorted({file.parent.name for each in folders for file in each.glob("*/Dockerfile")})


def bare(lab_id: str, *, dosed: bool = False) -> str:
    """Return the name of a lab in its collection; `dosed`: with its severity and decoys."""
    name = lab_id.rpartition("/")[2]
    return name if dosed else re.split(f"[{AT}{MARK}]", name)[0]


def ours() -> Collection:
    """Return the collection that faultlab brings."""
    return _read(paths.root(), ours=True)


def others() -> list[Collection]:
    """Return all other collections. Raises BadInput for two of one name."""
    found: dict[str, Collection] = {}
    for folder in dict.fromkeys(each.resolve() for each in _folders()):
        its = read(folder)
        if its.name in found:
            both = f"{found[its.name].root} and {folder}"
            raise BadInput(f"Two collections have the name {its.name!r}: {both}.", f"env {PATH}=")
        found[its.name] = its
    return [*found.values()]


def every() -> list[Collection]:
    """Return all collections, that of faultlab first. Raises BadInput for two labs alike."""
    found = [ours(), *others()]
    names: dict[str, str] = {}
    for lab_id in (lab_id for its in found for lab_id in its.ids()):
        if (other := names.setdefault(flat(lab_id), lab_id)) != lab_id:
            raise BadInput(
                f"The labs {other} and {lab_id} would have stacks of one name: {flat(lab_id)}.",
                f"env {PATH}=, or rename one of them",
            )
    return found


def of(lab_id: str) -> Collection | None:
    """Return the collection that a lab with this id would be in; None if it is not here."""
    name, _, _ = lab_id.rpartition("/")
    if not name:
        return ours()
    return next((each for each in others() if each.name == name), None)


def read(root: Path) -> Collection:
    """Read the collection in a folder. Raises BadInput with the file, the key and the value."""
    its = _read(root, ours=root.resolve() == paths.root().resolve())
    if its.name == ours().name and not its.ours:
        where = paths.show(root / FILE)
        raise BadInput(f"{where}: name: expected another name, got {its.name!r}", f"edit {where}")
    return its


def _read(root: Path, ours: bool) -> Collection:
    file = root / FILE
    return document.strict(Collection, file, paths.show(file), MANUAL, root=root, ours=ours)


def added() -> Path:
    """Return the folder with the collections that `faultlab add` has cloned."""
    return paths.of_user() / "collections"


def _folders() -> Iterator[Path]:
    for name in filter(None, os.environ.get(PATH, "").split(":")):
        if not Path(name).is_absolute():  # some commands are started in another folder
            what = f"{PATH}: expected paths from / on, got {name!r}."
            raise BadInput(what, f"export {PATH}={Path(name).absolute()}")
        yield Path(name)
    with suppress(OSError):
        yield from sorted(file.parent for file in added().glob(f"[!.]*/{FILE}"))
    yield from _installed()


@cache
def _installed() -> tuple[Path, ...]:
    """Return the folders that installed packages name."""
    named = [folder for folder in sys.path if folder and _names_some(Path(folder))]
    if not named:
        return ()  # to import the next module takes longer than to look
    from importlib.metadata import entry_points

    loaded = [point.load() for point in entry_points(group=GROUP)]
    return tuple(Path(each() if callable(each) else each) for each in loaded)


def _names_some(folder: Path) -> bool:
    files = folder.glob("*.*-info/entry_points.txt")
    return any(f"[{GROUP}]" in file.read_text() for file in files)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())
