"""Workshop: a class of three in a real browser, a server that is killed, limits that hold."""

from __future__ import annotations

import csv
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urljoin

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser

from faultlab.engine.docker.local import LocalEngine
from faultlab.engine.stack import Stack
from tests.live.classes import REPAIRED, Class, opened, type_into
from tests.live.stacks import container
from tests.waiting import until

pytestmark = [pytest.mark.rotates(together=True, minutes=2), pytest.mark.alone]

CLASS = """
title = "A class of three"
seats = ["Ada", "Grace", "Linus"]
labs  = ["mtu", "iptables-drop"]
limits = "cpus=1 memory=512m pids=200"
later  = 0.1
"""
NAME = "trio"
SEATS = (1, 2, 3)


@pytest.fixture(scope="module")
def trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Class]:
    """A class of three that has begun; ended, and nothing left, in the end."""
    found = Class(tmp_path_factory.mktemp("project"), NAME, CLASS)
    found.start()
    try:
        yield found
    finally:
        found.ended()


def test_a_class_of_three(trio: Class, browser: Browser, tmp_path: Path) -> None:
    """One repairs the fault and is green, one gives up, and the roster shows it within 2 s."""
    said: list[str] = []
    trio.wait("red", "red", "red")
    ada, grace = (opened(browser, trio.told["seats"][name], said) for name in ("Ada", "Grace"))
    trainer = opened(browser, trio.told["trainer"], said)
    trainer.locator("#seat-3").get_by_text("open").wait_for()
    for page in (ada, grace):
        page.locator("#acts").wait_for()
        page.locator(".xterm-accessibility").first.wait_for(state="attached")
        page.evaluate("document.getElementById('diagnose').remove()")  # it lists all causes
        assert not re.search(r"\bmtu\b", page.content())
        page.reload()
        page.locator("#acts").wait_for()

    type_into(ada, "client", "curl -m 2 -s http://web/ | wc -c", r"^0$")
    type_into(ada, "web", "ip link show eth0", r"mtu 100\b")
    type_into(ada, "web", "ip link set dev eth0 mtu 1500 && echo do''ne", r"^done$")
    ada.click("[data-act=check]")
    for part, word in (("component", "web"), ("resource", "network"), ("cause", "mtu")):
        ada.select_option(f"[name={part}]", word)
    ada.locator("#state", has_text="repaired, looked at again soon").wait_for()
    began = time.monotonic()
    soon = "repaired; looked at again in 6 seconds"
    trainer.locator("#seat-1").get_by_text(soon).wait_for()
    assert time.monotonic() - began < 2
    ada.click("#diagnose button")
    trainer.locator("#seat-1").get_by_text(REPAIRED).wait_for()
    ada.locator("#debrief").get_by_text("It was mtu").wait_for()
    ada.locator("#success").get_by_text("40 of 40").wait_for()

    type_into(grace, "web", "hostname && nstat -az TcpRetransSegs", "TcpRetransSegs")
    grace.click("[data-act=hint]")
    grace.locator("#hints li").wait_for()
    grace.click("[data-act=give-up]")
    grace.locator("#debrief").get_by_text("It was mtu").wait_for()
    began = time.monotonic()
    trainer.locator("#seat-2 td.over").wait_for()
    assert time.monotonic() - began < 2

    shots = Path(os.environ.get("FAULTLAB_SHOTS", tmp_path))
    for name, page in (("ada", ada), ("grace", grace), ("trainer", trainer)):
        page.screenshot(path=shots / f"class-{name}.png", full_page=True)
    assert said == []
    assert trio.run("export", f"{NAME}.toml", "--to", "out.csv").returncode == 0
    rows = list(csv.DictReader((trio.root / "out.csv").read_text().splitlines()))
    assert [(row["name"], row["state"], row["gave_up"]) for row in rows] == [
        ("Ada", "green", "False"),
        ("Grace", "over", "True"),
        ("Linus", "red", "False"),
    ]
    assert (rows[0]["points"], rows[1]["points"], rows[1]["hints"]) == ("40", "0", "1")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_its_pages_have_no_barriers(
    trio: Class, browser: Browser, scheme: Literal["light", "dark"]
) -> None:
    """By axe: a seat at work, one that was told, the trainer, the projector."""
    seats, trainer = trio.told["seats"], trio.told["trainer"]
    for links, shows in (
        ([seats["Linus"]], ".xterm-accessibility"),
        ([seats["Grace"]], "#debrief"),
        ([trainer], "#seat-3"),
        ([trainer, urljoin(trainer, "/projector")], "body"),
    ):
        # axe is a script that the pages' own policy would not let in.
        context = browser.new_context(color_scheme=scheme, bypass_csp=True)
        page = context.new_page()
        for link in links:
            page.goto(link)
        page.locator(shows).first.wait_for(state="attached")
        found = Axe().run(page).response["violations"]
        assert [(v["id"], v["nodes"][0]["html"]) for v in found] == [], links[-1]
        context.close()


