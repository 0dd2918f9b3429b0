"""The contract across labs: a fault that is none comes out red, and stacks keep to themselves."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from faultlab.core import lock, paths
from faultlab.core.errors import SaidNo
from faultlab.core.naming import stack_name
from faultlab.engine.docker.local import LocalEngine
from faultlab.engine.stack import Stack
from faultlab.lab import loader as labs
from faultlab.lab import release
from faultlab.lab.model import Step
from faultlab.run import preflight
from faultlab.run.contract import Contract
from faultlab.run.phase import FAULTY
from faultlab.run.stack_in_phase import stack_in_phase
from tests.live.host import differences, snapshot
from tests.live.stacks import container, engine_for, untouched

NOOP = Step(at="client", run="true")
# One that is told by an answer, one by its speed, and one of the VM's kernel, with their minutes.
# Of every lab `Contract.test_opposite` says that no healthy stack of a walk shows the symptom.
NOOPS = {"mtu": 0.2, "port-range": 0.2, "conntrack": 1}
ALLOWED_CAPABILITIES = {"NET_ADMIN", "NET_RAW", "SYS_PTRACE"}


@pytest.fixture(scope="module")
def quiet_stack() -> Iterator[Stack]:
    """The stack of the control `healthy`, with nothing done to it."""
    with untouched("healthy", "contract", collects=True) as run:
        yield run.stack


def faultlab(*arguments: str, root: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command line as a user does."""
    env = {**os.environ, **({"FAULTLAB_ROOT": str(root)} if root else {})}
    command = [sys.executable, "-m", "faultlab", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=env, check=False)


@pytest.mark.parametrize(
    "lab_id",
    [
        pytest.param(lab_id, marks=pytest.mark.rotates(minutes=minutes))
        for lab_id, minutes in NOOPS.items()
    ],
)
def test_a_fault_that_is_none_is_red(lab_id: str) -> None:
    """With a no-op instead of the fault, the gate stays shut and the symptom test fails."""
    lab = labs.load(lab_id).model_copy(update={"inject": [NOOP]})
    engine = engine_for(lab)
    name = stack_name(lab_id)
    with lock.hold(name, "test"), stack_in_phase(engine, lab, name) as run:
        run.healthy()
        run.inject()
        with pytest.raises(SaidNo, match="no effect"):
            run.gate()
        contract = Contract()
        with pytest.raises(AssertionError, match="the symptom does not show"):
            contract.test_symptom(run)
        assert all(finding.holds for finding in run.good(FAULTY))


@pytest.mark.rotates(minutes=0.25)
@pytest.mark.beside
def test_no_effect_is_rolled_back_and_exits_1(tmp_path: Path) -> None:
    """`start` and `verify` of a lab whose fault does nothing: exit 1, and nothing is left."""
    for folder in ("labs", "checks", "images"):
        shutil.copytree(paths.root() / folder, tmp_path / folder)
    for name in ("pyproject.toml", "collection.toml"):
        shutil.copy(paths.root() / name, tmp_path)
    file = tmp_path / "labs" / "mtu" / "lab.toml"
    file.write_text(file.read_text().replace("mtu 100", "mtu 1500"))
    started = faultlab("start", "mtu", root=tmp_path)
    assert started.returncode == 1, started.stdout + started.stderr
    assert "the fault has no effect" in started.stderr
    assert "curl's exit code: measured 0, wanted exactly 28" in started.stderr
    assert "Rolled back" in started.stderr
    assert not LocalEngine().leftovers(stack_name("mtu"))
    verified = faultlab("verify", "mtu", root=tmp_path)
    assert verified.returncode == 1, verified.stdout + verified.stderr
    assert "fail" in verified.stdout


@pytest.mark.rotates(minutes=0.25)
@pytest.mark.beside
def test_several_labs_at_once() -> None:
    """Two learners' labs come up side by side, each on its own subnet."""
    chosen = ["mtu", "iptables-drop"]
    try:
        with ThreadPoolExecutor() as pool:
            done = list(pool.map(lambda lab_id: faultlab("start", lab_id), chosen))
        for result in done:
            assert result.returncode == 0, result.stdout + result.stderr
        engine = LocalEngine()
        subnets = {
            network.attrs["IPAM"]["Config"][0]["Subnet"]
            for lab_id in chosen
            for network in engine.networks(stack_name(lab_id))
        }
        assert len(subnets) == len(chosen)
        assert all(subnet.startswith(("198.18.", "198.19.")) for subnet in subnets)
    finally:
        for lab_id in chosen:
            assert faultlab("down", lab_id).returncode == 0


@pytest.mark.rotates
@pytest.mark.beside
def test_a_machine_is_like_a_host_but_shut_in(quiet_stack: Stack) -> None:
    """net.* can be set, kernel.* and vm.* not; there is no way out; no container has much power."""
    assert preflight.sysctls(quiet_stack["web"]).ok
    for machine in quiet_stack.values():
        host = container(machine).attrs["HostConfig"]
        assert not host["Privileged"]
        assert host["NetworkMode"] != "host" and host["PidMode"] != "host"
        assert set(host["CapAdd"] or []) <= ALLOWED_CAPABILITIES
        assert not host["PortBindings"]
        assert machine.run("ip route show default").out == ""
        assert machine.run("ip route get 192.0.2.1").code != 0
    assert quiet_stack["web"].run(release.text("pgrep -x nginx && pgrep -x php-fpm8.2")).code == 0


@pytest.mark.rotates
@pytest.mark.beside
def test_a_daemon_restarts_and_its_machine_keeps_its_settings(quiet_stack: Stack) -> None:
    """Interface, sysctls and rules belong to the machine, not to the daemon."""
    web = quiet_stack["web"]
    web.must("ip link set dev eth0 mtu 1200; sysctl -w net.core.somaxconn=77")
    web.must("iptables -A INPUT -p udp --dport 9 -j DROP; tc qdisc add dev eth0 root pfifo")
    before = web.must("ip link show eth0; sysctl net.core.somaxconn; iptables -S; tc qdisc")
    quiet_stack["nginx"].restart()
    quiet_stack.wait_ready()
    after = web.must("ip link show eth0; sysctl net.core.somaxconn; iptables -S; tc qdisc")
    assert before == after


@pytest.mark.rotates(minutes=0.25)
@pytest.mark.alone
def test_the_host_is_as_it_was_after_a_lab() -> None:
    """Sysctls, rules, interfaces, qdiscs, mounts and foreign Docker objects before and after."""
    before = snapshot()
    assert faultlab("start", "iptables-drop").returncode == 0
    assert faultlab("fix", "iptables-drop").returncode == 0
    assert faultlab("check", "iptables-drop").returncode == 0
    assert faultlab("down", "iptables-drop").returncode == 0
    assert differences(before, snapshot()) == []
