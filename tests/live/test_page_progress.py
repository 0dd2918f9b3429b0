"""The page of a participant in a real browser: the check as progress, the map, success, colours.

Nothing here needs Docker: the stacks are made up, and a check finds what the test says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Request, Response, ViewportSize, expect

from faultlab.core.errors import BadInput
from faultlab.core.events import Kind, Step
from faultlab.engine.docker.docker_list import Part
from faultlab.lab import loader as labs
from faultlab.lab.model import Lab
from faultlab.learn import mystery
from faultlab.run import looks
from faultlab.run.phase import CHECK
from faultlab.workshop import solo_session
from tests.live.classes import opened
from tests.live.test_page_defects import PHONE, page_of, solo
from tests.unit.served import RIGHT, Served, served

pytestmark = [pytest.mark.rotates(together=True, minutes=1.2), pytest.mark.beside]
SIZES: list[ViewportSize] = [
    {"width": 1440, "height": 900},
    {"width": 1280, "height": 720},
    PHONE,
]
MOST = 400_000  # bytes of the page without xterm.js
LATER: dict[str, Any] = {"name": "late visits", "unit": "%", "wanted": "at most 5 %"}


def found(share: float, code: int) -> list[dict[str, Any]]:
    """What a check finds: a row that is always as it should be, and two that a repair changes."""
    return [
        {"name": "port", "value": 1, "unit": "", "wanted": "exactly 1", "holds": True, "says": ""},
        {**LATER, "value": share, "holds": share <= 5, "says": ""},
        {
            **{"name": "status", "value": code, "unit": "", "wanted": "exactly 200"},
            **{"holds": code == 200, "says": "" if code == 200 else "The page fails."},
        },
    ]


@pytest.fixture
def it(tmp_path: Path) -> Iterator[Served]:
    """A class of three, of which each seat has its lab, and labs are named."""
    with served(tmp_path, blind=False) as its:
        yield its


def check(page: Page, it: Served, share: float, code: int) -> None:
    """Press the button, and wait until the page shows what was found."""
    it.stacks.found = found(share, code)
    before = page.evaluate("told.checks")
    button = page.locator("[data-act=check]")
    expect(button).to_be_enabled()
    button.click()
    page.wait_for_function("before => told.checks > before && !told.doing && !pressed", arg=before)


def test_while_a_check_runs_the_page_says_which_part_it_is_at(it: Served, browser: Browser) -> None:
    it.stacks.slow = 0.8
    it.stacks.took[1] = 7.0
    it.stacks.steps = [
        Step(Kind.BEGIN, CHECK, "measuring"),
        Step(Kind.DOING, CHECK, looks.PROGRAMS),
    ]
    page = page_of(it, browser, 1)
    page.click("[data-act=check]")
    message = page.locator("#message")
    expect(message).to_have_text("part 1 of 3: measuring what its users meet …")
    expect(page.locator("#waited")).to_contain_text("so far, the last one took 0:07")
    expect(page.locator("#usual")).to_be_visible()
    expect(message).to_have_text(f"part 3 of 3: {looks.PROGRAMS} …")
    expect(page.locator("#verdict")).to_be_focused()
    expect(message).to_be_empty()
    expect(page.locator("#usual")).to_be_hidden()


def test_what_is_wrong_comes_first_and_what_is_well_is_folded(it: Served, browser: Browser) -> None:
    page = page_of(it, browser, 1)
    check(page, it, 60, 502)
    verdict = page.locator("#verdict")
    expect(verdict).to_have_text("Not yet: 1 of 3 measures is as it should be.")
    expect(verdict).to_be_focused()
    expect(verdict).to_have_attribute("aria-live", "polite")
    rows = page.locator("#findings .wide tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("late visits")
    expect(page.locator("#changed")).to_be_hidden()
    folded = page.locator("#well")
    expect(folded.locator("tbody tr")).to_be_hidden()
    folded.locator("summary").click()
    expect(folded.locator("tbody tr")).to_contain_text("port")


def test_each_row_says_if_it_is_better_than_before(it: Served, browser: Browser) -> None:
    page = page_of(it, browser, 1)
    check(page, it, 60, 502)
    check(page, it, 20, 504)
    rows = page.locator("#findings .wide tbody tr")
    expect(rows.first.locator("td").last).to_have_text("60\u00a0% ▲ better")
    expect(rows.last.locator("td").last).to_have_text("502 = same")
    told = page.locator("#changed")
    expect(told).to_have_text("Since the check before: 1 better (late visits); 2 the same.")
    check(page, it, 90, 200)
    expect(told).to_have_text(
        "Since the check before: 1 better (status); 1 worse (late visits); 1 the same."
    )


@pytest.mark.parametrize("size", SIZES, ids=lambda size: str(size["width"]))
def test_long_names_fit_beside_the_terminal(
    it: Served, browser: Browser, size: ViewportSize
) -> None:
    page = page_of(it, browser, 1)
    page.set_viewport_size(size)
    check(page, it, 60, 502)
    check(page, it, 20, 502)
    page.locator("#findings .wide td").first.evaluate(
        "cell => { cell.lastChild.data = ' http://web/booking/restaurant.php: right answers'; }"
    )
    table = page.locator("#findings .wide")
    assert table.evaluate("wide => wide.scrollWidth <= wide.clientWidth")


@pytest.mark.parametrize("size", SIZES, ids=lambda size: str(size["width"]))
def test_the_buttons_never_leave_the_view(it: Served, browser: Browser, size: ViewportSize) -> None:
    page = page_of(it, browser, 1)
    page.set_viewport_size(size)
    check(page, it, 60, 502)
    page.add_style_tag(content=".paper { min-height: 4000px; }")
    for down in (0, 700, 3000):
        page.evaluate("down => scrollTo(0, down)", down)
        for act in ("check", "hint", "give-up"):
            expect(page.locator(f"[data-act={act}]")).to_be_in_viewport(ratio=1)
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]


def test_the_map_opens_the_terminal_of_a_machine(it: Served, browser: Browser) -> None:
    page = page_of(it, browser, 1)
    machines = page.locator("[role=tablist] .machine")
    expect(machines).to_have_text(["client", "webnginxphp-fpm"])
    page.get_by_role("tab", name="nginx").click()
    expect(page.locator("#screen-nginx")).to_be_visible()
    expect(page.locator("#screen-web")).to_be_hidden()


def test_a_stopped_daemon_is_marked_in_words(it: Served, browser: Browser) -> None:
    """Not by its colour alone, and the terminals stay as they are."""
    page = page_of(it, browser, 1)
    tab = page.locator("#tab-nginx")
    expect(tab).to_have_text("nginx")
    name = it.stacks.name(it.session.roster.seat(1))
    it.stacks.there = {name: {"web": Part("r", "running"), "nginx": Part("r", "exited 137")}}
    expect(tab).to_have_text("nginx ■ exited 137")
    expect(page.locator("#screen-web")).to_be_visible()
    it.stacks.there = {name: {"web": Part("r", "running"), "nginx": Part("r", "running")}}
    expect(tab).to_have_text("nginx")


@pytest.mark.parametrize("size", SIZES, ids=lambda size: str(size["width"]))
def test_a_repair_shows_what_it_took(it: Served, browser: Browser, size: ViewportSize) -> None:
    page = page_of(it, browser, 1)
    page.set_viewport_size(size)
    check(page, it, 60, 502)
    check(page, it, 20, 504)
    it.stacks.well.add(1)
    check(page, it, 2, 200)
    heading = page.locator("#success h2")
    expect(heading).to_have_text("Repaired")
    expect(heading).to_be_focused()
    expect(heading).to_be_in_viewport()
    facts = page.locator("#success dl div")
    expect(facts).to_have_text([re.compile(r"0:\d\d"), "checks3", "hints0", "points10 of 10"])
    rows = page.locator("#success tbody tr")
    expect(rows).to_have_count(2)
    assert rows.first.locator("th, td").all_inner_texts() == [
        "late visits",
        "60\u00a0%",
        "2\u00a0%",
    ]
    expect(page.locator("#next")).to_be_in_viewport(ratio=1)
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]


def test_a_blind_repair_asks_for_the_answer_first(tmp_path: Path, browser: Browser) -> None:
    with served(tmp_path) as it:
        page = page_of(it, browser, 1)
        it.stacks.well.add(1)
        check(page, it, 2, 200)
        heading = page.locator("#success h2")
        expect(heading).to_be_focused()
        expect(heading).to_be_in_viewport()
        page.locator("#success").get_by_role("link", name="answer what it was").click()
        expect(page.locator("#diagnose")).to_be_in_viewport()
        expect(page.locator("#success dl div")).to_have_count(3)  # no points yet
        for part, word in RIGHT.items():
            page.locator(f"#diagnose [name={part}]").select_option(word)
        page.get_by_role("button", name="Answer").click()
        expect(page.locator("#debrief h2").first).to_be_focused()
        expect(page.locator("#success dl div").last).to_have_text("points40 of 40")
        page.context.close()


@pytest.fixture
def learner(tmp_path: Path, browser: Browser, monkeypatch: pytest.MonkeyPatch) -> Iterator[Page]:
    """The page of one learner, with its catalogue."""
    monkeypatch.setenv("FAULTLAB_STATE", str(tmp_path))
    monkeypatch.setattr(solo_session, "_record_of", lambda _lab: None)
    with solo(tmp_path) as (url, _):
        page = opened(browser, url, [])
        page.locator("#catalogue tr.next").wait_for()
        yield page
        page.context.close()


def test_the_catalogue_is_searched_and_the_address_keeps_it(learner: Page) -> None:
    page = learner
    rows = page.locator("#catalogue tbody tr")
    every = rows.count()
    expect(page.locator("#catalogue summary")).to_have_text(f"All labs: 0 of {every} done")
    page.get_by_role("searchbox", name="find").fill("browser warn")
    shown = page.locator("#catalogue tbody tr:visible")
    expect(shown).to_have_count(1)
    expect(page.locator("#found")).to_have_text(f"1 of {every} labs")
    expect(page.locator("#catalogue h2:visible")).to_have_count(1)
    page.reload()
    expect(page.get_by_role("searchbox", name="find")).to_have_value("browser warn")
    expect(shown).to_have_count(1)
    page.get_by_role("searchbox", name="find").fill("")
    page.locator("#filter [name=level]").select_option("5")
    for row in shown.all():
        expect(row).to_contain_text("5 of 5")
    page.locator("#filter [name=state]").select_option("done")
    expect(page.locator("#found")).to_have_text(f"None of {every} labs")
    assert page.url.endswith("#level=5&state=done")
    page.locator("#filter [name=level]").select_option("")
    page.locator("#filter [name=state]").select_option("")
    expect(shown).to_have_count(every)
    assert "#" not in page.url
    track = page.locator("#filter [name=track]")
    track.select_option(index=2)
    expect(page.locator("#catalogue h2:visible")).to_have_text(
        track.locator("option:checked").inner_text()
    )


def test_a_mystery_is_started_from_the_page_and_debriefed(
    learner: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []

    def drawn(**how: Any) -> Lab:
        asked.append(how)
        if how["decoys"] == 2:
            raise BadInput("No lab here can have 2 false leads.")
        return labs.load("mtu")

    monkeypatch.setattr(mystery, "drawn", drawn)
    page, form = learner, learner.locator("#mystery")
    hard, button = form.get_by_role("checkbox"), form.get_by_role("button")
    hard.check()
    form.locator("[name=faults]").select_option("2")
    expect(hard).to_be_disabled()
    expect(hard).not_to_be_checked()
    form.locator("[name=decoys]").select_option("2")
    button.click()
    expect(page.locator("#message")).to_have_text("No lab here can have 2 false leads.")
    form.locator("[name=decoys]").select_option("1")
    expect(button).to_be_enabled()
    button.click()
    expect(page.locator("h1 #name")).to_have_text("A mystery")
    expect(page.locator("#acts")).to_be_visible()
    assert asked[1:] == [{"faults": 2, "decoys": 1, "hard": False}]
    page.click("[data-act=give-up]")
    expect(page.locator("#debrief h2").first).to_have_text(f"It was mtu: {labs.load('mtu').title}")
    expect(page.locator("#debrief table").first).to_contain_text("it was")
    expect(page.get_by_role("button", name="Remove mystery")).to_be_visible()


def ground(page: Page) -> str:
    return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_colours_are_those_of_the_system_until_the_button_says_otherwise(
    it: Served, browser: Browser, scheme: Literal["light", "dark"]
) -> None:
    page = page_of(it, browser, 1)
    page.emulate_media(color_scheme=scheme)
    light, dark = "rgb(255, 255, 255)", "rgb(13, 17, 23)"
    button = page.locator("#colours")
    expect(button).to_have_text("Colours: system")
    assert ground(page) == (light if scheme == "light" else dark)
    button.click()
    assert (button.inner_text(), ground(page)) == ("Colours: light", light)
    button.click()
    assert (button.inner_text(), ground(page)) == ("Colours: dark", dark)
    page.reload()
    expect(button).to_have_text("Colours: dark")
    assert ground(page) == dark
    page.emulate_media(media="print")
    assert ground(page) == light


def test_more_contrast_makes_the_quiet_text_as_strong_as_the_rest(
    it: Served, browser: Browser
) -> None:
    page = page_of(it, browser, 1)
    page.emulate_media(contrast="more")
    colour = "one => getComputedStyle(one).color"
    assert page.locator("#turn").evaluate(colour) == page.locator("h1").evaluate(colour)


def test_the_page_is_light_and_asks_no_one_else(it: Served, browser: Browser) -> None:
    page = browser.new_context().new_page()
    hosts = set[str]()
    bodies: dict[str, int] = {}

    def ask(request: Request) -> None:
        if not request.url.startswith("data:"):
            hosts.add(urlsplit(request.url).netloc)

    def came(response: Response) -> None:
        path = urlsplit(response.url).path
        if response.ok and not path.endswith("/events"):
            bodies[path] = len(response.body())

    page.on("request", ask)
    page.on("response", came)
    page.goto(f"{it.url}/join?token={it.keys.token(1)}")
    page.locator("#acts").wait_for()
    page.wait_for_timeout(500)
    assert hosts == {urlsplit(it.url).netloc}
    weight = sum(size for path, size in bodies.items() if path != "/static/xterm.js")
    assert {"/static/seat.js", "/static/theme.js", "/static/workshop.css"} <= {*bodies}
    assert weight <= MOST, bodies
    page.context.close()


@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES[1:], ids=lambda size: str(size["width"]))
def test_it_has_no_barriers(
    it: Served, browser: Browser, size: ViewportSize, colours: Literal["light", "dark"]
) -> None:
    """By axe: in the first minute, after a check that failed, and repaired; a daemon has ended."""
    context = browser.new_context(viewport=size, color_scheme=colours, bypass_csp=True)
    page = context.new_page()
    name = it.stacks.name(it.session.roster.seat(1))
    it.stacks.there = {name: {"web": Part("r", "running"), "nginx": Part("r", "exited 137")}}
    page.goto(f"{it.url}/join?token={it.keys.token(1)}")
    expect(page.locator("#tab-nginx")).to_contain_text("exited")
    page.locator(".xterm-accessibility").first.wait_for(state="attached")

    def barriers() -> list[tuple[str, str]]:
        seen = Axe().run(page).response["violations"]
        return [(one["id"], one["nodes"][0]["html"]) for one in seen]

    assert barriers() == []
    check(page, it, 60, 502)
    check(page, it, 20, 200)
    page.locator("#well summary").click()
    assert barriers() == []
    it.stacks.well.add(1)
    check(page, it, 2, 200)
    assert barriers() == []
    context.close()


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_the_catalogue_has_no_barriers(
    learner: Page, browser: Browser, colours: Literal["light", "dark"]
) -> None:
    context = browser.new_context(color_scheme=colours, bypass_csp=True)
    page = context.new_page()
    page.goto(learner.url)
    page.locator("#catalogue tr.next").wait_for()
    seen = Axe().run(page).response["violations"]
    assert [(one["id"], one["nodes"][0]["html"]) for one in seen] == []
    context.close()
