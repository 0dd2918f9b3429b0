"""The trainer's tools in a real browser: surprises, hands, hints, the projector, the review.

Nothing here needs Docker: the stacks are made up, and what joins them is there at once.
FAULTLAB_SHOTS=FOLDER keeps a picture of each moment.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, ViewportSize, expect

from faultlab.core.processes import Outcome
from faultlab.workshop.access import TRAINER
from faultlab.workshop.journal import Event
from tests.live.classes import opened
from tests.live.test_page_defects import PHONE, page_of
from tests.unit.served import Served, served

pytestmark = [pytest.mark.rotates(together=True, minutes=0.8), pytest.mark.beside]
SIZES: list[ViewportSize] = [{"width": 1440, "height": 900}, {"width": 1280, "height": 720}, PHONE]
FACTS: dict[str, Any] = {
    "room": ["session-lock"],
    "event": [{"at": "0:45", "message": "The newspaper has called.", "seats": ["Ada"]}],
    "farewell": "Thank you, and good night!",
    "ranking": True,
}


@pytest.fixture
def it(tmp_path: Path) -> Iterator[Served]:
    """A class of three, whose first stacks have room for a second fault."""
    with served(tmp_path, **FACTS) as its:
        its.loop.call_soon_threadsafe(
            lambda: its.session.note(Event.OPENED, alive=its.session.journal.now())
        )
        yield its


def projector_of(it: Served, browser: Browser) -> Page:
    """The projector, in a browser of the trainer's."""
    page = opened(browser, f"{it.url}/join?token={it.keys.token(TRAINER)}", [])
    page.goto(f"{it.url}/projector")
    return page


def sound(page: Page, name: str) -> None:
    """Look for what axe finds, and whether the page fits; keep a picture if that is wanted."""
    if folder := os.environ.get("FAULTLAB_SHOTS"):
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)
    found = Axe().run(page).response["violations"]
    assert [(one["id"], one["nodes"][0]["html"]) for one in found] == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def send(page: Page, kind: str, **facts: str) -> None:
    """Fill the form of a surprise, and send it."""
    form = page.locator("#surprise")
    form.locator("[name=kind]").select_option(kind)
    for name, value in facts.items():
        field = form.locator(f"[name={name}]")
        if field.evaluate("field => field.tagName") == "SELECT":
            field.select_option(value)
        else:
            field.fill(value)
    form.get_by_role("button", name="Send").click()


def test_a_second_fault_is_a_new_ticket_at_the_seat(it: Served, browser: Browser) -> None:
    trainer, ada = page_of(it, browser, TRAINER), page_of(it, browser, 1)
    send(trainer, "fault", fault="session-lock")
    row = trainer.locator("#surprises tbody tr").last
    expect(row).to_contain_text("there at 3")
    expect(trainer.locator("#seat-1")).to_contain_text("mtu+session-lock")
    news = ada.locator("#news article.ticket")
    expect(news.locator("h2")).to_contain_text("A new ticket")
    expect(news).to_be_in_viewport()
    expect(news).to_contain_text("statement of their basket")
    expect(ada.locator("#ticket")).not_to_contain_text("statement of their basket")  # told once
    expect(ada.locator("#one-more")).to_be_visible()
    words = ada.locator("#news, header, #ticket, .bar").all_inner_texts()
    assert not re.search("session-lock|mtu", " ".join(words))
    sound(trainer, "trainer-fault")
    sound(ada, "seat-fault")


def test_what_cannot_come_says_why_and_keeps_the_form(it: Served, browser: Browser) -> None:
    it.stacks.outcome = Outcome(1, {}, "session-lock does not show beside what is there.")
    trainer = page_of(it, browser, TRAINER)
    send(trainer, "fault", fault="session-lock", seat="2")
    row = trainer.locator("#surprises tbody tr").last
    expect(row).to_contain_text("Grace: session-lock does not show beside what is there.")
    expect(row.locator(".amiss")).to_be_visible()
    it.session.roster.seat(1).turn.state = "over"
    send(trainer, "decoy", decoy="web-alerts", seat="1")
    expect(trainer.locator("#message")).to_have_text("Not at Ada: its lab is not up, or over.")
    expect(trainer.locator("#surprise [name=decoy]")).to_have_value("web-alerts")


def test_without_room_the_form_says_how_to_have_some(tmp_path: Path, browser: Browser) -> None:
    with served(tmp_path) as it:
        trainer = page_of(it, browser, TRAINER)
        trainer.locator("#surprise [name=kind]").select_option("fault")
        expect(trainer.locator("#no-room")).to_contain_text("It needs room from its begin")
        trainer.context.close()


def test_a_message_comes_at_its_time_or_is_called_off(it: Served, browser: Browser) -> None:
    trainer, ada, grace = (page_of(it, browser, who) for who in (TRAINER, 1, 2))
    planned = trainer.locator("#surprises tbody tr").first
    expect(planned).to_contain_text("in 45 minutes")
    expect(planned).to_contain_text("message from the boss: The newspaper has called.")
    planned.get_by_role("button", name="call off").click()
    expect(planned).to_contain_text("called off")
    send(trainer, "message", message="Is it up?", sender="the boss", seat="1", minutes="0.03")
    expect(trainer.locator("#message")).to_have_text("It is set for later.")
    news = ada.locator("#news article.message")
    expect(news).to_contain_text("Is it up?")
    expect(news.locator("h2")).to_contain_text("From the boss")
    expect(ada.locator("#news")).to_have_attribute("aria-live", "polite")
    expect(grace.locator("#news")).to_be_hidden()


