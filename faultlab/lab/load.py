"""Find, read and check the folders of labs.

A mistake in a folder is told in one line with file, key and what was expected, and exits with 2.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from faultlab.core import paths
from faultlab.core.defaults import MYSTERY
from faultlab.core.errors import BadInput
from faultlab.lab.abilities import ABILITIES
from faultlab.lab.model import KERNEL, Lab, Truth


def ids() -> list[str]:
    """The labs of this project, by name. A folder that starts with `_` or `.` is none."""
    folder = paths.labs()
    if not folder.is_dir():
        raise BadInput(f"There is no folder {folder}.", "cd to the project, or unset FAULTLAB_ROOT")
    return sorted(p.name for p in folder.iterdir() if p.is_dir() and p.name[0] not in "_.")


def load(lab_id: str) -> Lab:
    """Read and validate one lab. Raises BadInput with the file, the key and what was expected."""
    known(lab_id)
    return load_folder(paths.labs() / lab_id)


def truths(lab: Lab) -> list[Truth]:
    """Return the truths that a diagnosis may name; of several faults also those of their labs."""
    return [lab.truth, *(load(twin).truth for twin in lab.twins if lab.stages)]


def known(lab_id: str) -> None:
    """Raise BadInput, with the nearest name, when there is no such lab."""
    if lab_id not in (*ids(), MYSTERY):
        near = difflib.get_close_matches(lab_id, ids(), n=1, cutoff=0.5)
        raise BadInput(
            f"There is no lab called {lab_id!r}" + (f"; did you mean {near[0]}?" if near else "."),
            f"faultlab start {near[0]}" if near else "faultlab list",
        )


def load_folder(folder: Path) -> Lab:
    """Read and validate the lab in a folder, whatever it is called."""
    file = folder / "lab.toml"
    for needed in ("lab.toml", "ticket.md", "README.md"):
        if not (folder / needed).is_file():
            raise BadInput(
                f"{paths.show(folder / needed)}: missing file;"
                " a lab has lab.toml, ticket.md, README.md",
                "see docs/adding-a-lab.md",
            )
    try:
        facts: dict[str, Any] = tomllib.loads(file.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{paths.show(file)}: not valid TOML: {error}", _edit(file)) from error
    for key in ("id", "folder"):
        if key in facts:
            raise BadInput(
                f"{paths.show(file)}: {key}: unknown key (the folder's name is the id)", _edit(file)
            )
    try:
        lab = Lab(id=folder.name, alias=folder.name, folder=folder, **facts)
    except ValidationError as error:
        raise BadInput(f"{paths.show(file)}: {explain(error)}", _edit(file)) from error
    _check_places(lab, file)
    return lab


def _check_places(lab: Lab, file: Path) -> None:
    """Daemons, abilities and places must be known ones."""
    stack = lab.services
    named = [(f"daemons[{i}]", name, [*stack.daemons]) for i, name in enumerate(lab.daemons)]
    named += [(f"requires[{i}]", name, [*ABILITIES]) for i, name in enumerate(lab.requires)]
    _all_known(named, file)
    places = [*stack.needed(lab.daemons), *([KERNEL] if lab.scope == "kernel" else [])]
    steps = [(f"{key}.at", step) for key, step in lab.steps()]
    _all_known(
        [(key, s.at, places if s.run is not None else lab.daemons) for key, s in steps], file
    )


def _all_known(named: list[tuple[str, str, list[str]]], file: Path) -> None:
    for key, name, known in named:
        if name not in known:
            text = f"{key}: expected one of {', '.join(sorted(known))}, got {name!r}"
            raise BadInput(f"{paths.show(file)}: {text}", _edit(file))


def explain(error: ValidationError) -> str:
    """The first mistake as `key: what was expected`."""
    first = error.errors()[0]
    key = re.sub(r"\.(\d+)", r"[\1]", ".".join(str(part) for part in first["loc"]))
    match first["type"]:
        case "extra_forbidden":
            return f"{key}: unknown key"
        case "missing":
            return f"{key}: missing key"
        case "value_error":
            return f"{key + ': ' if key else ''}{first['ctx']['error']!s}"
    expected = first["msg"].replace("Input should be", "expected")
    return f"{key}: {expected}, got {first['input']!r}"


def _edit(file: Path) -> str:
    return f"edit {paths.show(file)}; docs/adding-a-lab.md lists the keys"
