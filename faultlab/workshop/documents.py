"""Documents: Markdown for a page, and the documents of the project that a lesson links to.

A link of a lesson is relative to its file. On a page it opens in a tab of its own, because the
shells of a page end with it. What is not on this machine, or must not be read yet, is no link.
"""

import posixpath
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

from faultlab.core import paths

Lessons = frozenset[str] | None  # the labs whose lessons can be read; None: of every lab

_KINDS = {".md": "text/html", ".svg": "image/svg+xml"}
_LESSON = re.compile(r"labs/([a-z0-9-]+)/README\.md")
_FOLDERS = ("docs/", "labs/")
_WHOLE = re.compile(r"[a-z]+:", re.IGNORECASE)  # the begin of a link that is not relative
_FOLDED = re.compile(r"<p>&lt;details&gt;&lt;summary&gt;([^<&]*)&lt;/summary&gt;</p>")
_ANCHOR = re.compile(r"&lt;a id=&quot;([\w.-]+)&quot;&gt;&lt;/a&gt;")


@dataclass(frozen=True)
class Place:
    """Where a document is: the folder of its file, and the address of all documents."""

    folder: str
    url: str
    lessons: Lessons


@cache
def html(markdown: str, place: Place | None = None) -> str:
    """Return Markdown as HTML. Without a place, none of its links leads to a file."""
    text = re.sub(r"<!--.*?-->", "", markdown, flags=re.DOTALL)  # notes for authors
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(text)
    for token in tokens:
        if token.children:
            token.children = _linked(token.children, place)
    page = str(parser.renderer.render(tokens, parser.options, {}))
    # The HTML that lessons have.
    page = _FOLDED.sub(r"<details><summary>\1</summary>", page)
    page = page.replace("<p>&lt;/details&gt;</p>", "</details>")
    page = _ANCHOR.sub(r'<span id="\1"></span>', page)
    return page.replace("<pre>", '<pre tabindex="0">')  # scrollable parts need keyboard focus


def _linked(tokens: list[Token], place: Place | None) -> list[Token]:
    """Return the parts of a line with links that lead somewhere, each to a tab of its own."""
    found: list[Token] = []
    opened: list[bool] = []
    for token in tokens:
        if token.type == "link_open":
            to = _address(str(token.attrGet("href")), place)
            opened.append(bool(to))
            token.attrs = {"href": to, "target": "_blank", "rel": "noopener"}
        if token.type == "image":
            token.attrSet("src", _address(str(token.attrGet("src")), place))
        is_link = token.type in ("link_open", "link_close")
        if not is_link or (opened[-1] if token.type == "link_open" else opened.pop()):
            found.append(token)
    return found


def _address(link: str, place: Place | None) -> str:
    """Return where a link leads on our pages; empty if it leads nowhere."""
    if _WHOLE.match(link):
        return link
    path, hash_, part = link.partition("#")
    if place is None or not path:
        return ""
    to = posixpath.normpath(posixpath.join(place.folder, path))
    return f"{place.url}{to}{hash_}{part}" if find(to, place.lessons) else ""


def find(path: str, lessons: Lessons) -> Path | None:
    """Return a document by its path in the project; None if it is not there, or not to be read."""
    lesson = _LESSON.fullmatch(path)
    if lesson and lessons is not None and lesson[1] not in lessons:
        return None
    if path != posixpath.normpath(path) or not path.startswith(_FOLDERS):
        return None
    if not lesson and path.startswith("labs/"):
        return None
    file = paths.root() / path
    return file if file.suffix in _KINDS and file.is_file() else None


def kind(file: Path) -> str:
    """Return the type of what a document is shown as."""
    return _KINDS[file.suffix]


def title(markdown: str) -> str:
    """Return the first heading of a document."""
    found = re.search(r"^# (.+)$", markdown, re.MULTILINE)
    return found[1].replace("`", "") if found else "faultlab"