@pytest.mark.parametrize("size", SIZES, ids=lambda size: str(size["width"]))
def test_a_hand_and_a_free_hint_by_keyboard(
    it: Served, browser: Browser, size: ViewportSize
) -> None:
    trainer, ada = page_of(it, browser, TRAINER), page_of(it, browser, 1)
    for page in (trainer, ada):
        page.set_viewport_size(size)
    hand = ada.locator("#hand")
    hand.focus()
    ada.keyboard.press("Enter")
    expect(hand).to_have_text("Your hand is up: take it down")
    expect(hand).to_have_attribute("aria-pressed", "true")
    row = trainer.locator("#seat-1")
    expect(row.locator(".hand")).to_contain_text("hand up for 0:0")
    row.get_by_role("button", name="hint").focus()
    trainer.keyboard.press("Enter")
    form = trainer.locator("#surprise")
    expect(form.locator("[name=seat]")).to_have_value("1")
    expect(form.locator("[name=hint]")).to_be_focused()
    before = form.locator("[name=hint] option").count()
    sound(trainer, f"trainer-hand-{size['width']}")
    form.get_by_role("button", name="Send").focus()
    trainer.keyboard.press("Enter")
    expect(trainer.locator("#message")).to_have_text("Ada has the hint.")
    expect(form.locator("[name=hint] option")).to_have_count(before - 1)
    expect(ada.locator("#hints li")).to_have_count(1)
    row.get_by_role("button", name="seen").click()
    expect(hand).to_have_text("Raise your hand")
    expect(row.locator(".hand")).to_have_count(0)
    sound(ada, f"seat-hint-{size['width']}")


@pytest.mark.parametrize("size", SIZES, ids=lambda size: str(size["width"]))
def test_the_projector_of_a_class_to_its_end(
    it: Served, browser: Browser, size: ViewportSize
) -> None:
    trainer, wall = page_of(it, browser, TRAINER), projector_of(it, browser)
    wall.set_viewport_size(size)
    large = wall.locator("#whole .large")
    expect(large).to_have_text("0 of 6 repaired")
    assert large.evaluate("text => parseFloat(getComputedStyle(text).fontSize)") >= 48
    expect(wall.locator("#time")).to_have_text(re.compile(r"\d\d?:\d\d"))
    send(trainer, "message", message="Coffee in five minutes.", sender="your trainer")
    expect(wall.locator("#line")).to_have_text("From your trainer: Coffee in five minutes.")
    it.stacks.well.add(2)
    it.post(2, "/seat/2/check")
    expect(large).to_have_text("1 of 6 repaired")
    sound(wall, f"projector-{size['width']}")
    trainer.get_by_role("button", name="End the class").click()
    final = wall.locator("#final")
    expect(final.locator(".large")).to_have_text("1 of 6 repaired")
    expect(final.locator(".ranking li").first).to_have_text("Grace: 10 points, 1 repaired")
    expect(final.locator(".farewell")).to_have_text("Thank you, and good night!")
    expect(wall.locator("#wall")).to_be_hidden()
    sound(wall, f"projector-end-{size['width']}")


def test_the_projector_says_when_a_block_ends(tmp_path: Path, browser: Browser) -> None:
    blocks = [{"title": "Lost packets", "minutes": 30.0, "labs": ["mtu", "somaxconn"]}]
    with served(tmp_path, labs=[], block=blocks) as it:
        it.post(TRAINER, "/trainer/open", {"block": 1})
        wall = projector_of(it, browser)
        expect(wall.locator("#block-clock")).to_have_text(
            re.compile(r"(29|30):\d\d left · until \d\d?:\d\d")
        )
        expect(wall.locator("#block-count")).to_have_text("0 of 6 repaired")
        expect(wall.locator("#whole")).to_be_hidden()
        sound(wall, "projector-block")
        wall.context.close()


def test_the_review_is_a_page_of_the_trainer(it: Served, browser: Browser) -> None:
    trainer = page_of(it, browser, TRAINER)
    send(trainer, "fault", fault="session-lock")
    expect(trainer.locator("#surprises tbody tr").last).to_contain_text("there at 3")
    trainer.goto(f"{it.url}/review")
    expect(trainer.locator("h1")).to_contain_text("what happened")
    expect(trainer.locator("article")).to_contain_text("the trainer lets come: second fault")
    sound(trainer, "review")


def test_a_link_is_copied(it: Served, browser: Browser) -> None:
    trainer = page_of(it, browser, TRAINER)
    trainer.context.grant_permissions(["clipboard-read", "clipboard-write"])
    trainer.locator("#seat-2").get_by_role("button", name="link", exact=True).click()
    trainer.locator("#message").get_by_role("button", name="copy").click()
    expect(trainer.locator("#message")).to_have_text("The link of Grace is copied.")
    assert trainer.evaluate("navigator.clipboard.readText()").startswith(f"{it.url}/join?token=")
