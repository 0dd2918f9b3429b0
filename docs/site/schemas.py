"""Schemas: a page for each JSON schema in docs/json, with a table for each object."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from faultlab.core import text

Schema = dict[str, Any]
# A docstring can explain keys: "`track`: the part of the path that it is on; `needs`: …".
_KEY = re.compile(r"`(\w+)`: ((?:[^;.]|\.(?=\w))+)[;.]\s*")
# The limits that a schema can set, as they are read.
_LIMITS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "more than {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "less than {}",
    "minItems": "at least {} of them",
    "pattern": "`{}`",
}


def name(file: Path) -> str:
    """Return how readers call the document that a schema describes."""
    stem = file.stem
    if stem.endswith(".toml"):
        return stem
    if stem.startswith("file-"):
        return f"{stem.removeprefix('file-')} file"
    return {"error": "an error", "events": "an event"}.get(stem, f"faultlab {stem} --json")


def index(files: list[Path]) -> str:
    """Return the page that lists the documents."""
    rows = []
    for file in files:
        rows.append([f"[{name(file)}]({file.stem}.md)", _about(json.loads(file.read_text()))])
    return "\n\n".join(
        [
            "# What programs read and write",
            "Each verb prints one JSON object with `--json`. These pages are made from its schema.",
            "\n".join(text.markdown(("document", "what it is"), rows)),
        ]
    )


def _about(schema: Schema) -> str:
    """Return what a document is; of one that has several forms, what each of them is."""
    kinds = [schema, *(schema["$defs"][ref] for ref in _refs(schema.get("anyOf", [])))]
    return _sentence(" ".join(kind.get("description", "") for kind in kinds))


def _refs(its: object) -> list[str]:
    """Return the names of the objects in a type."""
    return list(dict.fromkeys(re.findall(r'"#/\$defs/(\w+)"', json.dumps(its))))


def _in_order(schema: Schema) -> list[str]:
    """Return the names of the objects as a reader of the page comes upon them."""
    defs = schema.get("$defs", {})
    found = _refs({key: its for key, its in schema.items() if key != "$defs"})
    for name in found:  # grows while it is read
        found += [ref for ref in _refs(defs[name]) if ref not in found]
    return found


def page(file: Path) -> str:
    """Return the page of one schema."""
    schema = json.loads(file.read_text())
    defs: dict[str, Schema] = schema.get("$defs", {})
    # A verb prints every key; in a file that is read, a key with a default can be missing.
    read = file.stem.endswith(".toml") or file.stem.startswith("file-")
    parts = [f"# {name(file)}", *_object(schema, defs, read)]
    for title in _in_order(schema):
        parts += [f"## {title}", *_object(defs[title], defs, read)]
    parts.append(f"The schema for programs: [{file.name}]({file.name}).")
    return "\n\n".join(filter(None, parts))


def _object(schema: Schema, defs: dict[str, Schema], read: bool) -> Iterator[str]:
    """Yield what an object is, and its keys. A column in which no key has a word is left out."""
    keys = schema.get("properties", {})
    said: dict[str, str] = {}

    def taken(part: re.Match[str]) -> str:
        if part[1] not in keys:
            return part[0]
        said[part[1]] = f"{part[2][:1].upper()}{part[2][1:]}."
        return ""

    yield _KEY.sub(taken, schema.get("description", "")).strip()
    if not keys:
        yield f"Type: {_kind(schema)}."
        return
    needed = schema.get("required", []) if read else keys
    rows = [
        [f"`{key}`", _kind(its), _default(its, key in needed), said.get(key) or _meaning(its, defs)]
        for key, its in keys.items()
    ]
    columns = ["key", "type", "if it is missing", "meaning"]
    kept = [i for i in range(len(columns)) if any(row[i] for row in rows)]
    chosen = [[row[i].replace("|", r"\|") for i in kept] for row in rows]
    yield "\n".join(text.markdown([columns[i] for i in kept], chosen))


def _default(its: Schema, needed: bool) -> str:
    """Return the value that a key has if it is missing. Empty: the key is always there."""
    if needed:
        return ""
    return f"`{json.dumps(its['default'])}`" if "default" in its else "nothing"


def _meaning(its: Schema, defs: dict[str, Schema]) -> str:
    """Return what the schema says about a key, or about the one kind of object in it."""
    if "description" in its:
        return _sentence(its["description"])
    kinds = _refs(its)
    return _sentence(defs[kinds[0]].get("description", "")) if len(kinds) == 1 else ""


def _sentence(words: str) -> str:
    """Return the first paragraph of a description on one line."""
    return " ".join(words.partition("\n\n")[0].split())


def _kind(its: Schema) -> str:
    """Return the type of a value in words, with a link to the table of an object."""
    return ", ".join([_base(its), *_limits(its)])


def _limits(its: Schema) -> Iterator[str]:
    for key, words in _LIMITS.items():
        if key in its:
            yield words.format(its[key])


def _base(its: Schema) -> str:
    """Return the type of a value without its limits."""
    words = "anything"
    match its:
        case {"$ref": ref}:
            title = ref.rpartition("/")[2]
            words = f"[{title}](#{title.lower()})"
        case {"anyOf": kinds} | {"oneOf": kinds}:
            words = " or ".join(_kind(kind) for kind in kinds)
        case {"const": value}:
            words = f"`{json.dumps(value)}`"
        case {"enum": values}:
            words = " or ".join(f"`{json.dumps(value)}`" for value in values)
        case {"type": "array", "prefixItems": kinds}:
            words = f"list: {', '.join(_kind(kind) for kind in kinds)}"
        case {"type": "array", "items": kind}:
            words = f"list of {_kind(kind)}"
        case {"type": "object", "additionalProperties": dict(kind)}:
            words = f"object, each value {_kind(kind)}"
        case {"type": str(kind)}:
            words = kind
    return words
