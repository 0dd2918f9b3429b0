"""A class for a test: its server, its commands, and pages of it in a real browser."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from playwright.sync_api import Browser, ConsoleMessage, Error, Page

from faultlab.core import naming, paths
from faultlab.engine.docker.local import LocalEngine
from faultlab.engine.stack import Stack
from tests.live.commandline import words
from tests.waiting import until

PATIENCE = 180_000  # milliseconds that a test waits for a page; the machine can be busy
REPAIRED = re.compile("^repaired(, no answer yet)?$")  # on the trainer's pages, for good
# Chromium says this of what it drops while Docker adds or removes a network.
DROPPED = "net::ERR_NETWORK_CHANGED"


class Class:
    """A class, its server, and what the server said when it began."""

    def __init__(self, root: Path, name: str, plan: str) -> None:
        for part in ("collection.toml", "labs", "checks", "images", "tools"):
            (root / part).symlink_to(paths.root() / part)
        (root / f"{name}.toml").write_text(plan)
        self.root = root
        self.name = name
        self.server: subprocess.Popen[str] | None = None
        self.told: dict[str, Any] = {}

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """One `faultlab class` command."""
        return subprocess.run(
            [sys.executable, "-m", "faultlab", "class", *arguments],
            capture_output=True,
            text=True,
            cwd=self.root,
            env={**os.environ, "FAULTLAB_ROOT": str(self.root)},
            timeout=300,
            check=False,
        )

    def start(self) -> None:
        """Serve it, until `stop` or `kill`."""
        self.server = subprocess.Popen(
            words("class", "start", f"{self.name}.toml", "--port", "0", "--json"),
            stdout=subprocess.PIPE,
            text=True,
            cwd=self.root,
            env={**os.environ, "FAULTLAB_ROOT": str(self.root)},
        )
        assert self.server.stdout is not None
        said = ""
        while not said.rstrip().endswith("}\n}"):
            line = self.server.stdout.readline()
            assert line, said
            said += line
        self.told = json.loads(said)

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """End the server."""
        if self.server is not None:
            self.server.send_signal(number)
            self.server.wait(60)
            self.server = None

    def states(self) -> list[str]:
        """Of the seats, as `class status` says."""
        said = json.loads(self.run("status", f"{self.name}.toml", "--json").stdout)
        return [turn["state"] for turn in said["turns"]]

    def cookie(self, who: str) -> dict[str, str]:
        """Return the header that the link of a seat, or of the trainer, leads to."""
        link = {**self.told["seats"], "trainer": self.told["trainer"]}[who]
        return {"cookie": f"faultlab-{self.name}={link.split('token=')[1]}"}

    def press(self, who: str, path: str) -> httpx.Response:
        """Press a button with somebody's link."""
        url = self.told["url"]
        return httpx.post(url + path, headers={"origin": url, **self.cookie(who)}, timeout=60)

    def wait(self, *wanted: str) -> None:
        """Until the seats are in these states."""
        deadline = time.monotonic() + 180
        while (states := self.states()) != list(wanted):
            assert time.monotonic() < deadline, states
            time.sleep(1)

    def stack(self, seat: int) -> Stack:
        """Return the stack of a seat, if the class is blind."""
        return Stack(LocalEngine(), f"{naming.prefix()}{self.name}-{seat}-mystery")

    def ended(self) -> None:
        """End it, and see that nothing is left."""
        self.kill(signal.SIGINT)
        done = self.run("end", f"{self.name}.toml")
        assert done.returncode == 0, done.stderr
        assert [name for name in LocalEngine().stacks() if f"-{self.name}-" in name] == []


@contextmanager
def pair(root: Path, name: str, plan: str) -> Iterator[Class]:
    """Yield a class of two whose labs are up, and end it."""
    found = Class(root, name, plan)
    found.start()
    try:
        found.wait("red", "red")
        yield found
    finally:
        found.ended()


def opened(browser: Browser, link: str, said: list[str]) -> Page:
    """Somebody's page, in a browser of their own; what goes wrong in it is kept."""
    page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    page.set_default_timeout(PATIENCE)
    dropped: list[str] = []
    before = len(said)

    def heard(message: ConsoleMessage) -> None:
        (dropped if DROPPED in message.text else said).append(message.text)

    page.on("console", heard)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: dialog.accept())
    while True:  # the page itself would do so after a second, perhaps in the middle of a test
        try:
            page.goto(link)
        except Error as error:
            if DROPPED not in error.message:
                raise
            dropped.append(error.message)
        if not dropped:
            return page
        dropped.clear()
        del said[before:]


def type_into(page: Page, machine: str, command: str, answer: str) -> None:
    """Type a command into a terminal and wait for a line that it prints."""
    page.click(f"#tab-{machine}")
    screen = page.locator(f"#screen-{machine} .xterm-accessibility")
    screen.get_by_text("#").first.wait_for(state="attached")
    page.keyboard.type(f"{command}\n")
    screen.get_by_text(re.compile(answer)).first.wait_for(state="attached")


def settle(page: Page, holds: str) -> None:
    """Wait until something holds in a page, which itself may evaluate nothing."""
    until(lambda: bool(page.evaluate(holds)), PATIENCE / 1000, holds)
