"""Pages: photographs of the report, the scorecard and the page of a class, in Debian's Chromium."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from faultlab.core import paths
from faultlab.lab import loader as labs
from tests.live.classes import Class, opened, type_into

SIZE = {"width": 1280, "height": 1000}
PLAN = """
title = "Web operations, Tuesday"
seats = ["Ada", "Grace", "Linus"]
labs  = ["{lab}"]
blind = false
"""


@contextmanager
def browser() -> Iterator[Browser]:
    """Give Debian's Chromium, without a window."""
    with sync_playwright() as playwright:
        where = shutil.which("chromium")
        launched = playwright.chromium.launch(executable_path=where, args=["--no-sandbox"])
        yield launched
        launched.close()


def report(browser: Browser, lab: str, state: Path, to: Path) -> list[str]:
    """Walk through a lab, photograph the report, and return the run."""
    known = {*_runs(state, lab)}
    _faultlab(state, "verify", lab, "--quick")
    run = min({*_runs(state, lab)} - known)
    _faultlab(state, "report", run)
    page = _shown(browser, state / "runs" / run / "report.html")
    page.locator(".plot canvas").first.wait_for()
    _photograph(page, to)
    return [run]


def scorecard(browser: Browser, state: Path, to: Path) -> None:
    """Photograph the scorecard of docs/score.json."""
    file = state / "scorecard.html"
    _faultlab(state, "scorecard", "docs/score.json", "--page", str(file))
    _photograph(_shown(browser, file), to)


def seat(browser: Browser, lab: str, to: Path) -> list[str]:
    """Hold a class, look and check at one seat, photograph it; return the runs."""
    with tempfile.TemporaryDirectory() as folder:
        held = Class(Path(folder), "tuesday", PLAN.format(lab=lab))
        held.start()
        try:
            held.wait("red", "red", "red")
            page = opened(browser, held.told["seats"]["Ada"], [])
            page.set_viewport_size(SIZE)  # type: ignore[arg-type]
            page.locator("#acts").wait_for()
            type_into(page, "client", "curl -sS -m 3 http://web/", "timed out")
            type_into(page, "web", "ip link show eth0", r"mtu 100\b")
            page.click("[data-act=check]")
            page.locator("#findings tbody tr").first.wait_for(timeout=60_000)
            page.evaluate("scrollTo(0, 0)")
            _photograph(page, to)
            page.context.close()
            return _runs(held.root, labs.load(lab).code)
        finally:
            held.ended()


def _runs(state: Path, lab: str) -> list[str]:
    return sorted(run.name for run in (state / "runs").glob(f"*-{lab}-*"))


def _faultlab(state: Path, *words: str) -> None:
    command = [sys.executable, "-m", "faultlab", *words]
    env = {**os.environ, "FAULTLAB_STATE": str(state)}
    subprocess.run(command, cwd=paths.root(), env=env, check=True)


def _shown(browser: Browser, file: Path) -> Page:
    page = browser.new_page(viewport=SIZE)  # type: ignore[arg-type]
    page.goto(file.as_uri())
    return page


def _photograph(page: Page, to: Path) -> None:
    """Write what is in the window, with 256 colours, which a page hardly exceeds."""
    shot = Image.open(BytesIO(page.screenshot())).convert("RGB")
    shot.quantize(256, dither=Image.Dither.NONE).save(to, optimize=True)
