"""Digest: a hash of all that a result depends on. A result counts only while nothing has changed.

A Python file counts by its meaning. Comments, docstrings, line breaks, the source of its imports
and the sentences of a check for learners do not count. Nor does the reason given for a remedy.
"""

from __future__ import annotations

import ast
import hashlib
import json
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from faultlab.core import paths
from faultlab.lab import checks, images, release
from faultlab.lab import loader as labs
from faultlab.lab.model import Decoy, Lab, Remedy

_STACK = {"daemons", "scope", "requires", "load"}
_WALKED = _STACK | {"alternative", "cheat"}
_PLANTED = {"steps", "alerts"}  # of a decoy
_REASONS = {key: {"__all__": {"why"}} for key in ("alternative", "cheat")}
# In a lab's folder: TOML and YAML count by what they mean, and no walk tries repairs.toml.
_NOT_WALKED = ("lab.toml", "compose.yaml", "README.md", "ticket.md", "repairs.toml", "check.py")
_PROGRAM = Path(__file__).parents[1]
# Python 3.11 counts the recursion of all threads together, and raises SystemError if two parse.
_one_at_a_time = threading.Lock()


def fault(lab: Lab) -> str:
    """Return the digest of a lab's fault, stack and check, on which a tool is examined."""
    digest = hashlib.sha256(_dumped(lab, include={"inject", "fix", "truth"}))
    digest.update(_decoys(lab))
    for check in checks.files(lab):
        digest.update(_meaning(check.read_text()).encode())
    digest.update(_services(lab))
    return digest.hexdigest()[:12]


def walk(lab_id: str) -> str:
    """Return the digest of a lab's steps, files, check and images. Raises BadInput."""
    lab = labs.load(lab_id)
    steps = _dumped(lab, include=_WALKED | {"inject", "fix"}, exclude=_REASONS)
    return _of_lab(lab, steps).hexdigest()[:12]


def repairs(lab: Lab) -> Callable[[Remedy], str]:
    """Return what gives the digest of a repair and of what judges it: the fault and the check.

    Not of the words about it, nor of the lab's other remedies.
    """
    judged = _of_lab(lab, _dumped(lab, include=_STACK | {"inject"}))

    def one(repair: Remedy) -> str:
        digest = judged.copy()
        digest.update(_dumped(repair, include={"steps"}))
        return digest.hexdigest()[:12]

    return one


def _of_lab(lab: Lab, steps: bytes) -> hashlib._Hash:
    """Return the digest of these steps and of the lab's files, check and images."""
    digest = hashlib.sha256(steps)
    digest.update(_decoys(lab))
    digest.update(_services(lab))
    for folder in lab.sources:
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            if file.name not in _NOT_WALKED and file.parent.name != "__pycache__":
                digest.update(f"{file.relative_to(folder)}\n".encode() + file.read_bytes())
    files = checks.files(lab)
    for file in sorted({*files, *_reached(files, within=lab.collection.checks)}):
        digest.update(_meaning(file.read_text()).encode())
    for name in lab.services.images(lab.daemons):
        digest.update(images.tag(name).encode())
    return digest


def decoy(its: Decoy, lab: Lab) -> str:
    """Return the digest of a decoy where it was proven: its steps, on the stack of this lab."""
    digest = hashlib.sha256(_dumped(its, include=_PLANTED) + _services(lab))
    for check in checks.files(lab):
        digest.update(_meaning(check.read_text()).encode())
    return digest.hexdigest()[:12]


def _decoys(lab: Lab) -> bytes:
    """Return what the decoys of a lab are made of; nothing without some."""
    return b"".join(_dumped(decoy, include=_PLANTED) for decoy in lab.decoys)


def _services(lab: Lab) -> bytes:
    """Return what the compose files say about the services that a lab needs, and the release."""
    used = json.dumps(lab.services.used(lab.daemons), sort_keys=True)
    return used.encode() + release.now().mark


def _dumped(model: BaseModel, **what: Any) -> bytes:
    return model.model_dump_json(exclude_none=True, **what).encode()


def program(lab_id: str) -> str:
    """Return the digest of the modules that walk through this lab, measure it and judge it."""
    digest = hashlib.sha256()
    for file in [*reached(lab_id), paths.checks() / "conftest.py"]:
        digest.update(f"{file.name}\n{_meaning(file.read_text())}".encode())
    return digest.hexdigest()[:12]


def reached(lab_id: str) -> list[Path]:
    """Return the modules of faultlab that a walk through a lab can run."""
    starts = [*checks.files(labs.load(lab_id)), paths.checks() / "conftest.py"]
    return _reached(starts, within=_PROGRAM)


def _reached(files: Iterable[Path], within: Path) -> list[Path]:
    """Return these files and all files that they import, as far as they are in a folder."""
    seen: set[Path] = set()
    starts = [*files]
    waiting = [*starts]
    while waiting:
        file = waiting.pop()
        leads_there = file in starts or file.is_relative_to(within)
        if leads_there and file not in seen and file.is_file():
            seen.add(file)
            waiting += _imported(file)
    return sorted(file for file in seen if file.is_relative_to(within))


def _imported(file: Path) -> Iterator[Path]:
    """Yield the files beside a check and of faultlab that an import in a file can mean."""
    for name in _names(file.read_text()):
        first, *rest = name.split(".")
        if first == _PROGRAM.name:
            yield _PROGRAM.joinpath(*rest).with_suffix(".py") if rest else _PROGRAM / "__init__.py"
        elif not rest and not file.is_relative_to(_PROGRAM):
            yield file.parent / f"{first}.py"


@lru_cache(maxsize=256)
def _names(text: str) -> tuple[str, ...]:
    found: list[str] = []
    for node in ast.walk(_parsed(text)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return tuple(dict.fromkeys(found))


@lru_cache(maxsize=256)
def _meaning(text: str) -> str:
    """Return a digest of the file without texts for people and top-level imports."""
    tree = _Muted().visit(_parsed(text))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(
            node
        ):
            node.body = node.body[1:]
    tree.body = [node for node in tree.body if not isinstance(node, ast.Import | ast.ImportFrom)]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()


class _Muted(ast.NodeTransformer):
    """Removes a measure's sentences for learners."""

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Remove `.says(…)` from a measure."""
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "says":
            return node.func.value
        return node


def _parsed(text: str) -> ast.Module:
    """Parse a file. A file with a syntax error is left to pytest to report."""
    with _one_at_a_time:
        try:
            return ast.parse(text)
        except SyntaxError:
            return ast.parse(repr(text))
