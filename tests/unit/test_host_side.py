"""What the host has for the stacks: the scripts of its helpers are run, with programs that pretend.

What the kernel makes of it is in tests/live/test_security.py.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from faultlab.admin import status
from faultlab.core.errors import CannotRun
from faultlab.core.terminal import Terminal
from faultlab.engine.docker import launch, untracked
from faultlab.engine.docker.bounds import StackBounds
from faultlab.engine.docker.local import LocalEngine
from faultlab.lab import services
from tests.unit.fake import FakeEngine, only_fake

# A file is a table, a device that is in the group, or a bridge that learns no addresses.
NFT = """#!/bin/sh
case "$*" in
  "-f -") cat >$HERE/transaction && [ ! -e $HERE/broken ] && cp $HERE/transaction $HERE/table ;;
  "list table inet faultlab") cat $HERE/table ;;
  "delete table inet faultlab") rm $HERE/table; [ ! -e $HERE/late ] || mv $HERE/late $HERE/group ;;
  *) exit 9 ;;
esac
"""
IP = """#!/bin/sh
case "$*" in
  "link set dev "*" group 19818") echo "$4: <UP>" >>$HERE/group ;;
  "-o link show group 19818") cat $HERE/group 2>/dev/null || : ;;
  "-o link show dev eth0")
    echo "2: eth0@if41: <UP> mtu 1500 \\\\    link/ether 02:42:c6:12:00:02 brd ff:ff" ;;
  "-o link show")
    echo "4: veth4@if2: <UP> mtu 1500 master br-1"
    echo "41: veth41@if2: <UP> mtu 1500 master br-1" ;;
  "link set dev "*" type bridge ageing_time 0") [ -e $HERE/learns ] || touch $HERE/ageing ;;
  "-d link show dev br-1") [ ! -e $HERE/ageing ] || echo " bridge ageing_time 0 vlan" ;;
  *) exit 9 ;;
