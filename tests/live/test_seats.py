"""Two seats of a class: what one does with all its rights cannot be seen or felt at the other.

Ada burns processors, prints without end and fills her disk; Grace works and measures meanwhile.
"""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page
from websockets.exceptions import WebSocketException
from websockets.sync import client
from websockets.typing import Origin

from faultlab.engine.docker import bounds
from tests.live import classes
from tests.live.classes import Class, opened, settle, type_into
from tests.live.stacks import container

pytestmark = [pytest.mark.rotates(together=True, minutes=2), pytest.mark.alone]
NAME = "pair"
CLASS = """
title = "A class of two"
seats = ["Ada", "Grace"]
labs  = ["mtu"]
seat_disk = "300m"
"""
MACHINES = ("client", "web", "nginx", "php-fpm")
LOOPS = "for i in 1 2 3 4; do while :; do :; done & done; echo st''arted"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Class]:
    """A class of two whose labs are up."""
    with classes.pair(tmp_path_factory.mktemp("project"), NAME, CLASS) as found:
        yield found


def checks(page: Page) -> float:
    """Return how long Grace's check takes in her page, in seconds: the median of three."""
    took = []
    for _ in range(3):
        before = int(page.evaluate("told.checks"))
        settle(page, "!told.doing && !pressed")
        began = time.monotonic()
        page.click("[data-act=check]")
        settle(page, f"told.checks > {before} && !told.doing")
        took.append(time.monotonic() - began)
    return statistics.median(took)


def test_one_seat_sees_and_reaches_nothing_of_another(pair: Class) -> None:
    """With the link of one, and root in its machines: pages, buttons and addresses of another."""
    url, cookie = pair.told["url"], pair.cookie("Ada")
    for path in ("/seat/2", "/seat/2/events", "/trainer", "/trainer/events", "/export.json"):
        assert httpx.get(url + path, headers=cookie).status_code == 403, path
    for path in ("/seat/2/check", "/seat/2/give-up", "/trainer/end", "/trainer/seat/2/restore"):
        assert pair.press("Ada", path).status_code == 403, path
    hers = [
        line.split()[3].partition("/")[0]
        for name in ("client", "web")
        for line in pair.stack(2)[name].must("ip -o -4 addr show eth0").splitlines()
    ]
    for name in ("client", "web"):
        mine = pair.stack(1)[name]
        mine.run("ip route add default dev eth0")  # with her rights she can try
        for address in hers:
            answer = mine.run(f"ping -c 1 -W 1 {address}; nc -z -w 1 {address} 80 && echo open")
            assert "1 received" not in answer.out and "open" not in answer.out
        mine.run("ip route del default")


def test_a_seat_is_limited_as_a_whole(pair: Class) -> None:
    """One cgroup holds all containers of a seat, with limits that its root cannot change."""
    (parent,) = {
        container(machine).attrs["HostConfig"]["CgroupParent"] for machine in pair.stack(1).values()
    }
    assert parent not in ("", "/docker") and "-1-" in parent.replace("_", "-")
    where, top = bounds._path(parent), Path("/sys/fs/cgroup")
    files = [*top.glob(f"{where}/memory.max"), *top.glob(f"*/{where}/memory.limit_in_bytes")]
    # Those of a class that says nothing of seat_limits.
    assert {int(file.read_text()) for file in files} == {4 * 2**30}
    client = pair.stack(1)["client"]
    before = container(client).logs(stdout=True, stderr=False)
    client.run("timeout 5 yes >/proc/1/fd/1; true", timeout=20)
    assert len(before) < len(container(client).logs(stdout=True, stderr=False)) < 12 * 2**20
    for file in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        assert "written" not in client.run(f"test -e {file} && echo -1 >{file} && echo written").out


ENGINE = ("dockerd", "containerd", "containerd-shim")  # what works for a seat outside its cgroup


def of_docker() -> float:
    """Return the CPU seconds that Docker has used, with its programs that have ended."""
    ticks = 0
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it can end meanwhile
            name, _, stat = (process / "stat").read_text().partition("(")[2].rpartition(")")
            if name in ENGINE:  # 15 characters of it, which is the whole name here
                ticks += sum(map(int, stat.split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def share_of_a_cpu(seconds: float = 15) -> float:
    """Return how much of a CPU Docker uses from now on."""
    before, began = of_docker(), time.monotonic()
    time.sleep(seconds)
    return (of_docker() - before) / (time.monotonic() - began)


def test_terminals_cost_docker_little(pair: Class) -> None:
    """A client opens and closes them as fast as it can: one a second is opened."""
    url, cookie = pair.told["url"], pair.cookie("Ada")
    stop = threading.Event()
    opened: list[float] = []

    def opens() -> None:
        while not stop.is_set():
            with (
                suppress(WebSocketException, OSError),
                client.connect(
                    f"ws{url.removeprefix('http')}/seat/1/terminal/web",
                    origin=Origin(url),
                    additional_headers=cookie,
                    open_timeout=30,
                ) as page,
            ):
                page.recv(30)  # its prompt, so that the shell is there
                opened.append(time.monotonic())

    calm = share_of_a_cpu()
    clients = [threading.Thread(target=opens) for _ in range(8)]
    for one in clients:
        one.start()
    try:
        time.sleep(2)
        count = len(opened)
        busy = share_of_a_cpu()
        count = len(opened) - count
    finally:
        stop.set()
        for one in clients:
            one.join()
    print(f"Docker: {calm:.2f} of a CPU calm, {busy:.2f} with {count} terminals in 15 s")
    assert 5 <= count <= 17
    assert busy - calm < 0.3, (calm, busy)  # 0.8 and more, before a seat had a pace


@pytest.fixture
def hers(browser: Browser, tmp_path: Path) -> Iterator[Browser]:
    """A browser of Ada's own, which gives way: it would be on a computer of her own."""
    script = tmp_path / "chromium"
    script.write_text('#!/bin/sh\nexec nice -n 19 chromium "$@"\n')
    script.chmod(0o755)
    found = browser.browser_type.launch(executable_path=script, args=["--no-sandbox"])
    yield found
    found.close()


def test_one_seat_does_not_slow_another(
    pair: Class, browser: Browser, hers: Browser, tmp_path: Path
) -> None:
    """Busy loops, output without end, a disk that fills: another's check takes as long."""
    said: list[str] = []
    grace = opened(browser, pair.told["seats"]["Grace"], said)
    grace.locator("#acts").wait_for()
    ada = opened(hers, pair.told["seats"]["Ada"], said)
    ada.locator("#acts").wait_for()
    calm = checks(grace)
    for machine in MACHINES:
        type_into(ada, machine, LOOPS, "started")
    ada.click("#tab-client")
    ada.keyboard.type("yes she prints without end\n")
    time.sleep(2)
    busy = checks(grace)
    ada.click("#tab-web")
    ada.keyboard.type("dd if=/dev/zero of=/full bs=1M\n")
    full = checks(grace)
    grace.screenshot(path=Path(os.environ.get("FAULTLAB_SHOTS", tmp_path)) / "seats-grace.png")
    print(f"Grace's check: {calm:.2f} s calm, {busy:.2f} s busy, {full:.2f} s full")
    pair.wait("failed", "red")
    ada.locator("#message").get_by_text("more than a seat may have").wait_for()
    assert not pair.stack(1), "its machines are still there"
    assert busy <= 1.3 * calm and full <= 1.3 * calm, (calm, busy, full)
    type_into(grace, "web", "ip link show eth0", r"mtu 100\b")
    assert pair.press("Grace", "/seat/2/hint").status_code == 200
