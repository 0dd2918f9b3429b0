"""A node whose kernel labs may change: a VM, in the cluster of the tests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from faultlab.core.naming import stack_name
from faultlab.engine import kernel
from faultlab.engine.contract import Engine
from faultlab.engine.kubernetes.disposable import DisposableNodes
from faultlab.engine.shell import Shell
from faultlab.engine.vm import ssh
from tests.live import clusters
from tests.live.clusters import kubectl
from tests.live.commandline import finish, kill_9, spawn
from tests.live.test_engine import Launched
from tests.waiting import until

pytestmark = clusters.needs_time
ON_THE_CLUSTER = ("--engine", "kubernetes")
TABLE = "sysctl -n net.netfilter.nf_conntrack_max"


@pytest.fixture(scope="module")
def node() -> Iterator[DisposableNodes]:
    with clusters.disposable() as found:
        clusters.prepare()
        yield found


@pytest.fixture
def below(node: DisposableNodes) -> Iterator[Shell]:
    """The kernel of the VM, by ssh; in the end it is as before, and nothing of ours is left."""
    with pytest.MonkeyPatch.context() as patch:  # for others it is not the lab VM
        patch.setenv("FAULTLAB_VM_NAME", clusters.NODE_VM)
        shell = ssh.Connection().kernel
    before, things = kernel.read(shell), clusters.things()
    yield shell
    assert kernel.differences(before, kernel.read(shell)) == [] and node.stacks() == []
    until(lambda: clusters.things() == things, 60, "all that the test made is gone")


class TestOnADisposableNode(Launched):
    """The contract of an engine."""

    @pytest.fixture(scope="class")
    @classmethod
    def engine(cls, node: DisposableNodes) -> Engine:
        return node


def test_a_walk_of_a_lab_of_a_whole_kernel(below: Shell, tmp_path: Path) -> None:
    """It is a Job like all others. The lab finds its kernel on the marked node by itself."""
    assert below.must("id -u") == "0\n"
    file = tmp_path / "campaign.json"
    code, said = finish(
        spawn("verify", "conntrack", "--quick", *ON_THE_CLUSTER, "--json", str(file)), 1500
    )
    assert code == 0, said
    (case,) = json.loads(file.read_text())["cases"]
    assert (case["verdict"], case["engine"]) == ("pass", "node")


def test_a_start_that_is_killed(below: Shell) -> None:
    """`down` finds the stack and restores the kernel."""
    before = below.must(TABLE)
    process = spawn("start", "conntrack", *ON_THE_CLUSTER)
    assert process.stdout is not None  # to ask the VM often would disturb the look
    assert any("inject" in line and "done" in line for line in process.stdout)
    kill_9(process)
    assert below.must(TABLE) != before
    code, said = finish(spawn("down", "conntrack"))
    assert code == 0, said
    assert below.must(TABLE) == before


def test_an_agent_that_is_lost(below: Shell) -> None:
    """The next lab on the node restores what the lost one has changed."""
    before = below.must(TABLE)
    code, said = finish(spawn("start", "conntrack", *ON_THE_CLUSTER))
    assert code == 0 and "proven" in said, said
    kubectl("delete", "namespace", stack_name("conntrack"), "--wait")
    assert below.must(TABLE) != before
    code, said = finish(spawn("start", "conntrack", *ON_THE_CLUSTER))
    assert code == 0 and "proven" in said, said
    code, said = finish(spawn("start", "softirq", *ON_THE_CLUSTER))
    assert code == 3 and "on the same kernel" in said, said
    assert finish(spawn("down", "conntrack"))[0] == 0
    assert below.must(TABLE) == before


def test_no_other_lab_is_there(below: Shell) -> None:
    assert below.must("id -u") == "0\n"
    code, said = finish(spawn("start", "mtu", *ON_THE_CLUSTER))
    assert code == 0, said
    pods = json.loads(kubectl("get", "pods", "-n", stack_name("mtu"), "-o", "json"))["items"]
    assert {pod["spec"]["nodeName"] for pod in pods} == {"node"}
    assert finish(spawn("down", "mtu"))[0] == 0
