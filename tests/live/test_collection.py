"""Other people's labs beside ours: the example collection in a class, and as a mystery."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from faultlab.core import paths
from faultlab.lab import collection
from tests.live.classes import Class, opened, type_into
from tests.live.commandline import finish, spawn

pytestmark = pytest.mark.rotates(together=True, minutes=2)
PLAN = """
title = "A class with a shop"
seats = ["Ada"]
labs  = ["mtu", "acme/redis-evict"]
later  = 0
"""


@pytest.fixture(autouse=True)
def acme(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(collection.PATH, str(paths.root() / "tests/collection"))


def test_a_class_with_a_lab_of_ours_and_one_of_another(tmp_path: Path, browser: Browser) -> None:
    """One learner meets both, types in a machine of each, and reads both lessons."""
    its, said, met = Class(tmp_path, "shop", PLAN), list[str](), set[str]()
    its.start()
    try:
        for before in range(2):
            its.wait(*["over"] * before, "red")
            ada = opened(browser, its.told["seats"]["Ada"], said)
            type_into(ada, "client", "hostname && echo do''ne", r"^done$")
            ada.click("[data-act=give-up]")
            debrief = ada.locator("#debrief")
            debrief.get_by_text("It was ").first.wait_for()
            text = debrief.inner_text()
            met |= {lab for lab in ("mtu", "acme/redis-evict") if f"It was {lab}" in text}
            if len(met) == 1:
                ada.click("[data-act=next]")
            ada.close()
        assert met == {"mtu", "acme/redis-evict"} and said == []
    finally:
        its.ended()


def test_a_mystery_of_its_tier() -> None:
    code, said = finish(spawn("mystery", "--tier", "store", "--seed", "3"))
    try:
        assert code == 0 and "sessions on" in said, said
    finally:
        assert finish(spawn("down", "mystery"))[0] == 0
