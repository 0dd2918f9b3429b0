"""Disposable: stacks on nodes of a cluster that are marked, so that labs may change their kernel.

The node pod of such a stack is privileged and is the way to the kernel of its node.
"""

from __future__ import annotations

import shlex
from dataclasses import replace
from functools import partial

from faultlab.core.errors import CannotRun
from faultlab.engine import kernel
from faultlab.engine.kubernetes import podhelpers
from faultlab.engine.kubernetes.cluster import DISPOSABLE_LABEL, HELPER, MACHINE, ROLE_LABEL
from faultlab.engine.kubernetes.engine import KubernetesEngine
from faultlab.engine.kubernetes.namespace import GONE_WITHIN
from faultlab.engine.kubernetes.node_pod import NAME as NODE_POD
from faultlab.engine.kubernetes.pods import PodMachine
from faultlab.engine.shell import Done, Shell
from faultlab.lab.model import Lab

# What the node itself sends and receives needs no entry in the table of connections. Else its
# kubelet could not be reached while a lab has that table full.
_UNTRACKED = """iptables --wait -t raw -A PREROUTING -m addrtype --dst-type LOCAL -j CT --notrack
iptables --wait -t raw -A OUTPUT -j CT --notrack"""
_REPLACE = "kubectl delete node NODE, and make another"


class NodeKernel(Shell):
    """A root shell in the namespaces of the first process of a node."""

    name = "the node"

    def __init__(self, node_pod: PodMachine) -> None:
        self._node_pod = node_pod

    def run(self, command: str, timeout: float = 30) -> Done:
        """Run a shell command as root on the node, and wait for its end."""
        words = ["nsenter", "-t", "1", "-a", "sh", "-c", command]
        return replace(self._node_pod.run(shlex.join(words), timeout), command=command)


class DisposableNodes(KubernetesEngine):
    """The nodes of a cluster whose kernel labs may change."""

    name = "node"
    owns_kernel = True
    part_of = "kubernetes"
    setup_hints = (f"kubectl get nodes -l {DISPOSABLE_LABEL}=true", "faultlab images push REGISTRY")

    def __init__(self) -> None:
        super().__init__()
        self._changed: set[str] = set()  # the stacks that will change the kernel

    def cannot(self, lab: Lab) -> str:
        """Return why a lab cannot run in pods, or that no node is marked."""
        if (why := super().cannot(lab)) or self.cluster.nodes():
            return why
        return f"the cluster has no node with the label {DISPOSABLE_LABEL}=true"

    def kernel(self, stack: str) -> Shell:
        """Return a root shell on the node of a stack. Raises CannotRun if its node pod is gone."""
        if shell := self._kernel(stack):
            return shell
        raise CannotRun(f"The node pod of {stack} does not run.", f"kubectl get pods -n {stack}")

    def _kernel(self, stack: str) -> NodeKernel | None:
        for pod in self.cluster.pods(stack, HELPER):
            if pod.metadata.name == NODE_POD and pod.status.phase == "Running":
                return NodeKernel(self.node_pod.machine_of(self, pod, "helper"))
        return None

    def note_kernel(self, stack: str) -> None:
        """Let the node pod of this stack note the settings, when it has started."""
        self._changed.add(stack)

    def start_node_pod(self, stack: str) -> None:
        """Start the node pod, and note the settings of the kernel if the stack will change them.

        What a stack has changed that is gone, because its `down` was killed or its node pod was
        lost, is restored first. An earlier stack of this name is gone, too.
        """
        super().start_node_pod(stack)
        if stack not in self._changed:
            return
        shell, up = self.kernel(stack), self.all_stacks()
        for other in kernel.noted(shell):
            if other == stack or other not in up:
                kernel.put_back(shell, other, _REPLACE)
        kernel.note(shell, stack)
        shell.must(_UNTRACKED)  # `down` removes these rules, too

    def _remove(self, stack: str) -> None:
        """Remove the machines, restore the kernel of their node, and remove the rest.

        If the node pod is gone, the note stays on the node, for the next stack that changes it.
        """
        if self._there(stack) and (shell := self._kernel(stack)):
            self._remove_machines(stack)
            kernel.put_back(shell, stack, _REPLACE)
        super()._remove(stack)

    def _remove_machines(self, stack: str) -> None:
        label = {"label_selector": f"{ROLE_LABEL}={MACHINE}", "grace_period_seconds": 0}
        remove = self.cluster.core.delete_collection_namespaced_pod
        self.cluster.tolerant(partial(remove, stack, **label))
        podhelpers.until(
            lambda: not self.cluster.pods(stack, MACHINE), "The machines did not end", GONE_WITHIN
        )
