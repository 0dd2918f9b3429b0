"""Facts: TOML files, each read into a model that knows every key.

A mistake is told in one line with file, key and what was expected, and exits with 2.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from faultlab.core import paths
from faultlab.core.errors import BadInput


class Facts(BaseModel):
    """A table of such a file; a key that the model does not have is a mistake."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


F = TypeVar("F", bound=Facts)


def read(model: type[F], file: Path, page: str, **given: object) -> F:
    """Read and validate a file whose keys a page of docs/ lists. Raises BadInput.

    `given`: the keys that follow from where the file is, and that it cannot have.
    """
    where = paths.show(file)
    edit = f"edit {where}; docs/{page} lists the keys"
    try:
        found = tomllib.loads(file.read_text())
    except OSError as error:
        raise BadInput(f"{where}: {error.strerror}", f"see docs/{page}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{where}: not valid TOML: {error}", edit) from error
    place = "folder" if "folder" in given else "file"
    for key in [key for key in given if key in found]:
        raise BadInput(f"{where}: {key}: unknown key (the {place}'s name is the id)", edit)
    try:
        return model(**given, **found)
    except ValidationError as error:
        raise BadInput(f"{where}: {explain(error)}", edit) from error


def all_known(file: Path, page: str, named: Iterable[tuple[str, str, Collection[str]]]) -> None:
    """Raise BadInput for the first key with a word that is none of those known for it."""
    where = paths.show(file)
    for key, word, known in named:
        if word not in known:
            text = f"{where}: {key}: expected one of {', '.join(sorted(known))}, got {word!r}"
            raise BadInput(text, f"edit {where}; docs/{page} lists the keys")


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
