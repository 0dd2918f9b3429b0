"""The bundle on a bare Debian without a network: all that the labs need comes out of it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from faultlab.core import paths
from tests.live.bare import APART, ENTER
from tests.live.commandline import ended, finish, spawn

BUNDLE = "faultlab.bundle.tar"


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Debian with make and nothing else of what we need, with this checkout and a bundle."""
    if os.geteuid() != 0:
        pytest.skip("only root can make a machine out of namespaces")
    root = tmp_path_factory.mktemp("bare")
    install = ["mmdebstrap", "--quiet", "--variant=minbase", "--include=make,iproute2", "bookworm"]
    subprocess.run([*install, str(root)], check=True)
    for tool in ("docker", "python3", "virsh"):
        assert not (root / "usr/bin" / tool).exists()
    here = root / "srv/faultlab"
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=paths.root(), capture_output=True, text=True, check=True
    )
    for name in listed.stdout.rstrip("\0").split("\0"):
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(paths.root() / name, here / name)
    code, said = finish(spawn("bundle", "--out", str(here / BUNDLE)))
    assert code == 0, said
    return root


def inside(machine: Path, command: str) -> tuple[int, str]:
    """Run a command on the machine as its root: exit code and output."""
    return ended([*APART, ENTER, str(machine), command], timeout=1200)


@pytest.mark.rotates(turn=0)
@pytest.mark.alone
def test_a_bare_machine_without_a_network(machine: Path) -> None:
    """Set up from the bundle, then a lab here and one in the VM, and no packet leaves."""
    code, said = inside(
        machine,
        f"""
        set -x
        rm -rf /etc/apt/sources.list*
        cd /srv/faultlab
        [ "$(ls /sys/class/net)" = lo ]
        make setup BUNDLE=$PWD/{BUNDLE}
        make lab-mtu
        if make check-mtu; then exit 9; fi
        make fix-mtu check-mtu down-mtu
        make vm lab-conntrack fix-conntrack check-conntrack down-conntrack
        """,
    )
    assert code == 0, said
    assert all(f"{lab}: yes, it works as before." in said for lab in ("mtu", "conntrack"))
    assert "making it from Debian" not in said and "vm image" not in said, said
