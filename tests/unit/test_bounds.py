"""Bounds: the files of a cgroup that are written, in both versions; live tests see the limits."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from faultlab.core.errors import CannotRun
from faultlab.engine.docker.bounds import StackBounds

ONE = ["cpu/cpu.cfs_quota_us", "memory/memory.limit_in_bytes", "pids/pids.max", "blkio/tasks"]
TWO = ["cpu.max", "memory.max", "pids.max"]
LIMITS = {"cpus": 1.5, "mem_limit": "4g", "memswap_limit": "4g", "pids_limit": 2048}


def at(folder: Path, path: str, file: str) -> Path:
    """Return where a file of a cgroup is: in version 1 below the folder of its controller."""
    controller, _, name = file.rpartition("/")
    return folder / controller / path / name


def bounds(folder: Path) -> StackBounds:
    alone = SimpleNamespace(owns_kernel=True)  # no share of this machine
    return StackBounds(cast(Any, alone), folder)


def run(script: str, folder: Path) -> None:
    there = script.replace("/cgroup", str(folder))
    done = subprocess.run(["sh", "-ec", there], capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotRun(done.stderr)


@pytest.mark.parametrize(
    ("files", "parent", "path"),
    [
        (ONE, "/stacks19818/anna-1-mtu", "stacks19818/anna-1-mtu"),
        (TWO, "/stacks19818/anna-1-mtu", "stacks19818/anna-1-mtu"),
        (TWO, "stacks19818-anna_1_mtu.slice", "stacks19818.slice/stacks19818-anna_1_mtu.slice"),
    ],
)
def test_the_limits_of_a_stack(files: list[str], parent: str, path: str, tmp_path: Path) -> None:
    for file in files:
        at(tmp_path, path, file).parent.mkdir(parents=True, exist_ok=True)
        at(tmp_path, path, file).write_text("max\n")
    run(bounds(tmp_path).binding(parent, LIMITS), tmp_path)
    written = [at(tmp_path, path, file).read_text().strip() for file in files[:3]]
    assert written == ["150000", "4294967296", "2048"]
    if files is ONE:
        assert at(tmp_path, path, ONE[3]).read_text() == "max\n"


@pytest.mark.parametrize(
    "path",
    [
        "stacks19818/anna-1-mtu",
        "cpu/stacks19818/anna-1-mtu",
        "stacks19818.slice/stacks19818-anna_1_mtu.slice",
    ],
)
def test_the_cgroup_of_a_stack_goes_with_it(path: str, tmp_path: Path) -> None:
    """And no other one, though its name begins alike."""
    others = [tmp_path / "stacks19818/anna-1-mtu-2", tmp_path / "docker/faultlab"]
    for folder in (tmp_path / path, *others):
        folder.mkdir(parents=True)
    its, stack = bounds(tmp_path), "faultlab-anna-1-mtu"
    run(its.unbinding(stack), tmp_path)
    assert not (tmp_path / path).exists() and all(other.is_dir() for other in others)
    assert its.unbinding(stack) == ""


def test_a_cgroup_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CannotRun, match=r"neither memory\.max nor memory\.limit_in_bytes"):
        run(bounds(tmp_path).binding("/stacks19818/x", {"mem_limit": "1g"}), tmp_path)
