"""The pages in a real browser, Debian's chromium: drawn, quiet, reachable, and without a network.

Nothing here needs a stack: the run is one that was recorded.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from faultlab.cli.main import main
from faultlab.core import paths

pytestmark = [pytest.mark.rotates(together=True, minutes=0.8), pytest.mark.beside]

RECORDED = Path(__file__).parents[1] / "recorded/run"
SCORE = paths.root() / "docs/score.json"
RUN = "20261121-211714-mtu-779c"
SIZES = {"desktop": (1280, 900), "phone": (390, 844)}
SERIOUS = ("serious", "critical")
Scheme = Literal["light", "dark"]


@dataclass
class Shown:
    """A page in the browser, what it said on the console, and what it fetched."""

    page: Page
    said: list[str] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The project's copy with one recorded run, and the pages about it."""
    root = tmp_path_factory.mktemp("project")
    for name in ("collection.toml", "labs", "checks", "images"):
        (root / name).symlink_to(paths.root() / name)
    run = root / "runs" / RUN
    run.mkdir(parents=True)
    facts = json.loads((RECORDED / "mtu.json").read_text())
    (run / "run.json").write_text(json.dumps({**facts, "id": RUN}))
    shutil.copy(RECORDED / "timeline.jsonl", run)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FAULTLAB_ROOT", str(root))
        assert main(["report", RUN]) == 0
        assert main(["report", "--all"]) == 0
        card = ["scorecard", str(SCORE), "--page", str(root / "runs/scorecard.html")]
        assert main(card) == 0
        yield root / "runs"


@pytest.fixture(params=["desktop light", "desktop dark", "phone light", "phone dark"])
def look(request: pytest.FixtureRequest) -> tuple[tuple[int, int], Scheme]:
    """How large the window is, and whether it is dark."""
    size, scheme = request.param.split()
    return SIZES[size], scheme


def open_page(browser: Browser, file: Path, size: tuple[int, int], scheme: Scheme) -> Shown:
    """Show a file, and note everything that it says and asks for."""
    width, height = size
    view = {"width": width, "height": height}
    page = browser.new_page(viewport=view, color_scheme=scheme)  # type: ignore[arg-type]
    shown = Shown(page)
    page.on("console", lambda message: shown.said.append(message.text))
    page.on("pageerror", lambda error: shown.said.append(str(error)))
    page.on("request", lambda request: shown.fetched.append(request.url))
    page.goto(file.as_uri())
    return shown


@pytest.mark.parametrize("name", [f"{RUN}/report.html", "index.html", "scorecard.html"])
def test_a_page_is_quiet_fits_and_can_be_reached(
    name: str,
    folder: Path,
    browser: Browser,
    look: tuple[tuple[int, int], Scheme],
    tmp_path: Path,
) -> None:
    """No error on the console, no request, nothing wider than the window, no barrier (axe)."""
    shown = open_page(browser, folder / name, *look)
    shown.page.screenshot(path=tmp_path / "page.png", full_page=True)
    assert (tmp_path / "page.png").stat().st_size > 20_000, "an empty page is smaller"
    assert shown.said == []
    assert [url for url in shown.fetched if not url.startswith(("file:", "data:"))] == []
    assert len([url for url in shown.fetched if url.startswith("file:")]) == 1
    assert shown.page.evaluate("document.documentElement.scrollWidth") <= look[0][0]
    found = Axe().run(shown.page).response["violations"]
    assert [(v["id"], v["nodes"][0]["html"]) for v in found if v["impact"] in SERIOUS] == []
    shown.page.close()


def test_every_chart_has_its_marks_and_reads_out(folder: Path, browser: Browser) -> None:
    """By pointing at it, and by the arrow keys, also aloud."""
    shown = open_page(browser, folder / RUN / "report.html", SIZES["desktop"], "light")
    page = shown.page
    charts = page.locator(".plot")
    assert charts.count() >= 4
    assert page.evaluate("document.documentElement.dataset.drawn") == str(charts.count())
    data = json.loads(page.locator("#data").inner_text())
    assert [mark["text"] for mark in data["marks"]] == [
        "healthy",
        "injected",
        "symptom proven",
        "fixed",
    ]
    for i in range(charts.count()):
        chart = charts.nth(i)
        assert chart.locator("canvas").count() == 1
        assert chart.get_attribute("aria-label")
        chart.scroll_into_view_if_needed()
        chart.locator(".u-over").hover(position={"x": 150, "y": 30})
        assert page.locator(".plot").nth(i).locator(".u-legend").inner_text().count(" s") >= 1
        chart.focus()
        page.keyboard.press("ArrowRight")
        title = data["charts"][int(chart.get_attribute("data-chart") or 0)]["title"]
        assert page.locator("#said").inner_text().startswith(f"{title}, second ")
    page.close()


def test_the_marks_are_drawn(folder: Path, browser: Browser) -> None:
    """The same chart without its story has fewer inked points above its plot."""
    shown = open_page(browser, folder / RUN / "report.html", SIZES["desktop"], "light")
    inked = """() => { const c = document.querySelector('.plot canvas');
        const at = c.getContext('2d').getImageData(0, 0, c.width, 40).data;
        let n = 0; for (let i = 3; i < at.length; i += 4) n += at[i] > 40; return n; }"""
    assert shown.page.evaluate(inked) > 100
    shown.page.close()


def test_what_was_tried_afterwards_can_be_shown(folder: Path, browser: Browser) -> None:
    """The charts end where it was fixed, until somebody asks for the rest."""
    shown = open_page(browser, folder / RUN / "report.html", SIZES["desktop"], "light")
    ticks = "() => document.querySelector('.plot canvas').toDataURL().length"
    before = shown.page.evaluate(ticks)
    shown.page.locator("#whole").check()
    shown.page.wait_for_timeout(100)
    assert shown.page.evaluate(ticks) != before
    shown.page.close()


def test_on_paper_it_is_light_and_whole(folder: Path, browser: Browser, tmp_path: Path) -> None:
    """Also for who reads it in the dark."""
    shown = open_page(browser, folder / RUN / "report.html", SIZES["desktop"], "dark")
    shown.page.emulate_media(media="print")
    colour = "getComputedStyle(document.body).backgroundColor"
    assert shown.page.evaluate(colour) == "rgb(255, 255, 255)"
    shown.page.pdf(path=tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").stat().st_size > 20_000
    shown.page.close()