def test_a_seat_cannot_take_the_machine(trio: Class) -> None:
    """Each container has its limits: of processors, of memory, of processes."""
    for seat in SEATS:
        stack = trio.stack(seat)
        assert len(stack) > 2
        for machine in stack.values():
            host = container(machine).attrs["HostConfig"]
            assert (host["NanoCpus"], host["Memory"], host["PidsLimit"]) == (10**9, 512 << 20, 200)
            assert host["MemorySwap"] == host["Memory"]
    bombed = trio.stack(2)["web"]
    assert "fork" in bombed.run("for i in $(seq 400); do sleep 5 & done; wait", timeout=60).err
    assert trio.states()[0] == "green"


def test_a_shell_ends_with_its_page(trio: Class, browser: Browser) -> None:
    """And with it what runs in its foreground; a daemon that was started from it stays."""
    said: list[str] = []
    linus = opened(browser, trio.told["seats"]["Linus"], said)
    type_into(linus, "web", "setsid -f sleep 986; echo st''arted", "started")
    linus.keyboard.type("sleep 987\n")
    web = trio.stack(3)["web"]
    until(lambda: "sleep 987" in _running(web), 15)
    linus.context.close()
    until(lambda: "sleep 987" not in _running(web) and "bash" not in _running(web), 15)
    assert "sleep 986" in _running(web)


def _running(machine: Any) -> str:
    return str(machine.must("for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done"))


def test_a_server_that_is_killed(trio: Class, browser: Browser) -> None:
    """Started again: roster, answers, links and stacks are all there, and a page comes back."""
    said: list[str] = []
    linus = opened(browser, trio.told["seats"]["Linus"], said)
    linus.locator("#acts").wait_for()
    stack = trio.stack(3)
    before = {name: machine.state.started for name, machine in stack.items()}
    links = trio.told["seats"]
    trio.kill()
    trio.start()
    trio.wait("green", "over", "red")
    assert [one.split("token=")[1] for one in trio.told["seats"].values()] == [
        one.split("token=")[1] for one in links.values()
    ]
    stack = Stack(LocalEngine(), stack.name)
    assert {name: machine.state.started for name, machine in stack.items()} == before
    again = opened(browser, trio.told["seats"]["Ada"], said)
    again.locator("#debrief").get_by_text("It was mtu").wait_for()
    linus = opened(browser, trio.told["seats"]["Linus"], said)
    type_into(linus, "web", "ip link show eth0", r"mtu 100\b")


def test_a_start_that_is_cut_off_is_made_again(trio: Class) -> None:
    """`kill -9` while a seat moves on to its next lab."""
    journal = trio.root / "classes" / NAME / "events.jsonl"
    assert trio.press("Ada", "/seat/1/next").status_code == 200
    until(lambda: '"starting", "seat": 1' in journal.read_text().splitlines()[-1], 15)
    trio.kill()
    trio.start()
    trio.wait("green", "red", "over", "red")
    stack = trio.stack(1)
    assert "DROP" in stack["web"].must("iptables -nL")


def test_the_end_is_told_to_the_server(trio: Class) -> None:
    """`class end` beside a server that is up: it removes the stacks and goes."""
    done = trio.run("end", f"{NAME}.toml")
    assert done.returncode == 0, done.stderr
    assert trio.server is not None
    assert trio.server.wait(10) == 0
    trio.server = None
    assert [name for name in LocalEngine().stacks() if f"-{NAME}-" in name] == []
    assert trio.run("start", f"{NAME}.toml").returncode == 3
    assert "has ended" in trio.run("status", f"{NAME}.toml").stdout
