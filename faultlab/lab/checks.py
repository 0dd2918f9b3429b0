"""Checks: the check files of the labs."""

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from inspect import isfunction
from pathlib import Path
from types import ModuleType
from typing import Any

from faultlab.core import paths
from faultlab.core.errors import BadInput
from faultlab.lab import incident, loader
from faultlab.lab.check import Check
from faultlab.lab.collection import CHECK, bare
from faultlab.lab.model import Lab
from faultlab.lab.severity import Severity

BY_DOSE = "check"  # the function of a check file whose limits follow the severity
INCIDENT = "incident.py"  # what pytest runs for a lab that has the faults of other labs


def files(lab: Lab) -> list[Path]:
    """Return the paths of a lab's check file, or of those of the labs whose faults it has."""
    return [lab.collection.check(lab_id) for lab_id in lab.of or [lab.id]]


def load(lab: Lab) -> Check[Any, Any]:
    """Return the check of a lab, from its check file. Raises BadInput if it is missing."""
    if not lab.of:
        return _read(files(lab)[0], lab.collection.name, lab.dose)
    parts = (loader.load_in(lab.collection, each) for each in lab.of)
    return incident.together({bare(part.id): load(part) for part in parts})


def follows_dose(lab: Lab) -> bool:
    """Return whether the looks of a lab can be others at another severity."""
    return any(_by_dose(_module(file, lab.collection.name)) for file in files(lab))


def _read(file: Path, collection: str, dose: Severity | None) -> Check[Any, Any]:
    """Return the check of a file: `CHECK`, or what its `check` returns for a severity."""
    module = _module(file, collection)
    with _told(file):
        check = _of_dose(module, dose) if _by_dose(module) else module.CHECK
    if not isinstance(check, Check):
        where = paths.show(file)
        raise BadInput(f"{where}: CHECK: expected a Check, got {check!r}", f"edit {where}")
    return check


def _module(file: Path, collection: str) -> ModuleType:
    """Return a check file as a module. Raises BadInput."""
    if not file.is_file():
        raise BadInput(
            f"{paths.show(file)}: missing file; every lab has its check",
            "see docs/adding-a-lab.md",
        )
    name = f"{collection}_{file.parent.name if file.name == CHECK else file.stem}"
    spec = importlib.util.spec_from_file_location(f"faultlab_checks.{name}", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look up their module
    with _told(file):
        spec.loader.exec_module(module)
    return module


@contextmanager
def _told(file: Path) -> Iterator[None]:
    """Raise BadInput, with the file, for whatever goes wrong in it."""
    where = paths.show(file)
    try:
        yield
    except Exception as error:
        raise BadInput(
            f"{where}: {type(error).__name__}: {' '.join(str(error).split())}",
            f".venv/bin/python {where}" if not paths.installed() else f"less {file}",
        ) from error


def _by_dose(module: ModuleType) -> bool:
    return isfunction(getattr(module, BY_DOSE, None))


def _of_dose(module: ModuleType, dose: Severity | None) -> Any:
    if dose is None:
        raise ValueError("check: expected [[severity]] rows in lab.toml, or CHECK here")
    return module.check(dose)
