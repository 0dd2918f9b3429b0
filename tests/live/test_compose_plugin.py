"""Compose as a plugin of `docker`, built from its Go module; with LONG=1, for it takes minutes."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.commandline import finish, spawn

VERSION = "v2.24.7"
MODULE = "github.com/docker/compose/v2"


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Docker's configuration of a user who has installed the plugin for themselves."""
    if not os.environ.get("LONG"):
        pytest.skip("building Compose takes some minutes: LONG=1")
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if go is None:
        pytest.skip("no Go here to build it with")
    source = tmp_path_factory.mktemp("source")
    found = tmp_path_factory.mktemp("docker")
    (found / "cli-plugins").mkdir()
    out = found / "cli-plugins/docker-compose"
    for words in (
        ["mod", "init", "plugin"],
        ["get", f"{MODULE}@{VERSION}"],
        ["build", "-mod=mod", "-o", str(out), f"{MODULE}/cmd"],
    ):
        subprocess.run([go, *words], cwd=source, check=True, timeout=1800)
    yield found


def test_a_lab_with_the_plugin(config: Path) -> None:
    env = {"DOCKER_CONFIG": str(config)}
    for words, wanted in (
        (("doctor", "mtu"), "cli-plugins"),  # not that of the machine
        (("start", "mtu"), "make check-mtu"),
        (("fix", "mtu"), ""),
        (("check", "mtu"), ""),
        (("down", "mtu"), "nothing is left"),
    ):
        code, said = finish(spawn(*words, env=env))
        assert code == 0 and wanted in said, said
