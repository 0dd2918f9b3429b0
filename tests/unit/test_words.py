"""Words: what docs/style.md avoids is found, and reading takes its time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import words


def test_a_word_to_avoid_is_found_across_lines_and_not_in_code(tmp_path: Path) -> None:
    file = tmp_path / "x.md"
    file.write_text("All is fine here.\n\nIt waits for\never, `for ever`.\n\n```\nnobody\n```\n")
    assert [*words.amiss(file)] == [f"{file}:3: “for\never”: say until when".replace("\n", " ")]


def test_a_long_sentence_is_no_fault(tmp_path: Path) -> None:
    file = tmp_path / "x.md"
    file.write_text("It " + "really " * 60 + "ends; slowly; here.\n")
    assert [*words.amiss(file)] == []


def test_code_is_read_three_times_as_fast() -> None:
    assert words.minutes("word " * 200) == pytest.approx(1)
    assert words.minutes("```\n" + "word " * 596 + "\n```\n") == pytest.approx(598 / 600)
