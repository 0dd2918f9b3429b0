"""The table of docs/systems.md: made from the recorded rows; what was not run is not in it."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from tests import systems

FACTS = [
    "~ system Debian GNU/Linux 13 (trixie)",
    "~ machine x86_64",
    "~ docker 26.1.5",
    "~ cgroup 1",
    "~ compose 2.26.1",
    "~ python 3.13.5",
]
SAID = [f"=== {target} {code} 7" for target, code in systems.LAB]


def tried(said: list[str], user: str, monkeypatch: pytest.MonkeyPatch, at: Path) -> systems.Row:
    """Return the row of a system that says this."""
    monkeypatch.setattr(systems, "bare", lambda name: nullcontext(at))
    monkeypatch.setattr(systems, "furnish", lambda tree: None)
    monkeypatch.setattr(systems, "move_in", lambda tree, user, folder: None)
    monkeypatch.setattr(systems, "with_network", lambda tree, script: said)
    return systems.try_system("debian-13", user)


def test_the_page_is_made_from_the_rows() -> None:
    assert systems.PAGE.read_text() == systems.page()


def test_a_system_passes_only_if_each_step_ends_as_it_must(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def passes(said: list[str], user: str = "root") -> bool:
        return tried(said, user, monkeypatch, tmp_path).passed

    assert passes([*SAID, *FACTS])
    assert not passes(SAID), "versions are unknown"
    assert not passes([*SAID[:-1], *FACTS]), "it ended before down"
    assert not passes([*SAID[:1], "=== check-mtu 0 7", *SAID[2:], *FACTS]), "never broken"
    refused = "=== lab-mtu 2 7"
    assert not passes([refused, *SAID, *FACTS], "anna"), "it did not say what to type"
    assert passes([f"  next: {systems.ASKED}", refused, *SAID, *FACTS], "anna")


def test_a_row_that_failed_says_which_step(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    row = tried(["=== lab-mtu 2 90", *FACTS], "root", monkeypatch, tmp_path)
    assert row.seen == "**not as it must** lab-mtu ended with 2: lab-mtu 90 s"


def test_a_later_run_replaces_an_earlier_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(systems, "ROWS", tmp_path / "rows.json")
    systems.ROWS.write_text('{"rows": [], "not tried": {"Fedora": "no apt"}}')
    for said in (["=== lab-mtu 2 90", *FACTS], [*SAID, *FACTS]):
        systems.keep(tried(said, "root", monkeypatch, tmp_path))
    found: dict[str, Any] = json.loads(systems.ROWS.read_text())
    assert [row["passed"] for row in found["rows"]] == [True]
    assert found["rows"][0] == asdict(systems.Row(**found["rows"][0]))
    assert "| Fedora | no apt |" in systems.page()
