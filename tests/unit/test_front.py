"""The front door: a short README, links that hold, pictures that are not older than their labs."""

from __future__ import annotations

import json
import re
import tomllib
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml
from markdown_it import MarkdownIt

from faultlab.lab.loader import load
from tests.pictures import freshness
from tests.unit.conftest import REPO

README = (REPO / "README.md").read_text()
PICTURES = REPO / "docs/pictures"
MADE = json.loads((PICTURES / "pictures.json").read_text())
FRONT = [
    *("README.md", "CONTRIBUTING.md", "CODE_OF_CONDUCT.md", "SECURITY.md"),
    *(f"docs/{name}.md" for name in ("start", "blind", "vm", "proven", "safety", "commands")),
    *(f"docs/{name}.md" for name in ("glossary", "symptoms", "doubt", "incident", "managers")),
]
OF_THIS_MACHINE = re.compile(r"/wor" + r"k/|/ro" + r"ot/|/tmp/|faultlab-root")


class Seen(HTMLParser):
    """The words, the links, the pictures and the headings of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.words = ""
        self.targets: list[str] = []
        self.alts: list[str] = []
        self.anchors: set[str] = set()
        self.heading: str | None = None
        self.feed(MarkdownIt("commonmark").enable("table").render(text))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        facts = dict(attrs)
        self.targets += [t for t in map(facts.get, ("href", "src", "srcset")) if t]
        if tag == "img":
            self.alts.append(facts.get("alt") or "")
        if re.fullmatch(r"h[1-6]", tag):
            self.heading = ""

    def handle_data(self, data: str) -> None:
        self.words += data
        if self.heading is not None:
            self.heading += data

    def handle_endtag(self, tag: str) -> None:
        self.words += " "
        if re.fullmatch(r"h[1-6]", tag) and self.heading is not None:
            self.anchors.add(re.sub(r"[^\w -]", "", self.heading.lower()).replace(" ", "-"))
            self.heading = None


def test_the_readme_is_short() -> None:
    """In words that a reader sees, those of the catalogue and the diagram too."""
    assert len(Seen(README).words.split()) <= 900


def test_the_first_five_labs_have_their_titles() -> None:
    part = README.split("## Start here")[1].split("All labs")[0]
    rows = re.findall(r"^\| `(.*?)` \| (.*?) \|$", part, re.MULTILINE)
    assert len({load(name).track for name, _ in rows}) == 5
    assert [(load(name).code, load(name).title) for name, _ in rows] == rows


@pytest.mark.parametrize("name", FRONT)
def test_a_page_links_to_what_exists(name: str) -> None:
    file = REPO / name
    amiss = []
    for target in Seen(file.read_text()).targets:
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        to = file.parent / path if path else file
        if not to.exists() or (anchor and anchor not in Seen(to.read_text()).anchors):
            amiss.append(target)
    assert amiss == []


def test_the_clone_line_asks_until_the_project_has_an_address() -> None:
    urls = tomllib.loads((REPO / "pyproject.toml").read_text())["project"].get("urls", {})
    address = urls.get("Repository") or urls.get("Source") or '"$url"'
    for text in (README, (REPO / "docs/start.md").read_text()):
        assert f"git clone {address} " in text


def test_the_diagram_has_five_boxes() -> None:
    diagram = re.search(r"```mermaid\n(.*?)```", README, re.DOTALL)
    assert diagram and len(re.findall(r'\w+\["', diagram[1])) == 5


def test_each_picture_is_described() -> None:
    assert len(Seen(README).alts) == 4
    assert all(len(alt.split()) >= 8 for alt in Seen(README).alts)
    shown = {Path(target).name for target in Seen(README).targets if "pictures/" in target}
    assert shown == {*MADE}


@pytest.mark.parametrize("name", MADE)
def test_a_picture_is_not_older_than_what_it_shows(name: str) -> None:
    """Otherwise: make pictures."""
    facts = MADE[name]
    assert facts.get("labs") or facts.get("files")
    assert facts.get("labs", {}) == freshness.labs(*facts.get("labs", {}))
    assert facts.get("files", {}) == freshness.files(*facts.get("files", {}))
    for run in facts.get("runs", []):
        assert re.fullmatch(r"\d{8}-\d{6}-[a-z0-9-]+-[0-9a-f]{4}", run)


@pytest.mark.parametrize("name", MADE)
def test_a_picture_is_small(name: str) -> None:
    limit = 300_000 if name.endswith(".svg") else 150_000
    assert 5_000 < (PICTURES / name).stat().st_size <= limit


def test_the_animation_is_of_its_recording() -> None:
    lines = (PICTURES / "mtu.cast").read_text().splitlines()
    shown = "".join(json.loads(line)[2] for line in lines[1:])
    assert "yes, it works as before" in shown
    assert not OF_THIS_MACHINE.search(shown)
    picture = (PICTURES / "mtu.svg").read_text()
    still = (PICTURES / "mtu-still.svg").read_text()
    assert "animation-name" in picture and "animation-name" not in still
    for svg in (picture, still):
        assert "<script" not in svg and "yes, it works as before" in svg


def test_forms_and_hooks_can_be_read() -> None:
    forms = [*(REPO / ".github/ISSUE_TEMPLATE").glob("*-*.yml")]
    assert len(forms) == 2
    for form in forms:
        body = yaml.safe_load(form.read_text())["body"]
        identities = [part["id"] for part in body]
        assert len({*identities}) == len(identities) >= 4
    hooks = yaml.safe_load((REPO / ".pre-commit-config.yaml").read_text())["repos"]
    assert [repo["repo"] for repo in hooks] == ["local"]


def test_actions_are_pinned() -> None:
    for file in (REPO / ".github/workflows").iterdir():
        used = re.findall(r"uses: (\S+)", file.read_text())
        assert used and all(re.search(r"@v\d+\.\d+\.\d+$", action) for action in used)


def test_the_text_of_each_licence_is_there() -> None:
    """`reuse lint` looks for these names; ours is the same text as LICENSE."""
    named = {note["SPDX-License-Identifier"] for note in _notes()}
    assert {file.stem for file in (REPO / "LICENSES").iterdir()} == named
    assert (REPO / "LICENSES/Apache-2.0.txt").read_text() == (REPO / "LICENSE").read_text()


def test_reuse_and_notice_agree() -> None:
    notice = (REPO / "NOTICE").read_text()
    for note in _notes():
        if note["SPDX-License-Identifier"] == "Apache-2.0":
            continue
        files = [str(f.relative_to(REPO)) for pattern in note["path"] for f in REPO.glob(pattern)]
        assert files and [file for file in files if file not in notice] == []


def _notes() -> list[dict[str, str]]:
    found: list[dict[str, str]] = tomllib.loads((REPO / "REUSE.toml").read_text())["annotations"]
    return found
