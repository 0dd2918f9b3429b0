"""Glossary: each word is one that the linked labs use, in their order, and short."""

from __future__ import annotations

import re

import pytest

from faultlab.lab import loader as labs
from tests.unit.conftest import REPO

PAGE = (REPO / "docs/glossary.md").read_text()
ENTRIES = dict(re.findall(r"^- \*\*(.+?)\*\*: ((?:.|\n  )+)", PAGE, re.MULTILINE))
LINK = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")
each_word = pytest.mark.parametrize("word", ENTRIES)


def plain(text: str) -> str:
    """Return a text without the difference between TIME_WAIT, TIME-WAIT and `timewait`."""
    return re.sub(r"[-_\s]+", "", text).lower()


def used(lab_id: str) -> str:
    """Return all that a learner of a lab reads, and what its description and check say."""
    lab = labs.load(lab_id)
    check = REPO / f"checks/test_{lab_id.replace('-', '_')}.py"
    return plain(
        "\n".join([lab.lesson, lab.ticket, (lab.folder / "lab.toml").read_text()])
        + (check.read_text() if check.exists() else "")
    )


def test_there_are_enough_words_in_their_order() -> None:
    assert 40 <= len(ENTRIES) <= 60
    assert PAGE.count("\n- ") == len(ENTRIES)
    assert [*ENTRIES] == sorted(ENTRIES, key=str.casefold)


@each_word
def test_a_word_has_its_labs_and_one_or_two_sentences(word: str) -> None:
    text = " ".join(ENTRIES[word].split())
    said, _, where = re.sub(r" Labs?: ", "\0", text).partition("\0")
    linked = LINK.findall(where)
    assert linked and where == ", ".join(f"[{a}]({b})" for a, b in linked) + "."
    for lab_id, to in linked:
        assert lab_id in labs.ids() and to == f"../labs/{lab_id}/README.md"
    assert len(re.findall(r"[.:](?: |$)", said)) <= 3 and len(said.split()) <= 45


@each_word
def test_a_word_is_one_of_its_labs_or_pages(word: str) -> None:
    """A word of the course is on the page that explains it, any other in each of its lessons."""
    names = [plain(name) for name in re.sub(r" \(.*\)", "", word).split(", ")]
    links = LINK.findall(ENTRIES[word])
    pages = [to for _, to in links if "/" not in to]
    texts = {to: plain((REPO / "docs" / to).read_text()) for to in pages}
    texts |= {} if pages else {lab_id: used(lab_id) for lab_id, _ in links}
    assert [its for its, text in texts.items() if not any(name in text for name in names)] == []
