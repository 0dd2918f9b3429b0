"""Daemons: their facts, and the page that says how to add one, made in a copy of the project."""

from __future__ import annotations

import re
import shutil

import pytest

from faultlab.lab import collection, daemon, images, services
from tests.unit.conftest import REPO, Project, Run, forget, said

PAGE = (REPO / "docs/adding-a-daemon.md").read_text()
FACTS = "images/redis/daemon.toml"
STACK = services.read(collection.ours())


@pytest.fixture
def added(project: Project) -> Project:
    """A project with the daemon of the page."""
    (project.root / "images").unlink()
    shutil.copytree(REPO / "images", project.root / "images", copy_function=shutil.copyfile)
    (project.root / "images/redis").mkdir(exist_ok=True)
    files = re.findall(r"^`(images/\S+)`:\n\n```\w*\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    for file, text in files:
        project.write(file, text)
    (stanza,) = re.findall(r"```yaml\nservices:\n(.*?)\nvolumes:\n(.*?)```", PAGE, re.DOTALL)
    stack = (project.root / "labs/stack.yaml").read_text()
    if "redis" in STACK.daemons:
        return project  # somebody has added it
    for key, part in zip(("volumes", "networks"), stanza, strict=True):
        stack = stack.replace(f"\n{key}:\n", f"\n{part}\n{key}:\n")
    project.write("labs/stack.yaml", stack)
    return project


def test_the_daemon_of_the_page(added: Project) -> None:
    plan = services.read(collection.ours())
    assert plan.needed(["redis"]) == ["client", "store", "redis"]
    assert plan.images(["redis"]) == ["machine", "redis"]
    facts = plan.facts("redis")
    assert (facts.log, facts.probe) == ("/var/log/redis", "")
    assert facts.status == {"redis.info": "redis-cli info"}
    (stack,) = plan.documents("x", ["redis"], "198.18.0.0/24", {})
    assert stack["services"]["redis"]["image"] == images.tag("redis")
    assert {"redis-etc", "redis-log"} <= stack["volumes"].keys()


def test_its_facts_change_no_image(added: Project) -> None:
    before = images.tag("redis")
    added.write(FACTS, "")
    forget()
    assert images.tag("redis") == before


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("logs = '/var/log/redis'", "logs: unknown key"),
        ("log = 'redis'", "log: String should match pattern '^/[\\w./-]+$', got 'redis'"),
        ("probe = 'redis'", "probe: expected '', 'fpm' or 'mysql', got 'redis'"),
        ("status = 'redis-cli info'", "status: expected a valid dictionary, got 'redis-cli info'"),
    ],
)
def test_a_mistake_in_its_facts(text: str, problem: str, added: Project, faultlab: Run) -> None:
    added.write(FACTS, text)
    wanted = said(f"{FACTS}: {problem}", f"edit {FACTS}; docs/adding-a-daemon.md lists the keys")
    assert faultlab("start", "mtu") == wanted
    assert not text.startswith("logs") or wanted.err in PAGE


def test_a_daemon_without_facts(added: Project, faultlab: Run) -> None:
    (added.root / FACTS).unlink()
    wanted = said(f"{FACTS}: missing file", "see docs/adding-a-daemon.md")
    assert faultlab("start", "mtu") == wanted


def test_the_page_lists_the_keys() -> None:
    table = PAGE[PAGE.index("| key |") : PAGE.index("All keys")]
    assert set(re.findall(r"^\| `(\w+)`", table, re.MULTILINE)) == {*daemon.Daemon.model_fields}
