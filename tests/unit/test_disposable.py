"""Stacks on nodes whose kernel labs may change, as far as they need no cluster."""

from __future__ import annotations

import shlex
from types import SimpleNamespace as namespace
from typing import Any

import pytest

from faultlab.core.errors import CannotRun
from faultlab.core.naming import STACK_LABEL
from faultlab.engine import kernel
from faultlab.engine.kubernetes import cluster, manifest, podhelpers
from faultlab.engine.kubernetes.disposable import DisposableNodes, NodeKernel
from faultlab.engine.kubernetes.engine import KubernetesEngine
from faultlab.engine.kubernetes.node_pod import NodePod
from faultlab.engine.shell import Done
from faultlab.lab import loader as labs
from faultlab.run import placement
from tests.unit.test_kernel import Fake

pytest.importorskip("kubernetes")
STACK = "faultlab-conntrack"


class Api:
    """The API of a cluster with these nodes and pods. It keeps what it is asked for."""

    def __init__(self) -> None:
        self.nodes: list[str] = ["disposable"]
        self.pods: list[str] = ["web", "node-pod"]
        self.asked: list[str] = []

    def list_node(self, label_selector: str) -> Any:
        self.asked.append(f"nodes {label_selector}")
        return namespace(items=self.nodes)

    def list_namespace(self, label_selector: str) -> Any:
        self.asked.append(f"namespaces {label_selector}")
        return namespace(items=[])

    def list_namespaced_pod(self, _space: str, label_selector: str) -> Any:
        role = label_selector.rpartition("=")[2]
        named = [name for name in self.pods if (name == "node-pod") == (role == "helper")]
        state = namespace(phase="Running")
        pods = [namespace(metadata=namespace(name=name), status=state) for name in named]
        return namespace(items=pods)

    def read_namespace(self, _name: str) -> Any:
        labels = {STACK_LABEL: STACK, cluster.DISPOSABLE_LABEL: "true"}
        return namespace(metadata=namespace(labels=labels))

    def delete_collection_namespaced_pod(self, _space: str, **_: Any) -> None:
        self.asked.append("remove the machines")
        self.pods.remove("web")


@pytest.fixture
def api() -> Api:
    return Api()


class Pod:
    """The node pod of a stack. What it runs is run on a small kernel, that of its node."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.kernel = Fake()

    def run(self, command: str, timeout: float) -> Done:
        *_, on_node = shlex.split(command)
        if on_node.startswith("rm "):
            self.api.asked.append(f"restored after {on_node.rpartition('/')[2]}")
        return self.kernel.run(on_node, timeout)

    def changes(self, *stacks: str) -> None:
        """Let these stacks have changed the kernel."""
        for stack in stacks:
            kernel.note(self.kernel, stack)
        self.kernel.sysctls["vm.swappiness"] = "1"


@pytest.fixture
def pod(api: Api) -> Pod:
    return Pod(api)


@pytest.fixture
def engine(api: Api, pod: Pod, monkeypatch: pytest.MonkeyPatch) -> DisposableNodes:
    made = DisposableNodes.__new__(DisposableNodes)
    made.cluster = cluster.Cluster.__new__(cluster.Cluster)
    made.cluster.disposable, made.cluster.core = True, api
    made._changed = set()
    made.node_pod = NodePod(made.cluster)
    made.node_pod.machine_of = lambda *_: pod  # type: ignore[method-assign, assignment]
    monkeypatch.setattr(
        KubernetesEngine, "_remove", lambda _self, stack: api.asked.append(f"remove {stack}")
    )
    return made


def test_its_pods_are_on_a_marked_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if a task on another node starts them. Other pods do not tolerate the taint."""
    monkeypatch.setenv(manifest.NODE, "another")
    lab = manifest.services(labs.load("conntrack"))
    for pod in manifest.pods(manifest.Plan(STACK, "conntrack", "r1", disposable=True), lab):
        assert pod["spec"]["nodeSelector"] == {"faultlab.disposable": "true"}
        assert [each["key"] for each in pod["spec"]["tolerations"]] == ["faultlab.disposable"]
        assert "nodeAffinity" not in pod["spec"]["affinity"]
    usual = manifest.pods(manifest.Plan(STACK, "conntrack", "r1"), lab)[0]["spec"]
    assert "nodeSelector" not in usual and "tolerations" not in usual
    helper = podhelpers.pod("node-pod", STACK, {}, disposable=True, whole=True)["spec"]
    assert helper["nodeSelector"] == {"faultlab.disposable": "true"}