esac
"""
BRIDGE = """#!/bin/sh
cat $2 >>$HERE/fdb
"""


class Host:
    """A folder with the programs, and with what they have changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "bin").mkdir()
        for name, text in (("nft", NFT), ("ip", IP), ("bridge", BRIDGE)):
            (folder / "bin" / name).write_text(text)
            (folder / "bin" / name).chmod(0o755)
        self.call("1")

    def call(self, iptables: str, ip6tables: str = "0") -> None:
        (self.folder / "bridge-nf-call-iptables").write_text(f"{iptables}\n")
        (self.folder / "bridge-nf-call-ip6tables").write_text(f"{ip6tables}\n")

    def run(self, script: str) -> str:
        there = script.replace("/proc/sys/net/bridge", str(self.folder))
        where = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        done = subprocess.run(
            ["sh", "-ec", there],
            env={**os.environ, "PATH": where, "HERE": str(self.folder)},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise CannotRun(done.stderr)
        return done.stdout

    def has(self, name: str) -> bool:
        return (self.folder / name).exists()


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@pytest.mark.parametrize("settings", [("1", "1"), ("1", "0"), ("0", "1")])
def test_the_packets_of_a_stack_are_not_tracked(host: Host, settings: tuple[str, str]) -> None:
    host.call(*settings)
    for _ in range(2):  # a second stack
        host.run(untracked.beginning(["br-1"]))
    made = (host.folder / "table").read_text()
    assert "hook prerouting priority -450" in made and "iifgroup 19818 notrack" in made
    assert (host.folder / "group").read_text().startswith("br-1:")


def test_a_host_that_tracks_no_bridge_has_no_table(host: Host) -> None:
    """But the bridge is marked, in case another stack finds the setting changed."""
    host.call("0", "0")
    host.run(untracked.beginning(["br-1"]))
    for name in ("iptables", "ip6tables"):  # a kernel without br_netfilter
        (host.folder / f"bridge-nf-call-{name}").unlink()
    host.run(untracked.beginning(["br-1"]))
    assert host.has("group") and not host.has("table")
    assert host.run(untracked.REMOVE) == ""


def test_a_table_that_cannot_be_made_is_an_error(host: Host) -> None:
    (host.folder / "broken").touch()
    with pytest.raises(CannotRun, match="the host tracks the packets of labs"):
        host.run(untracked.beginning(["br-1"]))


def test_the_table_goes_with_the_last_stack(host: Host) -> None:
    host.run(untracked.beginning(["br-1"]))
    assert host.run(untracked.REMOVE) == "" and host.has("table")
    (host.folder / "group").unlink()  # the kernel removes a bridge with its group
    assert host.run(untracked.REMOVE) == "table inet faultlab of the packet filter\n"
    assert not host.has("table")
    assert host.run(untracked.REMOVE) == ""


def test_a_stack_that_starts_while_the_last_one_ends(host: Host) -> None:
    """Its bridge came between the look at the group and the removal of the table."""
    host.run(untracked.beginning(["br-1"]))
    (host.folder / "group").rename(host.folder / "late")
    host.run(untracked.REMOVE)
    assert host.has("group") and host.has("table")


def test_a_bridge_knows_its_machines_and_learns_nothing(host: Host) -> None:
    """An address that is drawn for each frame was an entry of the host's memory for 300 s."""
    link = host.run("ip -o link show dev eth0")
    (host.folder / "links").write_text(link)
    host.run(f"links={host.folder}/links\n" + launch.knowing(["br-1"]))
    known = (host.folder / "fdb").read_text()
    assert known == "fdb replace 02:42:c6:12:00:02 dev veth41 master static\n"
    assert host.has("ageing")


def test_a_bridge_that_goes_on_learning_is_an_error(host: Host) -> None:
    (host.folder / "links").touch()
    (host.folder / "learns").touch()
    with pytest.raises(CannotRun, match="br-1 goes on learning addresses"):
        host.run(f"links={host.folder}/links\n" + launch.knowing(["br-1"]))


class Docker(LocalEngine):
    """An engine with the networks and containers that a test says, and the scripts of helpers."""

    def __init__(self, folder: Path) -> None:
        self.bounds = StackBounds(self, folder, folder)
        self.helpers = cast(Any, self)
        (folder / "pid_max").write_text("32768\n")
        (folder / "threads-max").write_text("190000\n")
        self.up: list[str] = []
        self.scripts: list[str] = []
        self.said: dict[str, Any] = {
            "CgroupDriver": "cgroupfs",
            "MemTotal": 16 << 30,
            "MemoryLimit": True,
            "PidsLimit": True,
        }
        self.images = FakeEngine().images

    def info(self) -> dict[str, Any]:
        return self.said

    def networks(self, stack: str = "") -> list[Any]:
        names = [name for name in self.up if stack in ("", name)]
        remove = self.up.remove
        return [SimpleNamespace(id=n, name=n, remove=partial(remove, n)) for n in names]

    def containers(self, stack: str = "") -> list[Any]:
        return []

    volumes = containers

    def all_stacks(self) -> Mapping[str, str]:
        return dict.fromkeys(self.up, "mtu")

    def on_host(self, script: str, *_: object, **__: object) -> str:
        self.scripts.append(script)
        return "table inet faultlab of the packet filter\n" if "delete table" in script else ""


def test_only_the_last_stack_removes_the_table(tmp_path: Path) -> None:
    engine = Docker(tmp_path)
    engine.up = ["faultlab-a-mtu", "faultlab-b-mtu"]
    engine._down("faultlab-a-mtu")
    engine._down("faultlab-c-mtu")  # there is no such stack
    assert engine.scripts == []
    engine._down("faultlab-b-mtu")
    (script,) = engine.scripts
    assert untracked.REMOVE in script


def test_a_sweep_removes_what_a_killed_command_left(tmp_path: Path) -> None:
    """It was killed between the removal of the last network and that of the table."""
    engine = Docker(tmp_path)
    (tmp_path / "memory/stacks19818/b-mtu").mkdir(parents=True)
    assert engine.tidy() == ["table inet faultlab of the packet filter"]
    assert "/cgroup/stacks19818/b-mtu" in engine.scripts[0]
    engine.up = ["faultlab-b-mtu"]
    assert engine.tidy() == [] and len(engine.scripts) == 1


class Untidy(FakeEngine):
    """An engine beside which a killed command has left something."""

    def tidy(self) -> list[str]:
        """Remove it."""
        return ["table inet faultlab"]


def test_sweep_asks_each_engine_to_tidy(monkeypatch: pytest.MonkeyPatch) -> None:
    only_fake(monkeypatch, Untidy())
    assert status.sweep(Terminal(), images_too=False).removed == ["table inet faultlab"]


def test_every_stack_is_limited_by_the_size_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fork bomb of an agent took the host: only a class had limits."""
    monkeypatch.delenv(services.LIMITS_IN_ALL, raising=False)
    engine = Docker(tmp_path)
    assert engine.most() == {
        "mem_limit": "12288m",
        "memswap_limit": "12288m",
        "pids_limit": 8192,
    }
    script = engine.bounds.binding("/faultlab/a-mtu", engine.most())
    assert "put pids.max pids.max 8192" in script and f"{12 << 30}" in script
    assert "put pids.max pids.max 24576" in script and f"{14 << 30}" in script  # all together


def test_the_limits_of_a_class_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(services.LIMITS_IN_ALL, "cpus=1.5 pids=2048")
    most = Docker(tmp_path).most()
    assert (most["cpus"], most["pids_limit"], most["mem_limit"]) == (1.5, 2048, "12288m")


def test_a_docker_that_cannot_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(services.LIMITS_IN_ALL, raising=False)
    engine = Docker(tmp_path)
    engine.said["MemoryLimit"] = False  # a kernel that was booted without its controller
    assert engine.most() == {"pids_limit": 8192}
    engine.said["CgroupDriver"] = "none"
    assert engine.most() == {}


def test_a_machine_that_is_ours_alone_limits_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its labs fill the memory of the whole kernel, such as `swap`."""
    monkeypatch.delenv(services.LIMITS_IN_ALL, raising=False)
    engine = Docker(tmp_path)
    monkeypatch.setattr(Docker, "owns_kernel", True)
    engine.up = ["faultlab-a-conntrack"]
    engine._down("faultlab-a-conntrack")
    assert engine.most() == {} and engine.tidy() == [] and engine.scripts == []
