"""The page of one learner, in a real browser: from the catalogue to the lesson."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Route, expect

from faultlab.lab import loader as labs
from faultlab.run import inject, placement
from tests.live.classes import opened, settle, type_into
from tests.live.commandline import finish, spawn
from tests.live.stacks import container

pytestmark = pytest.mark.rotates(minutes=0.9)
beside = pytest.mark.beside

FONT = 14  # pixels, of a terminal
SHOTS = "FAULTLAB_SHOTS"  # an environment variable: a folder for the screenshots
HEAP = "sed -i 's/^HEAP=.*/HEAP=-Xmx256m/' /etc/tomcat10/setenv.sh"
# What a learner types in the terminal of a machine, and the daemon that they restart.
REPAIRS = {
    "mtu": ("web", "ip link set dev eth0 mtu 1500", ""),
    "iptables-drop": ("web", "iptables -F", ""),
    "heap-oom": ("app", HEAP, "tomcat"),
}
SEVERAL = "slow-log"  # a lab of several faults, whose speed is judged
IN_VM = "conntrack"  # a lab whose fault belongs to a whole kernel


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """Serve the page, with runs of its own; what it started is removed in the end."""
    state = {"FAULTLAB_STATE": str(tmp_path)}
    server = spawn("page", "--port", "0", "--json", env=state)
    assert server.stdout is not None
    said = ""
    while not said.endswith("}\n"):
        line = server.stdout.readline()
        assert line, said
        said += line
    try:
        yield json.loads(said)["url"]
    finally:
        server.send_signal(signal.SIGINT)
        assert server.wait(60) == 0
        for name in up():
            assert finish(spawn("down", name, env=state))[0] == 0
    assert up() == []


def up() -> list[str]:
    """Return the labs of these tests that are up, on any engine."""
    names = [*REPAIRS, SEVERAL, IN_VM]
    return [name for lab in names for name in (lab, labs.load(lab).code) if placement.up(name)]


def start(page: Page, lab: str) -> None:
    """Choose a lab in the catalogue, and wait until its ticket is there."""
    catalogue = page.locator("#catalogue")
    catalogue.locator("tr.next").wait_for(state="attached")
    if catalogue.get_attribute("open") is None:
        catalogue.locator("summary").click()
    catalogue.get_by_role("button", name=f"Start {labs.load(lab).code}", exact=True).click()
    expect(page.locator("h1").first).to_contain_text(labs.load(lab).title)
    # Beside other tests a lab waits for its start, and then for the machine alone.
    expect(page.locator("#acts")).to_be_visible(timeout=300_000)
    assert page.locator("#ticket").inner_text().strip()


def hint(page: Page) -> str:
    """Ask for a hint, and return it."""
    before = page.locator("#hints li").count()
    page.click("[data-act=hint]")
    expect(page.locator("#hints li")).to_have_count(before + 1)
    last = page.locator("#hints li").last
    expect(last).to_be_in_viewport()
    return last.inner_text()


def check(page: Page, *words: str) -> None:
    """Check, and wait until the page shows the result."""
    before = page.evaluate("told.checks")
    page.click("[data-act=check]")
    settle(page, f"told.checks > {before} && !told.doing && !pressed")


def restart(page: Page, daemon: str) -> None:
    """Press Restart, and wait until the page says that it has happened."""
    page.get_by_role("button", name="Restart", exact=True).click()
    settle(page, "!told.doing && !pressed")
    expect(page.locator("#message")).to_have_text(f"{daemon} was restarted.")


def result_is_shown(page: Page) -> None:
    """What a check has found is in view, the focus on it, and the lesson has room."""
    heading = page.locator("#success h2")
    expect(heading).to_be_focused()
    expect(heading).to_be_in_viewport()
    expect(page.locator("#remove")).to_be_in_viewport()
    expect(page.locator("#following")).to_contain_text("the next lab")
    wide = "document.querySelector('.paper').clientWidth"
    assert page.evaluate(f"{wide} > document.querySelector('.terminals').clientWidth")
    cut = "pres => pres.some(one => one.scrollWidth > one.clientWidth)"
    assert not page.locator(".lesson pre").evaluate_all(cut)


# Whether the verdict is in view beside an address, as some labs have one in their measures.
FITS = """wide => {
    const row = wide.querySelector("tbody").insertRow();
    const address = "http://web/booking/restaurant.php: right answers";
    for (const text of [address, "0 %", "exactly 100 %", "NO"]) row.insertCell().textContent = text;
    const fits = wide.scrollWidth <= wide.clientWidth;
    row.remove();
    return fits;
}"""


@beside
@pytest.mark.rotates(minutes=1)
@pytest.mark.parametrize("lab", REPAIRS)
def test_from_the_catalogue_to_the_lesson(
    lab: str, url: str, browser: Browser, tmp_path: Path
) -> None:
    said: list[str] = []
    page = opened(browser, url, said)
    shots = Path(os.environ.get(SHOTS, tmp_path))
    expect(page.locator("#catalogue tr.next")).to_have_count(1)
    page.screenshot(path=shots / f"page-{lab}-catalogue.png", full_page=True)
    start(page, lab)
    assert hint(page)
    check(page)
    expect(page.locator("#state")).to_have_text("open")
    expect(page.locator("#findings h2")).to_be_in_viewport()
    found = page.locator("#findings tbody tr, #findings > p:not(:empty)")  # or why it is empty
    expect(found.first).to_be_visible()
    assert page.locator("#findings .wide").evaluate(FITS)
    assert lab not in f"{page.text_content('header')}{page.text_content('#catalogue')}"
    machine, command, daemon = REPAIRS[lab]
    type_into(page, machine, f"{command}; echo do''ne", r"^done$")
    row = page.locator(f"#screen-{machine} .xterm-rows > div").first
    assert row.evaluate("row => row.getBoundingClientRect().height") >= 1.2 * FONT  # else no `_`
    page.screenshot(path=shots / f"page-{lab}-work.png", full_page=True)
    if daemon:
        page.get_by_text("The host: restart a daemon").click()
        expect(page.locator("#states")).to_contain_text(f"{daemon}: ")
        page.select_option("#host [name=daemon]", daemon)
        restart(page, daemon)
        type_into(page, daemon, "echo o''pen", r"^open$")
        restart(page, daemon)
        ended = page.locator(f"#screen-{daemon} .xterm-rows")
        expect(ended).to_contain_text("press Enter for a new shell")
    check(page)
    expect(page.locator("#state")).to_have_text("repaired")
    expect(page.locator("#debrief")).to_contain_text(f"It was {lab}")
    assert page.locator("#debrief details details, #debrief .lesson details").count() >= 2
    result_is_shown(page)
    page.locator("#catalogue summary").click()
    name = f"Remove {labs.load(lab).code}"
    row = page.locator("#catalogue tr", has=page.get_by_role("button", name=name))
    expect(row).to_contain_text("solved")
    expect(row).to_contain_text(lab)
    page.screenshot(path=shots / f"page-{lab}-lesson.png", full_page=True)
    page.set_viewport_size({"width": 390, "height": 844})
    page.screenshot(path=shots / f"page-{lab}-phone.png", full_page=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    title = row.locator("td").nth(1)
    assert title.evaluate("cell => cell.getBoundingClientRect().right") <= 390
    expect(row.get_by_role("button")).to_be_enabled()
    page.click("#remove")
    expect(page.locator("#state")).to_have_text("")
    expect(page.locator("#clock")).to_be_empty()
    assert said == []


@pytest.mark.rotates(minutes=1.4)
def test_hints_of_several_faults_follow_the_repairs(
    url: str, browser: Browser, tmp_path: Path
) -> None:
    """Before any repair, and after the first one."""
    lab = labs.load(SEVERAL)
    page = opened(browser, url, [])
    shots = Path(os.environ.get(SHOTS, tmp_path))
    start(page, lab.id)
    fault_of = {rung.text.replace("`", ""): rung.fault for rung in lab.hint}
    for fault in lab.fault:
        assert fault_of[hint(page)] == fault.id
        page.screenshot(path=shots / f"page-hint-{fault.id}.png", full_page=True)
        inject.apply(placement.up(lab.code), fault.fix)
        check(page)
    expect(page.locator("#state")).to_have_text("repaired")


@pytest.mark.rotates(minutes=4)
def test_a_lab_in_the_vm_is_given_up_and_removed(url: str, browser: Browser) -> None:
    """Its removal did nothing, and `status` still listed it. The VM stays, and the page says so."""
    page = opened(browser, url, [])
    catalogue = page.locator("#catalogue")
    catalogue.locator("tr.next").wait_for(state="attached")
    code = labs.load(IN_VM).code
    catalogue.get_by_role("button", name=f"Start {code}", exact=True).click()
    expect(page.locator("#acts")).to_be_visible(timeout=900_000)
    assert placement.up(code).engine.owns_kernel
    page.click("[data-act=give-up]")
    page.locator("#remove").click()
    expect(page.locator("#message")).to_contain_text(f"{code} was removed.", timeout=300_000)
    expect(page.locator("#message")).to_contain_text("make vm-down")
    assert not placement.up(code)


@beside
def test_a_dead_machine_is_told_and_the_lab_started_over(url: str, browser: Browser) -> None:
    page = opened(browser, url, [])
    start(page, "mtu")
    container(placement.up(labs.load("mtu").code)["web"]).kill()
    expect(page.locator("#advice")).to_contain_text("web has ended. Press")
    assert hint(page)
    page.get_by_role("button", name="Start the lab over").click()
    expect(page.locator("#advice")).to_be_hidden()
    expect(page.locator("#acts")).to_be_visible(timeout=300_000)
    expect(page.locator("#hints li")).to_have_count(1)  # it stays paid
    type_into(page, "nginx", "echo o''pen", r"^open$")
    expect(page.locator("#screen-nginx .xterm-accessibility")).to_contain_text("root@web/nginx:")


@beside
def test_a_lab_of_the_command_line(url: str, browser: Browser, tmp_path: Path) -> None:
    """The page marks it, goes on with it, and notices that it is removed."""
    page, state = opened(browser, url, []), {"FAULTLAB_STATE": str(tmp_path)}
    heading = page.locator("h1").first
    expect(heading).to_contain_text("Choose a lab")
    assert finish(spawn("start", "mtu", env=state))[0] == 0
    expect(page.locator("#catalogue")).to_contain_text("mtu (up)")
    page.get_by_role("button", name="Go on with mtu").click()
    expect(heading).to_contain_text(labs.load("mtu").title)
    expect(page.locator("#acts")).to_be_visible()
    assert finish(spawn("down", "mtu", env=state))[0] == 0
    expect(heading).to_contain_text("Choose a lab")
    expect(page.locator("#message")).to_contain_text("removed")
    expect(page.locator(".terminals")).to_be_hidden()


@beside
@pytest.mark.parametrize("lost", ["/static/common.js", "/static/seat.js", "/seat/1/events"])
def test_a_page_is_whole_although_a_part_was_lost(url: str, browser: Browser, lost: str) -> None:
    """Chromium drops requests while Docker adds or removes a network; a server refuses some."""
    page = browser.new_page()
    asked: list[str] = []

    def refuse_the_first(route: Route) -> None:
        asked.append(route.request.url)
        if len(asked) == 1:
            route.fulfill(status=429)
        else:
            route.continue_()

    page.route(f"**{lost}", refuse_the_first)
    with page.expect_response(lambda response: response.url.endswith(lost) and response.ok):
        page.goto(url)
    expect(page.locator("#catalogue tr.next")).to_have_count(1)
    assert len(asked) == 2


@beside
def test_the_tables_of_the_catalogue_have_the_same_columns(url: str, browser: Browser) -> None:
    page = opened(browser, url, [])
    page.locator("#catalogue tr.next").wait_for()
    left = "row => [...row.cells].map((cell) => cell.getBoundingClientRect().x).join()"
    heads = page.locator("#catalogue thead tr")
    assert len({heads.nth(i).evaluate(left) for i in range(heads.count())}) == 1


@beside
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_has_no_barriers(url: str, browser: Browser, scheme: Literal["light", "dark"]) -> None:
    page = opened(browser, url, [])
    page.emulate_media(color_scheme=scheme)
    page.locator("#catalogue tr.next").wait_for()
    found = Axe().run(page).response["violations"]
    assert [(one["id"], one["nodes"][0]["target"]) for one in found] == []


@beside
def test_a_second_page_tells_the_address_of_the_first(url: str) -> None:
    """It would be about the same stacks."""
    code, said = finish(spawn("page", "--port", "0"))
    assert (code, url in said) == (0, True), said
    code, said = finish(spawn("page", "--port", "0", "--json"))
    assert (code, json.loads(said)) == (0, {"url": url}), said