def test_each_engine_has_its_own_stacks_and_nodes(api: Api, engine: DisposableNodes) -> None:
    engine.stacks()
    engine.cluster.disposable = False
    engine.stacks()
    assert api.asked == [
        "namespaces faultlab.stack,faultlab.disposable",
        "namespaces faultlab.stack,!faultlab.disposable",
    ]


def test_a_lab_needs_a_marked_node(api: Api, engine: DisposableNodes) -> None:
    lab = labs.load("conntrack")
    assert engine.cannot(lab) == ""
    api.nodes.clear()
    assert "no node with the label faultlab.disposable=true" in engine.cannot(lab)
    assert "ulimits" not in engine.cannot(lab)
    assert engine.cannot(labs.load("dead-resolver")) == KubernetesEngine.cannot(
        engine, labs.load("dead-resolver")
    )


def test_a_command_on_the_node_is_one_of_its_first_process() -> None:
    class NodePod:
        def run(self, command: str, timeout: float) -> Done:
            assert command == "nsenter -t 1 -a sh -c 'sysctl -w a=\"1 2\"'" and timeout == 30
            return Done(command, 0, "", "", 0.1)

    shell = NodeKernel(NodePod())  # type: ignore[arg-type]
    assert shell.run('sysctl -w a="1 2"').command == 'sysctl -w a="1 2"'


def test_the_kernel_is_restored_after_the_machines_and_before_the_node_pod(
    api: Api, pod: Pod, engine: DisposableNodes
) -> None:
    """While they run, swap cannot be given back; without the node pod, nothing can."""
    pod.changes(STACK)
    engine._remove(STACK)
    assert api.asked == ["remove the machines", f"restored after {STACK}", f"remove {STACK}"]
    assert pod.kernel.sysctls["vm.swappiness"] == "60"


def test_without_its_node_pod_the_note_stays_for_the_next_stack(
    api: Api, pod: Pod, engine: DisposableNodes
) -> None:
    pod.changes(STACK)
    api.pods.remove("node-pod")
    engine._remove(STACK)
    assert api.asked == [f"remove {STACK}"] and pod.kernel.notes
    with pytest.raises(CannotRun, match="node pod of faultlab-conntrack does not run"):
        engine.kernel(STACK)


def test_what_lost_stacks_have_changed_is_restored_first(
    api: Api, pod: Pod, engine: DisposableNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also what one of the same name has changed, whose namespace was deleted under it."""
    monkeypatch.setattr(KubernetesEngine, "start_node_pod", lambda *_: api.asked.append("start"))
    engine.all_stacks = lambda: {STACK: "conntrack", "up": "mtu"}  # type: ignore[method-assign]
    pod.changes("lost", "up", STACK)
    engine.start_node_pod("another")  # it changes nothing
    engine.note_kernel(STACK)
    engine.start_node_pod(STACK)
    assert api.asked == ["start", "start", "restored after lost", f"restored after {STACK}"]
    assert {name.rpartition("/")[2] for name in pod.kernel.notes} == {"up", STACK}
    assert "60" in pod.kernel.notes[f"/run/faultlab/{STACK}"].partition("swappiness = ")[2][:2]


def test_who_asks_for_the_cluster_gets_such_a_node_too() -> None:
    """But no class and no score does: their stacks are on one kind of node."""
    assert placement.allowed("kubernetes") == [KubernetesEngine, DisposableNodes]
    assert placement.allowed("kubernetes", parts=False) == [KubernetesEngine]
    assert DisposableNodes not in placement.allowed("auto")
