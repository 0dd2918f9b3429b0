"""Truth: what each item of a data set is, in a folder of its own.

`data/` is for the one who is examined: items under drawn names, a card, checksums. `truth/` says
of each name which lab in which phase it is. Nothing in `data/` names it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from faultlab.core import document, paths
from faultlab.core.errors import BadInput
from faultlab.data import openmetrics
from faultlab.data.openmetrics import Metrics

SCHEMA = 1
DATA, TRUTH, ITEMS = "data", "truth", "items"
METRICS = "metrics.om"
_FILE = "truth.json"
Key = tuple[str, str, int]


@dataclass(frozen=True)
class Truth:
    """An item as it is in truth. `fault`: whether anything is wrong; in a control nothing is.

    `severity`: empty for the usual one. `seconds`, `every`: how long and how often it was read.
    `lab_digest`: the lab as it was; a changed one is recorded again. `run`: the id of the run.
    """

    item: str
    lab: str
    phase: str
    number: int
    fault: bool
    component: str
    resource: str
    cause: str
    severity: str
    seconds: float
    every: float
    lab_digest: str
    run: str = ""

    @property
    def key(self) -> Key:
        """Return the lab, the phase and the number of the look."""
        return self.lab, self.phase, self.number

    @property
    def text(self) -> str:
        """Return the lab and the phase."""
        return f"{self.lab} {self.phase}"


@dataclass(frozen=True)
class Document:
    """The file of the truth: what every item is."""

    items: list[Truth]
    schema: int = SCHEMA


def read(folder: Path) -> list[Truth]:
    """Return what the items of a data set are. Raises BadInput if it is none."""
    file = folder / TRUTH / _FILE
    missing = BadInput(f"There is no data set in {folder}.", f"faultlab dataset {folder}")
    found = document.read(file, SCHEMA, missing, "is no truth of a data set")
    return document.shaped(Document, found, file).items


def write(folder: Path, items: Iterable[Truth]) -> None:
    """Write the truth of a data set whole, in an order that says nothing. Raises CannotRun."""
    rows = sorted(items, key=lambda each: each.item)
    text = json.dumps(asdict(Document(rows)), indent=1) + "\n"
    paths.write_whole(folder / TRUTH / _FILE, text)


def metrics(folder: Path, item: Truth) -> Metrics:
    """Return the metrics of an item. Raises BadInput if its file is missing or damaged."""
    file = folder / DATA / ITEMS / item.item / METRICS
    try:
        return openmetrics.read(file.read_text(), str(file))
    except (OSError, ValueError) as error:
        raise BadInput(f"{file} cannot be read: {error}.", f"faultlab dataset {folder}") from error
