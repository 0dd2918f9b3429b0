"""What users meet, live, in a real browser: the graph beside the terminal.

Nothing here needs Docker: the stacks are made up, and so is the visitor.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, ViewportSize, expect

from faultlab.engine.docker.docker_list import Part
from faultlab.run import visit
from faultlab.run.mark import Mark, Marks
from faultlab.run.visit import Visit
from faultlab.workshop.roster import Seat
from tests.live.test_page_defects import page_of
from tests.live.test_page_progress import SIZES, check
from tests.unit.served import Served, served
from tests.waiting import until

pytestmark = [pytest.mark.rotates(together=True, minutes=0.8), pytest.mark.beside]
PAGE = visit.Page("http://web/booking/restaurant.php?token=token-01", 3, 300)


class Fell(Marks):
    """The marks that a test has made up."""

    def __init__(self, *found: Mark) -> None:
        super().__init__("r")
        self.made = [*found]

    def now(self) -> list[Mark]:
        return self.made


class Users:
    """A visitor whose visits of the last minutes are made up, and who goes on with them."""

    def __init__(self) -> None:
        self.pages = [PAGE]
        self.well = True
        self.marks = Fell()
        self.before: list[tuple[float, bool, float]] = []  # seconds ago, served, seconds
        self.at_work = 0
        self.begun = 0
        self.pace = 0.2

    def __call__(
        self,
        _seat: Seat,
        begun: Callable[..., None],
        hear: Callable[[Visit], None],
        over: threading.Event,
    ) -> None:
        self.at_work += 1
        self.begun += 1
        begun(self.pages, self.marks)
        try:
            for ago, well, took in self.before:
                hear(self.made(time.time() - ago, well, took))
            while not over.wait(self.pace):
                hear(self.made(time.time(), self.well, 0.02 if self.well else 3.0))
        finally:
            self.at_work -= 1

    def made(self, at: float, well: bool, took: float) -> Visit:
        why = "" if well else "no response in time"
        return Visit(at, took, well, 200 if well else 0, why, PAGE.url)


def told(users: Users) -> None:
    """Four minutes: healthy, the fault, a check that fails, a restart, and half of a repair."""
    now = time.time()
    for ago in range(260, 0, -1):
        ill = 200 > ago > 60 or (60 >= ago > 30 and ago % 3 == 0)
        users.before.append((ago, not ill, 3.0 if ill and ago % 2 else 0.02 + 0.4 * (ago % 7 == 0)))
    users.marks = Fell(
        Mark(now - 200, "fault"),
        Mark(now - 120, "check: not yet"),
        Mark(now - 75, "nginx restarted"),
        Mark(now - 60, "fix"),
        Mark(now - 28, "check: repaired"),
    )


@pytest.fixture
def users() -> Users:
    return Users()


@pytest.fixture
def it(tmp_path: Path, users: Users) -> Iterator[Served]:
    """A class of three, of which each seat has its lab, and each stack its visitor."""
    with served(tmp_path, blind=False) as its:
        its.stacks.visitor = users
        yield its


@pytest.fixture
def story(users: Users, tmp_path: Path) -> Path:
    """Let the visitor tell the story; return a folder for pictures."""
    told(users)
    return tmp_path


def test_the_graph_says_in_words_what_users_meet(
    it: Served, users: Users, browser: Browser
) -> None:
    page = page_of(it, browser, 1)
    says, drawing = page.locator("#live-says"), page.locator("#live svg")
    expect(says).to_have_text(re.compile(r"^100 % of \d+ visits served, 0\.02 s$"))
    expect(page.locator("#live-what")).to_have_text(
        "A user opens http://web/booking/restaurant.php about once a second."
    )
    expect(drawing).to_have_attribute("role", "img")
    expect(drawing).to_have_attribute("aria-label", re.compile(r"^100 % of \d+ visits served"))
    assert drawing.locator(".took").get_attribute("d")
    assert not drawing.locator(".ill").get_attribute("d")
    users.well = False
    expect(page.locator("#live-last")).to_have_text("Last: failed: no response in time, 3 s.")
    expect(says).to_have_text(re.compile(r"^[1-9]\d? % of"))
    until(lambda: bool(drawing.locator(".ill").get_attribute("d")), 5)


def test_it_marks_what_fell(it: Served, users: Users, browser: Browser) -> None:
    told(users)
    page = page_of(it, browser, 1)
    drawing = page.locator("#live svg")
    expect(drawing.locator("path.fell")).to_have_count(5)
    expect(drawing).to_have_attribute(
        "aria-label",
        re.compile(r"fault; .*check: not yet; .*nginx restarted; .*fix; .*check: repaired\.$"),
    )
    name = it.stacks.name(it.session.roster.seat(1))
    it.session.live.see({name: {"php-fpm": Part("r", "running")}})
    it.loop.call_soon_threadsafe(
        it.session.live.see, {name: {"php-fpm": Part("r", "running", up=1)}}
    )
    expect(drawing).to_have_attribute("aria-label", re.compile(r"php-fpm restarted"))


def test_a_stack_has_one_visitor_and_none_without_a_page(
    it: Served, users: Users, browser: Browser
) -> None:
    assert users.begun == 0
    pages = [page_of(it, browser, who) for who in (1, 1)]
    for page in pages:
        expect(page.locator("#live-says")).to_contain_text("visits served")
    assert (users.begun, users.at_work) == (1, 1)
    for page in pages:
        page.context.close()
    until(lambda: users.at_work == 0, 20)


def test_a_page_that_is_loaded_again_shows_the_minutes_before(
    it: Served, users: Users, browser: Browser
) -> None:
    told(users)
    page = page_of(it, browser, 1)
    page.wait_for_function("live.points.length > 250")
    page.reload()
    page.wait_for_function("live.points.length > 250")
    assert users.begun == 1
    page.wait_for_timeout(1000)
    assert page.evaluate("live.points.length") <= 310


def test_a_lab_without_a_page_has_no_graph(it: Served, users: Users, browser: Browser) -> None:
    users.pages = []
    page = page_of(it, browser, 1)
    page.wait_for_function("live.begun > 0")
    expect(page.locator("#live")).to_be_hidden()


def test_with_reduced_motion_it_moves_every_five_seconds(it: Served, browser: Browser) -> None:
    context = browser.new_context(reduced_motion="reduce")
    page = context.new_page()
    page.goto(f"{it.url}/join?token={it.keys.token(1)}")
    expect(page.locator("#live-says")).to_contain_text("visits served")
    page.evaluate("""() => { window.changes = 0; new MutationObserver(() => changes++).observe(
        document.querySelector("#live svg"), { childList: true }); }""")
    page.wait_for_timeout(6500)
    assert page.evaluate("changes") in (1, 2)
    context.close()


@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES, ids=lambda size: str(size["width"]))
def test_it_is_beside_the_terminal_and_has_no_barriers(
    it: Served,
    browser: Browser,
    size: ViewportSize,
    colours: Literal["light", "dark"],
    *,
    story: Path,
) -> None:
    context = browser.new_context(viewport=size, color_scheme=colours, bypass_csp=True)
    page = context.new_page()
    page.goto(f"{it.url}/join?token={it.keys.token(1)}")
    expect(page.locator("#live-says")).to_contain_text("visits served")
    page.locator(".xterm-accessibility").first.wait_for(state="attached")
    check(page, it, 60, 502)
    page.wait_for_timeout(1200)
    pictured(page, story, f"{size['width']}-{colours}")
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    box, screen = (page.locator(one).bounding_box() for one in ("#live", ".screen:visible"))
    assert box and screen and box["y"] + box["height"] <= screen["y"]
    assert abs(box["width"] - screen["width"]) < 2
    if size["width"] > 960:
        page.evaluate("scrollTo(0, 0)")
        expect(page.locator(".screen:visible")).to_be_in_viewport(ratio=0.95)
    seen = Axe().run(page).response["violations"]
    assert [(one["id"], one["nodes"][0]["html"]) for one in seen] == []
    context.close()


def pictured(page: Page, folder: Path, name: str) -> None:
    """Keep a picture, for a person who looks at it: `--basetemp` says where."""
    if page.viewport_size and page.viewport_size["width"] < 500:
        page.locator("#live").scroll_into_view_if_needed()
    page.screenshot(path=folder / f"{name}.png")
