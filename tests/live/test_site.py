"""The site of the documents in Debian's chromium, opened from a folder and without a network."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from faultlab.core import paths
from faultlab.lab import loader as labs

pytestmark = [pytest.mark.rotates(together=True, minutes=2), pytest.mark.beside]

SIZES = {"desktop": (1280, 900), "phone": (390, 844)}
# The front, a list, a ticket, a lesson, commands, a schema, pictures, and wide tables.
KINDS = (
    *("index.html", "labs/index.html", "labs/p02.html", "labs/missing-index-lesson.html"),
    *("cli.html", "json/start.html", "flame.html", "scorecard.html", "project/README.html"),
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built into a folder."""
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "docs.site", str(folder)]
    done = subprocess.run(build, cwd=paths.root(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(params=["desktop light", "phone dark"])
def page(request: pytest.FixtureRequest, browser: Browser) -> Iterator[Page]:
    """A window. When it closes, no page in it has complained or left the folder."""
    size, scheme = request.param.split()
    width, height = SIZES[size]
    view = {"width": width, "height": height}
    shown = browser.new_page(viewport=view, color_scheme=scheme)  # type: ignore[arg-type]
    said: list[str] = []
    fetched: list[str] = []
    shown.on("console", lambda message: said.append(message.text))
    shown.on("pageerror", lambda error: said.append(str(error)))
    shown.on("request", lambda request: fetched.append(request.url))
    yield shown
    shown.close()
    assert said == []
    assert fetched and [url for url in fetched if not url.startswith(("file:", "data:"))] == []


@pytest.mark.parametrize("name", KINDS)
def test_a_page_fits_and_can_be_reached(name: str, site: Path, page: Page) -> None:
    """Nothing is wider than the window, every picture is there, and axe finds no barrier."""
    page.goto((site / name).as_uri())
    page.wait_for_load_state("networkidle")
    width = page.viewport_size["width"] if page.viewport_size else 0
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    empty = "[...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)"
    assert page.evaluate(empty) == []
    # Otherwise axe fetches the style sheets, which a page from a folder must not.
    found = Axe().run(page, options={"preload": False}).response["violations"]
    assert [(v["id"], v["nodes"][0]["html"]) for v in found] == []


def test_search_finds_a_lab_and_opens_its_ticket(site: Path, page: Page) -> None:
    """The first result is the ticket, and not the lesson, which gives the answer away."""
    page.goto((site / "index.html").as_uri())
    if page.viewport_size == {"width": 390, "height": 844}:
        page.locator("label.md-header__button[for=__search]").click()
    page.locator(".md-search__input").click()
    page.keyboard.type("campaign new customer")
    first = page.locator(".md-search-result__link").first
    first.wait_for()
    first.click()
    page.wait_for_url("**/labs/q23.html*")
    assert labs.load("syn-flood").title in page.locator("h1").inner_text()


def test_a_ticket_leads_to_its_lesson_and_a_question_unfolds(site: Path, page: Page) -> None:
    """The lesson is one click away, behind a warning; its answers are folded."""
    page.goto((site / "labs/p02.html").as_uri())
    assert "mtu 1500" not in page.locator("article").inner_text()
    page.locator(".warning a").click()
    page.wait_for_url("**/labs/mtu-lesson.html")
    assert "gives the answer away" in page.locator(".warning").inner_text()
    assert "transcript:" not in page.content()
    answer = page.locator("details", has_text="Packets of full size")
    assert not answer.locator("p").first.is_visible()
    answer.locator("summary").click()
    assert answer.locator("p").first.is_visible()


class Links(HTMLParser):
    """What a page leads to, and the anchors in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.to: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for key, value in attrs:
            if key in ("href", "src", "srcset"):
                self.to.append(value or "")
            elif key == "id" or (key == "name" and tag == "a"):
                self.anchors.add(value or "")


def dead(folder: Path) -> list[str]:
    """Return the links of a site that lead to no file or to no anchor, each after its page."""
    # A server shows 404.html at any address, so its links begin at the server's root.
    files = [file for file in folder.rglob("*.html") if file.name != "404.html"]
    pages = {file.resolve(): Links(file.read_text()) for file in files}
    found = []
    for file, links in pages.items():
        for link in links.to:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            anchor = unquote(parts.fragment)
            anchors = pages[target].anchors if target in pages else set()
            if not target.is_file() or (anchor and anchor not in anchors):
                found.append(f"{file.name}: {link}")
    return found


def test_every_link_leads_somewhere(site: Path) -> None:
    assert len([*site.rglob("*.html")]) > 150
    assert dead(site) == []


def test_a_dead_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<h1 id=top></h1><a href="b.html#there">1</a><a href="#top">2</a><a href="">3</a>'
        '<a href="c.html">4</a><a href="b.html#gone">5</a><a href="#gone">6</a><img src="d.png">'
    )
    (tmp_path / "b.html").write_text('<p id="there"></p>')
    wrong = ["c.html", "b.html#gone", "#gone", "d.png"]
    assert dead(tmp_path) == [f"a.html: {link}" for link in wrong]
