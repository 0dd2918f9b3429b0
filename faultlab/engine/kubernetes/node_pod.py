"""Node pod: the part of the Kubernetes engine that runs helpers, and scripts on the node."""

import secrets
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from faultlab.core.command import uninterrupted
from faultlab.core.errors import CannotRun
from faultlab.core.naming import STACK_LABEL
from faultlab.engine.contract import Engine, Machine, Program
from faultlab.engine.kubernetes import node, pod_exec, podhelpers, registry
from faultlab.engine.kubernetes.cluster import MACHINE, ROLE_LABEL, Cluster
from faultlab.engine.kubernetes.namespace import make_namespace
from faultlab.engine.kubernetes.pod_exec import Place
from faultlab.engine.kubernetes.podhelpers import PodProcess
from faultlab.engine.kubernetes.pods import PodMachine
from faultlab.engine.kubernetes.quantity import amount
from faultlab.lab.model import bytes_of

NODE_POD = "node-pod"
_SECONDS = 120.0  # of a script on the node


class WithPods(Engine):
    """An engine that has a cluster, and helpers in it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def refuse_to_wait(self, pod: Any) -> None:
        """Raise CannotRun if a container of a pod, or the pod, waits for what does not come."""
        status = pod.status
        for each in [*(status.init_container_statuses or []), *(status.container_statuses or [])]:
            podhelpers.refuse_to_wait(each.name, each.state.waiting if each.state else None)
            ended = each.state.terminated if each.state else None
            if ended is not None and ended.exit_code != 0 and status.phase == "Failed":
                text = f"{each.name} ended with exit code {ended.exit_code} {ended.message or ''}"
                raise CannotRun(text.strip() + ".", f"kubectl logs -n {pod.metadata.namespace}")
        for condition in status.conditions or []:
            if condition.type == "PodScheduled" and condition.reason == "Unschedulable":
                raise CannotRun(
                    f"No node has room for {pod.metadata.name}: {condition.message}",
                    "kubectl describe nodes",
                )

    def start_node_pod(self, stack: str) -> None:
        """Start the node pod on the node of a stack, and wait until it runs. Raises CannotRun."""
        image = registry.image_of("machine")
        disposable = self.cluster.disposable
        body = podhelpers.pod(
            NODE_POD,
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

    def on_node(self, stack: str, script: str) -> str:
        """Run a script of node.py on the node of a stack. Raises CannotRun."""
        return self.must(Place(stack, NODE_POD, "helper"), script)

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
            return self.on_node(stack, node.pid(container)).strip()
        except CannotRun:
            return ""

    def machine_of(self, pod: Any, container: str) -> PodMachine:
        """Return a container of a pod as a machine."""
        find_pid = partial(self.find_pid, pod.metadata.namespace)
        return PodMachine(container, pod, self.cluster, self, find_pid)

    def on_disk(self) -> Mapping[str, int]:
        """Return the stacks of which a kubelet has ended a pod that wrote too much, and how much.

        To ask a kubelet itself takes the right to run programs in all pods of its node.
        """
        label, ended = f"{ROLE_LABEL}={MACHINE}", "status.phase=Failed"
        with self.cluster.errors():
            pods = self.cluster.core.list_pod_for_all_namespaces(
                label_selector=label, field_selector=ended
            ).items
        sizes: dict[str, int] = {}
        for pod in pods:
            most = sum(int(amount(each)) for each in _disk_of(pod))
            if most and pod.status.reason == "Evicted" and "limit" in (pod.status.message or ""):
                sizes[pod.metadata.namespace] = most + 1
        return sizes

    @contextmanager
    def _pod(self, image: str, stack: str, **options: Any) -> Iterator[Place]:
        """Keep a helper pod of a stack while the body runs; there need not be such a stack."""
        alone = not self.cluster.namespaces(stack)
        if alone:  # two commands can need one at the same time
            stack = f"{stack}-{secrets.token_hex(3)}"
        name = podhelpers.new_name()
        options["disposable"] = self.cluster.disposable
        body = podhelpers.pod(name, stack, registry.image_of(image), **options)
        try:
            if alone:
                make_namespace(self.cluster, stack, {STACK_LABEL: stack})
            yield podhelpers.start(self.cluster, stack, body, f"The helper {name}")
        finally:
            with uninterrupted():
                core = self.cluster.core
                remove = partial(core.delete_namespaced_pod, name, stack, grace_period_seconds=0)
                self.cluster.tolerant(remove)
                if alone:
                    self.cluster.tolerant(partial(core.delete_namespace, stack))

    def once(self, image: str, script: str, stack: str, rights: Sequence[str] = ()) -> str:
        """Run a script in a pod that reaches no other, and return its output."""
        with self._pod(image, stack, rights=rights) as at:
            return self.must(at, f"exec 2>&1\n{script}")

    @contextmanager
    def sidecar(
        self, stack: str, seconds: int, *, whole: bool = False, rights: Sequence[str] = ()
    ) -> Iterator[Machine]:
        """Keep a helper pod while the body runs commands in it. It ends after `seconds`."""
        options = {"seconds": seconds, "whole": whole, "rights": rights}
        with self._pod("machine", stack, **options) as at:
            with self.cluster.errors():
                pod = self.cluster.core.read_namespaced_pod(at.pod, at.namespace)
            machine = self.machine_of(pod, at.container)
            machine.name = "a helper pod"
            yield machine

    @contextmanager
    def lines(
        self, image: str, command: Sequence[str], inside: Machine, rights: Sequence[str] = ()
    ) -> Iterator[Iterator[str]]:
        """Run a program in a machine's namespaces and yield its lines while the body runs."""
        assert isinstance(inside, PodMachine)
        its = registry.image_of(image)
        with podhelpers.within(self.cluster, inside.at, its, rights) as (at, _):
            line = pod_exec.connect(self.cluster, at, command)
            try:
                yield podhelpers.lines(line)
            finally:
                line.close()

    @contextmanager
    def process(self, program: Program) -> Iterator[PodProcess]:
        """Run a foreign program while the body runs."""
        with ExitStack() as after:
            inside = program.inside
            if inside is None:
                options = {"rights": program.rights, "memory": program.memory}
                at = after.enter_context(self._pod(program.image, program.stack, **options))
                its = podhelpers.running(self.cluster, at)
            else:
                assert isinstance(inside, PodMachine)
                named = registry.image_of(program.image)
                made = podhelpers.within(
                    self.cluster, inside.at, named, program.rights, self._mounts(inside)
                )
                at, its = after.enter_context(made)
            self._bound_process(program, its)
            if program.files is not None:
                pod_exec.unpack(self.cluster, at, "/", program.files)
            began = time.monotonic()
            start = ["sh", "-c", f'cd {shlex.quote(program.folder)} && exec "$@"', "sh"]
            line = pod_exec.connect(self.cluster, at, [*start, *program.command])
            after.callback(line.close)
            yield PodProcess(began, podhelpers.parts(line), line)

    def _bound_process(self, program: Program, container: str) -> None:
        """Set limits of a container that Kubernetes lets have none."""
        memory = program.memory if program.inside else ""  # the pod of its own has its limit
        bounds = [(container, "pids.max", str(program.processes))] if program.processes else []
        bounds += [(container, "cpuset.cpus", program.cpus)] if program.cpus else []
        bounds += [(container, "memory.max", str(bytes_of(memory)))] if memory else []
        if bounds:
            self.on_node(program.stack, node.bounding(bounds))

    def _mounts(self, inside: PodMachine) -> list[dict[str, Any]]:
        """Return the volumes of a machine, which its guest may only read."""
        with self.cluster.errors():
            pod = self.cluster.core.read_namespaced_pod(inside.at.pod, inside.at.namespace)
        its = next(each for each in pod.spec.containers if each.name == inside.name)
        return [
            {"name": mount.name, "mountPath": mount.mount_path, "readOnly": True}
            for mount in its.volume_mounts or []
            if not mount.sub_path and not mount.mount_path.startswith("/var/run/secrets")
        ]


def _disk_of(pod: Any) -> list[str]:
    """Return the limits of what the containers of a pod can write."""
    limits = [each.resources.limits or {} for each in pod.spec.containers if each.resources]
    return [each["ephemeral-storage"] for each in limits if "ephemeral-storage" in each]
