"""Bounds: the files of a cgroup that are written, in both versions; live tests see the limits."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from faultlab.core.errors import CannotRun
from faultlab.engine.docker.bounds import Bounded

ONE = ["cpu/cpu.cfs_quota_us", "memory/memory.limit_in_bytes", "pids/pids.max", "blkio/tasks"]
TWO = ["cpu.max", "memory.max", "pids.max"]
LIMITS = {"cpus": 1.5, "mem_limit": "4g", "memswap_limit": "4g", "pids_limit": 2048}


def at(folder: Path, path: str, file: str) -> Path:
    """Return where a file of a cgroup is: in version 1 below the folder of its controller."""
    controller, _, name = file.rpartition("/")
    return folder / controller / path / name


def here(folder: Path) -> Bounded:
    class Here(Bounded):
        cgroups = folder
        owns_kernel = True  # no share of this machine

        def __init__(self) -> None:
            pass

        def once(self, image: str, script: str, stack: str, *_: object, **__: object) -> str:
            there = script.replace("/cgroup", str(folder))
            done = subprocess.run(["sh", "-ec", there], capture_output=True, text=True, check=False)
            if done.returncode:
                raise CannotRun(done.stderr)
            return done.stdout

    Here.__abstractmethods__ = frozenset()
    return Here()  # type: ignore[abstract]


@pytest.mark.parametrize(
    ("files", "parent", "path"),
    [
        (ONE, "/faultlab/anna-1-mtu", "faultlab/anna-1-mtu"),
        (TWO, "/faultlab/anna-1-mtu", "faultlab/anna-1-mtu"),
        (TWO, "faultlab-anna_1_mtu.slice", "faultlab.slice/faultlab-anna_1_mtu.slice"),
    ],
)
def test_the_limits_of_a_stack(files: list[str], parent: str, path: str, tmp_path: Path) -> None:
    for file in files:
        at(tmp_path, path, file).parent.mkdir(parents=True, exist_ok=True)
        at(tmp_path, path, file).write_text("max\n")
    here(tmp_path).bind("stack", parent, LIMITS)
    written = [at(tmp_path, path, file).read_text().strip() for file in files[:3]]
    assert written == ["150000", "4294967296", "2048"]
    if files is ONE:
        assert at(tmp_path, path, ONE[3]).read_text() == "max\n"


@pytest.mark.parametrize(
    "path",
    ["faultlab/anna-1-mtu", "cpu/faultlab/anna-1-mtu", "faultlab.slice/faultlab-anna_1_mtu.slice"],
)
def test_the_cgroup_of_a_stack_goes_with_it(path: str, tmp_path: Path) -> None:
    """And no other one, though its name begins alike."""
    others = [tmp_path / "faultlab/anna-1-mtu-2", tmp_path / "docker/faultlab"]
    for folder in (tmp_path / path, *others):
        folder.mkdir(parents=True)
    engine, stack = here(tmp_path), "faultlab-anna-1-mtu"
    engine.once("machine", engine.unbinding(stack), stack, cgroups=True)
    assert not (tmp_path / path).exists() and all(other.is_dir() for other in others)
    assert engine.unbinding(stack) == ""


def test_a_cgroup_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CannotRun, match=r"neither memory\.max nor memory\.limit_in_bytes"):
        here(tmp_path).bind("stack", "/faultlab/x", {"mem_limit": "1g"})
