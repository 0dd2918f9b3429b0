"""How the site reads our Markdown: as a forge does, and without the comments for programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from markdown import Markdown

from docs.site import commands, labs, schemas
from docs.site.commonmark import CommonMark
from faultlab.cli.main import VERBS
from faultlab.lab import loader
from tests.unit.conftest import REPO


def html(text: str) -> str:
    return Markdown(
        extensions=["toc", "fenced_code", CommonMark(*[lambda link: f"to:{link}"] * 2)]
    ).convert(text)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("- a\n\n  b", "<ul>\n<li>\n<p>a</p>\n<p>b</p>\n</li>\n</ul>"),
        ("1. a\n   - b", "<li>b</li>"),
        ("1. a\n\n   <details><summary>?</summary>\n\n   *b*\n\n   </details>", "<em>b</em>"),
        ("a <!-- b --> c", "<p>a  c</p>"),
        ("<!-- transcript: x -->\na", "<p>a</p>"),
        ("`&lt;` & <", "<code>&amp;lt;</code> &amp; &lt;"),
        ("| a |\n|---|\n| `b\\|c` |", "<td><code>b|c</code></td>"),
        ('<a id="x"></a>[a](b.md#c)', '<span id="x"></span><a href="to:b.md#c">a</a>'),
        ("![a](b.svg)", '<img alt="a" src="to:b.svg" />'),
        ('<picture><source srcset="a.svg"></picture>', '<source srcset="to:a.svg" />'),
        ("# A `b` c", '<h1 id="a-b-c">A <code>b</code> c</h1>'),
        ("a  \nb", "a<br />\nb"),
    ],
)
def test_markdown_is_read_as_on_a_forge(text: str, wanted: str) -> None:
    assert wanted in html(text)


@pytest.mark.parametrize(
    ("fence", "copied"), [("console\nweb# id\n", False), ("\nweb# id\n", False), ("sh\nid\n", True)]
)
def test_only_commands_without_a_prompt_can_be_copied(fence: str, copied: bool) -> None:
    assert ("no-copy" in html(f"```{fence}```")) is not copied


def test_a_ticket_does_not_give_the_answer_away() -> None:
    for lab_id in loader.ids():
        lab = loader.load(lab_id)
        page = labs.ticket(lab)
        assert lab.title in page and lab.ticket in page
        said = [step.run for step in lab.fix if step.run] + [hint.text for hint in lab.hint]
        assert not [words for words in said if words in page]


def test_every_verb_and_option_is_on_the_page() -> None:
    page = commands.page({"start"})
    for name, verb in VERBS.items():
        section = page.partition(f"### faultlab {name}\n")[2].partition("\n##")[0]
        assert all(param.opts[0] in section for param in verb.params if param.opts[0][0] == "-")
        assert all(example in section for example in verb.examples), name
    assert page.count("json/start.md") == 1 and "json/check.md" not in page


@pytest.mark.parametrize("file", sorted((REPO / "docs/json").iterdir()), ids=lambda f: f.stem)
def test_every_key_of_a_schema_is_on_its_page(file: Path) -> None:
    schema = json.loads(file.read_text())
    page = schemas.page(file)
    for name, its in {"": schema, **schema.get("$defs", {})}.items():
        section = page.partition(f"\n## {name}\n")[2] if name else page
        assert [key for key in its.get("properties", {}) if f"| `{key}` |" not in section] == []
