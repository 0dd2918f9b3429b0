"""The contract of an engine, on Docker here and in the lab VM, and on a cluster of one node."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from faultlab.core.naming import stack_name
from faultlab.engine.contract import Engine, Program
from faultlab.engine.docker.local import LocalEngine
from faultlab.engine.stack import Stack
from faultlab.engine.vm import libvirt
from faultlab.engine.vm.engine import VmEngine
from faultlab.lab import loader as labs
from tests.engine import EngineContract
from tests.live import clusters

pytestmark = pytest.mark.beside


class Launched(EngineContract):
    @pytest.fixture(scope="class")
    @classmethod
    def stack(cls, engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
        engine.images.ensure(print)
        name = stack_name("engine")
        try:
            engine.launch(labs.load("mtu"), name, "r", tmp_path_factory.mktemp("run"))
            made = Stack(engine, name)
            made.make_ready()
            yield made
        finally:
            engine.down(name)

    def test_programs_at_once_have_limits_of_their_own(self, engine: Engine, stack: Stack) -> None:
        tree = "/sys/fs/cgroup"
        command = ["sh", "-c", f"cat {tree}/pids.max {tree}/pids/pids.max 2>/dev/null; true"]

        def limit(processes: int) -> int:
            facts: dict[str, Any] = {
                "memory": "64m",
                "processes": processes,
                "inside": stack["web"],
            }
            with engine.process(Program("machine", command, stack.name, **facts)) as process:
                said = b"".join(out or b"" for out, _ in process.output)
                assert process.wait(30) == 0
            return int(said)

        wanted = range(100, 108)
        with ThreadPoolExecutor(len(wanted)) as pool:
            assert [*pool.map(limit, wanted)] == [*wanted]


class TestLocal(Launched):
    """Docker on this machine."""

    @pytest.fixture(scope="class")
    @classmethod
    def engine(cls) -> Engine:
        return LocalEngine()


@pytest.mark.rotates(together=True, minutes=3)
class TestInTheVm(Launched):
    """Docker in the lab VM."""

    @pytest.fixture(scope="class")
    @classmethod
    def engine(cls) -> Engine:
        if libvirt.state() != "running":
            pytest.skip(f"the lab VM is {libvirt.state()}")
        return VmEngine.reach()


@clusters.needs_time
class TestOnKubernetes(Launched):
    """A real cluster of one node, in namespaces of its own."""

    @pytest.fixture(scope="class")
    @classmethod
    def engine(cls) -> Iterator[Engine]:
        with clusters.up() as found:
            yield found

    def test_pods_reach_their_own_stack_only(self, engine: Engine, stack: Stack) -> None:
        web, client = stack["web"], stack["client"]
        assert client.must("curl -fsS -m 3 -o /dev/null -w '%{http_code}' http://web/") == "200"
        with engine.sidecar(stack.name, 60) as helper:
            assert helper.run("curl -sS -m 2 http://web/").code != 0
        assert not web.must("ip -4 route show default; ip -6 route show dev eth0")
        node = "198.19.0.1"  # what cluster.sh gives it
        client.run(f"ip route add {node} via 198.19.16.1")  # a learner can
        assert client.run(f"ping -c 1 -W 2 {node}").code != 0
        assert client.run(f"curl -ksS -m 2 https://{node}:10250/").code != 0

    def test_a_restart_keeps_files_and_network(self, stack: Stack) -> None:
        nginx = stack["nginx"]
        nginx.must("touch /kept")
        stack["web"].must("ip link set dev eth0 mtu 1400")
        for _ in range(4):  # the kubelet would let the third one wait for 20 s
            nginx.restart()
            stack.wait_ready()
        nginx.must("test -e /kept")
        assert "mtu 1400" in stack["web"].must("ip link show dev eth0")
        stack["web"].must("ip link set dev eth0 mtu 1500")
        stack["web"].must("kill -9 $(pgrep -o -x nginx)")
        deadline = time.monotonic() + 5
        while nginx.state.running and time.monotonic() < deadline:
            time.sleep(0.1)
        assert (nginx.state.running, nginx.state.exit_code) == (False, 137)
        nginx.restart()
        stack.wait_ready()
