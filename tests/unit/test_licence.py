"""Licences: NOTICE names each copy of somebody else's file, and its licence lies beside it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.unit.conftest import REPO

FOLDERS = ("faultlab/report", "faultlab/workshop/assets", "docs")  # where copies lie beside ours
OURS = {
    *("common.js", "join.js", "report.css", "report.js", "roster.js", "seat.js", "workshop.css"),
    *("theme.js", "live.js", "news.js", "master.js", "ladder.svg"),
}
LONG = 2000  # a line of minified code is longer, and no line that we write
CLAIM = re.compile(r"@license|copyright (\(c\) )?\d{4}|brendangregg/FlameGraph", re.IGNORECASE)


def notice() -> dict[str, list[str]]:
    """Return the files and the licence that NOTICE names, part by part."""
    parts = (REPO / "NOTICE").read_text().split("\n\n")
    return {
        part.partition("\n")[0]: re.findall(r"\S*(?:faultlab|docs)/\S+", part)
        for part in parts
        if re.search(r"^  files ", part, re.MULTILINE)
    }


def named() -> set[str]:
    return {file for files in notice().values() for file in files}


@pytest.mark.parametrize("part", notice())
def test_each_part_has_its_files_and_its_licence(part: str) -> None:
    *files, licence = notice()[part]
    assert files and licence.endswith(".LICENSE")
    assert [file for file in (*files, licence) if not (REPO / file).is_file()] == []
    assert {Path(file).parent for file in files} == {Path(licence).parent}
    assert re.search(r", (MIT|CDDL-1\.0)$", part), "an SPDX name ends the first line"


def test_no_copy_is_forgotten() -> None:
    kinds = {".js", ".css", ".svg", ".LICENSE"}
    files = [f for folder in FOLDERS for f in (REPO / folder).iterdir() if f.suffix in kinds]
    unknown = {str(f.relative_to(REPO)) for f in files if f.name not in OURS} - named()
    assert unknown == set(), "neither in NOTICE nor among ours"


def test_what_looks_like_a_copy_is_named() -> None:
    """Minified code, or a foreign copyright line, anywhere in what we ship."""
    found = set()
    for folder in ("faultlab", "images", "labs", "tools", "setup"):
        for file in (REPO / folder).rglob("*"):
            if not file.is_file() or file.suffix == ".pyc":
                continue
            text = file.read_text(errors="replace")
            if CLAIM.search(text) or max(map(len, text.splitlines()), default=0) > LONG:
                found.add(str(file.relative_to(REPO)))
    assert {file for file in found if "/sweep" not in file} - named() == set()


def test_the_version_is_the_one_in_the_file() -> None:
    head = (REPO / "faultlab/report/uplot.js").read_text()[:100]
    version = re.search(r"v([\d.]+)", head)
    assert version and f"uPlot {version[1]}, MIT" in notice()


def test_the_licence_is_in_the_metadata() -> None:
    project = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]
    assert project["license"] == "Apache-2.0"
    shipped = {str(f.relative_to(REPO)) for p in project["license-files"] for f in REPO.glob(p)}
    wanted = {file for file in named() if file.endswith(".LICENSE") and file.startswith("faultlab")}
    assert shipped == {"LICENSE", "NOTICE"} | wanted
    assert "Version 2.0, January 2004" in (REPO / "LICENSE").read_text()
