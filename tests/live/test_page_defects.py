"""Defects of the pages that only a browser shows, on the real server with stacks that are made up.

Nothing here needs Docker: the shells echo, and a check says what the test wants.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import create_server

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect

from faultlab.core.processes import Outcome
from faultlab.lab import loader as labs
from faultlab.workshop import connections, solo_session
from faultlab.workshop.access import TRAINER, Keys, Visitor
from faultlab.workshop.guard import Guard
from faultlab.workshop.journal import Journal
from faultlab.workshop.roster import Roster
from faultlab.workshop.site import Site
from tests.live.classes import opened
from tests.unit.served import FakeStacks, Served, planned, served

pytestmark = [pytest.mark.rotates(together=True, minutes=0.8), pytest.mark.beside]
PHONE: ViewportSize = {"width": 390, "height": 844}


@pytest.fixture
def it(tmp_path: Path) -> Iterator[Served]:
    """A class of three, of which each seat has its lab."""
    with served(tmp_path) as found:
        yield found


def page_of(it: Served, browser: Browser, who: int) -> Page:
    """The page of a seat, or of the trainer."""
    page = opened(browser, f"{it.url}/join?token={it.keys.token(who)}", [])
    page.locator("#acts, #roster tbody tr").first.wait_for()
    return page


def test_after_a_failed_check_the_verdict_has_the_focus(it: Served, browser: Browser) -> None:
    """By keyboard only. It was lost to the body of the page, and there was no verdict line."""
    page = page_of(it, browser, 1)
    page.locator("[data-act=check]").focus()
    page.keyboard.press("Enter")
    verdict = page.locator("#verdict")
    expect(verdict).to_have_text("Not yet: 0 of 1 measures are as they should be.")
    expect(verdict).to_be_focused()
    expect(verdict).to_be_in_viewport()


def test_after_a_hint_its_button_has_the_focus(it: Served, browser: Browser) -> None:
    page = page_of(it, browser, 1)
    button = page.locator("[data-act=hint]")
    button.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#hints li")).to_have_count(1)
    expect(button).to_be_enabled()
    expect(button).to_be_focused()


def test_the_button_goes_with_the_last_hint(it: Served, browser: Browser) -> None:
    page = page_of(it, browser, 1)
    button = page.locator("[data-act=hint]")
    sure = [rung for rung in labs.load("mtu").hint if not rung.when]
    for number in range(1, len(sure) + 1):
        expect(button).to_be_enabled()
        button.click()
        expect(page.locator("#hints li")).to_have_count(number)
    expect(button).to_be_hidden()


def test_the_last_row_of_a_terminal_is_whole(it: Served, browser: Browser) -> None:
    page = page_of(it, browser, 1)
    page.locator(".screen:not([hidden]) .xterm-rows > div").first.wait_for(state="attached")
    for height in (900, 844, 720):
        page.set_viewport_size({"width": 1280, "height": height})
        page.wait_for_timeout(300)
        over = page.evaluate("""() => {
            const screen = document.querySelector(".screen:not([hidden])");
            const row = screen.querySelector(".xterm-rows").lastElementChild;
            return row.getBoundingClientRect().bottom - screen.getBoundingClientRect().bottom;
        }""")
        assert over <= 0, (height, over)


def test_another_lab_begins_with_an_empty_diagnosis(it: Served, browser: Browser) -> None:
    page = page_of(it, browser, 1)
    form = page.locator("#diagnose")
    words = {"component": "web", "resource": "network", "cause": "mtu"}
    for part, word in words.items():
        form.locator(f"[name={part}]").select_option(word)
    chosen = form.locator("[name=cause] option:checked")
    expect(chosen).to_have_text("mtu: an interface accepts only small packets")
    form.get_by_role("button").click()
    expect(page.locator("#answer")).to_contain_text("Your answer: web, network, mtu")
    page.click("[data-act=give-up]")
    page.locator("#next").click()
    expect(page.locator("#turn")).to_contain_text("Lab 2")
    page.locator("#acts").wait_for()
    for part in words:
        expect(form.locator(f"[name={part}]")).to_have_value("")
    expect(form.locator("[name=component] option")).to_have_count(5)  # …, three and none


@pytest.mark.parametrize("width", [1440, 1280, 390])
def test_the_words_of_a_diagnosis_fit(it: Served, browser: Browser, width: int) -> None:
    """With what they mean, beside the terminals and on a phone."""
    page = page_of(it, browser, 1)
    page.set_viewport_size({"width": width, "height": 844})
    fits = """list => list.getBoundingClientRect().right
        <= document.querySelector(".paper").getBoundingClientRect().right + 1"""
    assert page.locator("#diagnose [name=cause]").evaluate(fits)


def test_a_link_of_a_lesson_leaves_the_shells_alone(it: Served, browser: Browser) -> None:
    page = page_of(it, browser, 1)
    page.click("[data-act=give-up]")
    link = page.locator("#debrief a[href^='/seat/1/read/docs/']").first
    with page.expect_popup() as popup:
        link.click()
    popup.value.wait_for_load_state()
    assert popup.value.locator("article h1").count() == 1
    expect(page.locator("#debrief")).to_be_visible()
    assert page.locator("#debrief a[href^='.']").count() == 0


def test_on_a_phone_a_link_fits_in_the_roster(it: Served, browser: Browser) -> None:
    page = page_of(it, browser, TRAINER)
    page.set_viewport_size(PHONE)
    page.locator("#seat-1").get_by_role("button", name="link", exact=True).click()
    expect(page.locator("#message")).to_contain_text("/join?token=")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_one_vocabulary_for_seat_roster_and_projector(it: Served, browser: Browser) -> None:
    seat, trainer = page_of(it, browser, 1), page_of(it, browser, TRAINER)
    wall = opened(browser, f"{it.url}/join?token={it.keys.token(TRAINER)}", [])
    wall.goto(f"{it.url}/projector")
    expect(seat.locator("#state")).to_have_text("open")
    expect(trainer.locator("#seat-1 td.red")).to_have_text("open")
    expect(wall.locator(".tile.red").first).to_contain_text("open")
    it.stacks.well.add(1)
    seat.click("[data-act=check]")
    expect(seat.locator("#state")).to_have_text("repaired")
    expect(trainer.locator("#seat-1 td.green")).to_have_text("repaired, no answer yet")
    expect(wall.locator(".tile.green").first).to_contain_text("repaired")


class OwnFake(FakeStacks, solo_session.OwnStacks):
    """Stacks of one learner, of which a removal can fail."""


@contextmanager
def solo(folder: Path) -> Iterator[tuple[str, OwnFake]]:
    """The page of one learner: its address, and its stacks."""
    plan = planned(id="page", title="faultlab", seats=["ada"], labs=["mtu"], blind=False, later=0)
    stacks = OwnFake(plan)
    journal = Journal(folder / "journal")
    session = solo_session.SoloSession(plan, Roster(plan, [["mtu"]]), journal, stacks)
    keys, ready = Keys(folder / "keys.json"), threading.Event()
    guard = Guard(session, keys, ["127.0.0.1"], secure=False, who=lambda _: Visitor(1))
    site = Site(session, keys, guard, folder / "alive")
    line = create_server(("127.0.0.1", 0))
    front = connections.Server(site.app(), 1, None, None, ready.set, ends=site.close)
    thread = threading.Thread(target=lambda: asyncio.run(front.serve(sockets=[line])))
    thread.start()
    try:
        assert ready.wait(10)
        yield f"http://127.0.0.1:{line.getsockname()[1]}", stacks
    finally:
        front.stop()
        thread.join(10)
        line.close()


def test_a_lab_is_given_up_removed_and_started_over(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the first removal fails, as of a lab in a VM that does not respond."""
    monkeypatch.setattr(solo_session, "_record_of", lambda _lab: None)
    with solo(tmp_path) as (url, stacks):
        page = opened(browser, url, [])
        page.get_by_role("button", name="Start q21", exact=True).click()
        over = page.get_by_role("button", name="Start the lab over")
        expect(over).to_be_visible()
        over.click()
        expect(page.locator("#state")).to_have_text("open")
        page.click("[data-act=give-up]")
        stacks.outcome = Outcome(3, {}, "The lab VM does not answer.")
        remove = page.locator("#remove")
        remove.click()
        expect(page.locator("#message")).to_have_text("The lab VM does not answer.")
        expect(page.locator("#state")).to_have_text("failed")
        expect(over).to_be_visible()
        stays = "The lab VM stays up."
        stacks.outcome = Outcome(0, {"stays": stays})
        expect(remove).to_be_enabled()
        remove.click()
        expect(page.locator("#message")).to_have_text(f"q21 was removed. {stays}")
        expect(remove).to_be_hidden()
        page.close()
