"""setup/lock: pyproject.toml has ranges, the lock files have a pin and hashes for each of them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.unit.conftest import REPO

LOCKS = REPO / "setup/lock"
PROJECT = tomllib.loads((REPO / "pyproject.toml").read_text())
EXTRAS = PROJECT["project"]["optional-dependencies"]
GROUPS = PROJECT["dependency-groups"]  # a release includes the group of uv
NAMES = ("plain", "web", "cluster", "test", "release", "uv")
PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>\S+)(?: ; (?P<marker>.+?))? \\$")


def wanted(lock: str) -> list[Requirement]:
    """Return the ranges that a lock file must satisfy."""
    texts: list[str] = [*PROJECT["build-system"]["requires"]]
    if lock in GROUPS:
        texts += [*GROUPS["uv"], *filter(lambda each: isinstance(each, str), GROUPS[lock])]
    else:
        texts += [*PROJECT["project"]["dependencies"], *EXTRAS["plot"], *EXTRAS["verify"]]
    if lock in ("web", "cluster", "test"):
        texts += EXTRAS["web"]
    if lock == "cluster":
        texts += EXTRAS["kubernetes"]
    if lock == "test":
        texts += [*EXTRAS["docs"], *EXTRAS["test"]]
    return [each for each in map(Requirement, texts) if each.name != "faultlab"]


def pins(lock: str) -> dict[str, list[str]]:
    """Return the versions of each package; more than one if Pythons differ."""
    found: dict[str, list[str]] = {}
    for line in (LOCKS / f"{lock}.txt").read_text().splitlines():
        if pin := PIN.match(line):
            found.setdefault(canonicalize_name(pin["name"]), []).append(pin["version"])
    return found


@pytest.mark.parametrize("lock", NAMES)
def test_each_range_has_a_pin_that_fits(lock: str) -> None:
    found = pins(lock)
    for requirement in wanted(lock):
        versions = found.get(canonicalize_name(requirement.name))
        assert versions, f"{requirement} is not in setup/lock/{lock}.txt; next: make lock"
        for version in versions:
            assert requirement.specifier.contains(version), f"{requirement}: {version} is locked"


@pytest.mark.parametrize("lock", NAMES)
def test_each_line_is_a_pin_with_hashes(lock: str) -> None:
    text = (LOCKS / f"{lock}.txt").read_text()
    blocks = re.split(r"\n(?=\S)", "\n".join(line for line in text.splitlines() if line[:1] != "#"))
    for block in filter(None, blocks):
        first, *hashes = block.splitlines()
        assert PIN.match(first), first
        assert hashes and all(re.match(r"    --hash=sha256:[0-9a-f]{64}", h) for h in hashes), first
    assert "://" not in text, "no index has a place here"


def test_the_locks_agree() -> None:
    whole = pins("test")
    for lock in ("plain", "web", "cluster"):
        assert {name: whole.get(name) for name in pins(lock)} == pins(lock)


def test_no_other_lock_is_there() -> None:
    assert {file.name for file in Path(LOCKS).iterdir()} == {f"{name}.txt" for name in NAMES}
