"""Node pod: a pod of each stack that runs scripts on its node (node.py)."""

from functools import partial
from typing import Any

from faultlab.core.errors import CannotRun
from faultlab.engine.contract import Engine
from faultlab.engine.kubernetes import node, pod_exec, podhelpers, registry
from faultlab.engine.kubernetes.cluster import Cluster
from faultlab.engine.kubernetes.pod_exec import Place
from faultlab.engine.kubernetes.pods import PodMachine

NAME = "node-pod"
_SECONDS = 120.0  # of a script on the node


class NodePod:
    """The node pods of the stacks on a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def start(self, stack: str) -> None:
        """Start it on the node of a stack, and wait until it runs. Raises CannotRun."""
        image = registry.image_of("machine")
        disposable = self.cluster.disposable
        body = podhelpers.pod(
            NAME,
            stack,
            image,
            seconds=86400,
            disposable=disposable,
            whole=True,
            rights=node.RIGHTS,
        )
        if disposable:  # it changes the whole kernel, with devices and modules
            body["spec"]["containers"][0]["securityContext"] = {"privileged": True}
        podhelpers.start(self.cluster, stack, body, "The node pod")

    def run(self, stack: str, script: str) -> str:
        """Run a script of node.py on the node of a stack. Raises CannotRun."""
        return self.must(Place(stack, NAME, "helper"), script)

    def must(self, at: Place, script: str) -> str:
        """Run a script in a container; it must succeed. Raises CannotRun."""
        done = pod_exec.run(self.cluster, at, ["sh", "-ec", script], _SECONDS)
        if done.code != 0:
            said = (done.err or done.out).decode(errors="replace").strip().splitlines()
            raise CannotRun(
                f"A helper in {at.pod} failed: {said[-1] if said else 'it printed nothing'}",
                "faultlab doctor --engine kubernetes",
            )
        return done.out.decode(errors="replace")

    def find_pid(self, stack: str, container: str) -> str:
        """Return the id of a process of a container on its node; empty if it has none."""
        try:
            return self.run(stack, node.pid(container)).strip()
        except CannotRun:
            return ""

    def machine_of(self, engine: Engine, pod: Any, container: str) -> PodMachine:
        """Return a container of a pod as a machine."""
        find_pid = partial(self.find_pid, pod.metadata.namespace)
        return PodMachine(container, pod, self.cluster, engine, find_pid)
