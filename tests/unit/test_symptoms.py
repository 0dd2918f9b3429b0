"""Symptoms: each first command is what its lab's check says, and each number was recorded.

The numbers are those of the runs in tests/recorded/runs. After a new recording write them anew:
`python -m tests.unit.test_symptoms`.
"""

from __future__ import annotations

import json
import re
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import pytest

from faultlab.lab import checks
from faultlab.lab import loader as labs
from faultlab.run.phase import FAULTY, HEALTHY
from tests.unit.conftest import REPO
from tests.unit.test_recorded import RECORDED, RUNS

FILE = REPO / "docs/symptoms.md"
COLUMNS = ["what users see", "type first", "healthy", "faulty", "it means", "lab"]
ABOVE = "As above"
NUMBER = re.compile(r"^[\d,]+")


class Row(NamedTuple):
    """A row of the page."""

    symptom: str
    command: str
    healthy: str
    faulty: str
    means: str
    lab: str

    @property
    def lab_id(self) -> str:
        """Return the lab whose lesson it links."""
        found = re.fullmatch(r"\[([a-z-]+)\]\(\.\./labs/\1/README\.md\)", self.lab)
        assert found, self.lab
        return found[1]

    @property
    def typed(self) -> tuple[str, str]:
        """Return the machine, or `$` for the host, and the command."""
        found = re.fullmatch(r"`(?:([a-z-]+)# |(\$) )(.+)`", self.command.replace("\\|", "|"))
        assert found, self.command
        return found[1] or found[2], found[3]

    @property
    def evidence(self) -> list[Any]:
        """Return the evidence of its lab that is seen by this command on this machine."""
        machine, command = self.typed
        return [
            item
            for item in checks.load(labs.load(self.lab_id)).evidence
            if item.command == command
            and (command.startswith("docker ") if machine == "$" else item.machine == machine)
        ]

    def value(self, phase: str) -> int:
        """Return what its first evidence was in a phase of the recorded run, rounded."""
        name = self.evidence[0].name
        return round(float(next(x.value for x in found(self.lab_id, phase) if x.name == name)))


@cache
def found(lab_id: str, phase: str) -> list[Any]:
    """Return the evidence that was found in a phase of the recorded run of a lab."""
    check = checks.load(labs.load(lab_id))
    facts = json.loads((RUNS / RECORDED[lab_id] / "run.json").read_text())
    return check.evident(check.load(facts["readings"][phase]))


def cells(line: str) -> list[str]:
    """Return the cells of a line of the page if it is a row; else none."""
    if not line.startswith("| ") or line.startswith("| ---"):
        return []
    its = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
    return [] if its == COLUMNS else its


ROWS = [Row(*its) for line in FILE.read_text().splitlines() if (its := cells(line))]
each_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.lab_id)


def test_the_rows_are_of_many_labs() -> None:
    assert 20 <= len(ROWS) == len({row.lab_id for row in ROWS}) == len({row.typed for row in ROWS})
    assert len({labs.load(row.lab_id).track for row in ROWS}) == 5


@each_row
def test_a_first_command_shows_evidence_of_its_lab(row: Row) -> None:
    assert row.evidence, row.command


@each_row
def test_what_it_says_was_recorded(row: Row) -> None:
    for cell, value in ((row.healthy, row.value(HEALTHY)), (row.faulty, row.value(FAULTY))):
        if number := NUMBER.match(cell):
            assert number[0] == f"{value:,}"
        else:  # a yes or a no
            assert value in (0, 1) and not re.search(r"\d", cell)
    assert row.healthy != row.faulty


@each_row
def test_a_symptom_names_neither_cause_nor_instrument(row: Row) -> None:
    lab = labs.load(row.lab_id)
    assert not re.search(r"[\d`]", row.symptom)
    for word in (lab.id, lab.truth.cause, row.typed[1].split()[0], "nginx", "PHP", "MySQL"):
        assert not re.search(rf"\b{re.escape(word)}\b", row.symptom, re.IGNORECASE), word


def test_what_is_as_above_has_a_row_above_in_its_table() -> None:
    page = FILE.read_text()
    for before, row in pairwise(ROWS):
        if row.symptom.startswith(ABOVE):
            between = page[page.index(before.command) : page.index(row.command)]
            assert "\n## " not in between, row.symptom
    assert not ROWS[0].symptom.startswith(ABOVE)


def main() -> None:
    """Write the numbers of the newest recording."""
    lines = FILE.read_text().splitlines()
    for place, line in enumerate(lines):
        if its := cells(line):
            row = Row(*its)
            for column, phase in ((2, HEALTHY), (3, FAULTY)):
                its[column] = NUMBER.sub(f"{row.value(phase):,}", its[column])
            lines[place] = f"| {' | '.join(its)} |"
    FILE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
