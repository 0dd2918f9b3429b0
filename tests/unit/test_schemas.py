"""The schemas of lab.toml, tool.toml and class.toml: what an editor says is what faultlab says."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from faultlab.workshop import plan
from tests.unit.conftest import REPO

SCHEMAS = REPO / "docs/json"
FILES = sorted(
    [
        *(*REPO.glob("labs/*/lab.toml"), *REPO.glob("labs/*/repairs.toml")),
        *REPO.glob("tools/*/tool.toml"),
    ]
)
HINT = re.compile(r"^#:schema (\S+)\n")  # taplo and Even Better TOML read it


def validator(kind: str) -> Draft202012Validator:
    schema = json.loads((SCHEMAS / f"{kind}.json").read_text())
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def mistakes(kind: str, facts: dict[str, Any]) -> list[str]:
    return [error.message for error in validator(kind).iter_errors(facts)]


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}")
def test_each_file_fits_its_schema(file: Path) -> None:
    assert mistakes(file.name, tomllib.loads(file.read_text())) == []


# The schema of each file that faultlab writes into docs/, and those that tests write and read.
PUBLISHED = {
    "agents": "file-score",
    "curves": "curve",
    "decoys": "decoys",
    "judge": "judge-error",
    "matrix": "file-matrix",
    "reliability": "file-reliability",
    "score": "file-score",
    "score-alone": "file-score",
    "together": "verify",
}
OF_TESTS = {"kills", "soak", "systems"}


@pytest.mark.parametrize("name", sorted({f.stem for f in REPO.glob("docs/*.json")} - OF_TESTS))
def test_each_published_file_fits_its_schema(name: str) -> None:
    """The reader takes one of the version before, too; a program that has the schema does not."""
    assert mistakes(PUBLISHED[name], json.loads((REPO / f"docs/{name}.json").read_text())) == []


def test_the_example_of_a_class_fits_and_is_read(tmp_path: Path) -> None:
    examples = re.findall(r"```toml\n(.*?)```", (REPO / "docs/workshop.md").read_text(), re.DOTALL)
    assert examples
    for text in examples:
        assert mistakes("class.toml", tomllib.loads(text)) == []
        (tmp_path / "class.toml").write_text(text)
        plan.read(str(tmp_path / "class.toml"))


@pytest.mark.parametrize(
    ("kind", "example", "wrong"),
    [
        ("lab.toml", "labs/mtu", {"scope": "cellar"}),
        ("lab.toml", "labs/mtu", {"unknown": 1}),
        ("lab.toml", "labs/mtu", {"minutes": "ten"}),
        ("lab.toml", "labs/mtu", {"id": "mtu"}),
        ("tool.toml", "tools/tshark", {"window": 1000}),
        ("tool.toml", "tools/tshark", {"folder": "/x"}),
        ("tool.toml", "tools/checklist", {"seconds": 100_000}),
    ],
)
def test_the_schema_finds_what_the_reader_finds(
    kind: str, example: str, wrong: dict[str, Any]
) -> None:
    facts = tomllib.loads((REPO / example / kind).read_text())
    assert mistakes(kind, facts) == []
    assert mistakes(kind, facts | wrong) != []


@pytest.mark.parametrize(
    "wrong", [{}, {"title": "x", "seats": []}, {"title": "x", "seats": ["a"], "minutes": 0}]
)
def test_a_class_that_does_not_fit(wrong: dict[str, Any]) -> None:
    assert mistakes("class.toml", wrong) != []


def test_each_hint_for_an_editor_leads_to_a_schema() -> None:
    hinted = [file for file in FILES if HINT.match(file.read_text())]
    assert REPO / "labs/_template/lab.toml" in hinted
    assert any(file.name == "tool.toml" for file in hinted)
    for file in hinted:
        hint = HINT.match(file.read_text())
        assert hint and (file.parent / hint[1]).resolve() == SCHEMAS / f"{file.name}.json"
