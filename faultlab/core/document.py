"""Document: strict reading of JSON files from faultlab and of TOML files from people.

A mistake is reported in one line with the file, the key and the expected value.
"""

import json
import re
import tomllib
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from functools import lru_cache
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, PlainSerializer, TypeAdapter, ValidationError

from faultlab.core import paths
from faultlab.core.errors import BadInput

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)


# A number that can be infinite or unknown; JSON has no word for the first, so both become null.
Finite = Annotated[
    float | None,
    PlainSerializer(
        lambda number: number if number is not None and isfinite(number) else None,
        return_type=float | None,
    ),
]


class Strict(BaseModel):
    """A table of a TOML file, without other keys or types, and immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def read(
    file: Path,
    schema: int,
    missing: BadInput,
    wrong: str = "is damaged",
    *,
    name: str = "",
    upgrade: Callable[[dict[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """Read a JSON object of this version. Raises BadInput, or `missing` if there is no file.

    `name`: the name of the file in the error. `wrong`: the error for a file of another kind.
    `upgrade`: renames the keys of a document of the previous version.
    """
    name = name or str(file)
    look = f"less {paths.show(file)}"
    try:
        document = json.loads(file.read_text())
    except FileNotFoundError as error:
        raise missing from error
    except (OSError, ValueError, RecursionError) as error:
        raise BadInput(f"{name} {wrong}: {error}.", look) from error
    if not isinstance(document, dict):
        raise BadInput(f"{name} {wrong}: no object.", look)
    found = document.get("schema", 1)
    if upgrade and found == schema - 1:
        with suppress(AttributeError, KeyError, TypeError):  # the caller reports another shape
            upgrade(document)
        found = document["schema"] = schema
    if found != schema:
        raise BadInput(f"{name} has the version {found!r}, and this faultlab reads {schema}.", look)
    return document


def shaped(
    kind: type[T], document: Any, file: Path, wrong: str = "is damaged", name: str = ""
) -> T:
    """Return a document of `read` as a dataclass or model. Raises BadInput with the first key."""
    try:
        return TypeAdapter(kind).validate_python(document)
    except ValidationError as error:
        first = error.errors()[0]
        why = ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"])))
        raise BadInput(f"{name or file} {wrong}: {why}.", f"less {paths.show(file)}") from error


def strict(
    kind: type[M],
    file: Path,
    where: str,
    manual: str,
    fit: Callable[[str], str] = str,
    **own: Any,
) -> M:
    """Read a TOML file as a model; `own`: the keys that come from its name. Raises BadInput.

    `where`: the file as a user types it; `manual`: the document that lists its keys. `fit`: returns
    the text to read in place of the one in the file.
    """
    edit = _edit(where, manual)
    try:
        facts = toml(fit(file.read_text()))
    except FileNotFoundError as error:
        raise BadInput(f"{where}: missing file", f"see {manual}") from error
    except OSError as error:
        raise BadInput(f"{where} cannot be read: {error.strerror}.", f"ls -l {where}") from error
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{where}: not valid TOML: {error}", edit) from error
    for key in own.keys() & facts.keys():
        named = "folder" if "folder" in own else "file"
        why = f" (the {named}'s name is the id)" if key == "id" else ""
        raise BadInput(f"{where}: {key}: unknown key{why}", edit)
    try:
        return kind(**own, **facts)
    except ValidationError as error:
        raise BadInput(f"{where}: {_explain(error)}", edit) from error


def readable(file: Path) -> dict[str, Any]:
    """Return the content of a TOML file; nothing of one that `strict` would report."""
    with suppress(OSError, ValueError, RecursionError):
        return toml(file.read_text())
    return {}


@lru_cache(maxsize=256)
def toml(text: str) -> dict[str, Any]:
    """Parse TOML. Some verbs read a file many times, and parsing is most of that.

    All callers share the result, so none may change it.
    """
    return tomllib.loads(text)


def all_known(named: Iterable[tuple[str, str, Collection[str]]], where: str, manual: str) -> None:
    """Check words, each with its key and the allowed ones. Raises BadInput for any other."""
    for key, word, allowed in named:
        if word not in allowed:
            text = f"{key}: expected one of {', '.join(sorted(allowed))}, got {word!r}"
            raise BadInput(f"{where}: {text}", _edit(where, manual))


def _edit(where: str, manual: str) -> str:
    return f"edit {where}; {manual} lists the keys"


def _explain(error: ValidationError) -> str:
    """Return the first mistake as `key: expected value`."""
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
