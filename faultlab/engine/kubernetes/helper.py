"""Helper: the helpers of a stack on a cluster, and foreign programs."""

import secrets
import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from faultlab.core.command import uninterrupted
from faultlab.core.naming import STACK_LABEL
from faultlab.engine.contract import Engine, Machine, Program
from faultlab.engine.kubernetes import node, pod_exec, podhelpers, registry
from faultlab.engine.kubernetes.namespace import make_namespace
from faultlab.engine.kubernetes.node_pod import NodePod
from faultlab.engine.kubernetes.pod_exec import Place
from faultlab.engine.kubernetes.podhelpers import PodProcess
from faultlab.engine.kubernetes.pods import PodMachine
from faultlab.lab.model import bytes_of


class Helpers:
    """The helpers and foreign programs of the stacks on a cluster."""

    def __init__(self, engine: Engine, node_pod: NodePod) -> None:
        self._engine = engine
        self._node_pod = node_pod
        self._cluster = node_pod.cluster

    @contextmanager
    def sidecar(
        self, stack: str, seconds: int, *, whole: bool, rights: Sequence[str]
    ) -> Iterator[Machine]:
        """Keep a helper pod while the body runs commands in it. It ends after `seconds`."""
        options = {"seconds": seconds, "whole": whole, "rights": rights}
        with self._pod("machine", stack, **options) as at:
            with self._cluster.errors():
                pod = self._cluster.core.read_namespaced_pod(at.pod, at.namespace)
            machine = self._node_pod.machine_of(self._engine, pod, at.container)
            machine.name = "a helper pod"
            yield machine

    @contextmanager
    def process(self, program: Program) -> Iterator[PodProcess]:
        """Run a program while the body runs."""
        with ExitStack() as after:
            inside = program.inside
            if inside is None:
                options = {"rights": program.rights, "memory": program.memory}
                at = after.enter_context(self._pod(program.image, program.stack, **options))
                its = podhelpers.running(self._cluster, at)
            else:
                assert isinstance(inside, PodMachine)
                named = registry.image_of(program.image)
                mounts = None if program.ours else self._mounts(inside)
                made = podhelpers.within(self._cluster, inside.at, named, program.rights, mounts)
                at, its = after.enter_context(made)
            self._bound_process(program, its)
            if program.files is not None:
                pod_exec.unpack(self._cluster, at, "/", program.files)
            began = time.monotonic()
            start = ["sh", "-c", f'cd {shlex.quote(program.folder)} && exec "$@"', "sh"]
            line = pod_exec.connect(self._cluster, at, [*start, *program.command])
            after.callback(line.close)
            yield PodProcess(began, podhelpers.parts(line), line)

    def _bound_process(self, program: Program, container: str) -> None:
        """Set limits of a container that Kubernetes lets have none."""
        memory = program.memory if program.inside else ""  # the pod of its own has its limit
        bounds = [(container, "pids.max", str(program.processes))] if program.processes else []
        bounds += [(container, "cpuset.cpus", program.cpus)] if program.cpus else []
        bounds += [(container, "memory.max", str(bytes_of(memory)))] if memory else []
        if bounds:
            self._node_pod.run(program.stack, node.bounding(bounds))

    def _mounts(self, inside: PodMachine) -> list[dict[str, Any]]:
        """Return the volumes of a machine, which its guest may only read."""
        with self._cluster.errors():
            pod = self._cluster.core.read_namespaced_pod(inside.at.pod, inside.at.namespace)
        its = next(each for each in pod.spec.containers if each.name == inside.name)
        return [
            {"name": mount.name, "mountPath": mount.mount_path, "readOnly": True}
            for mount in its.volume_mounts or []
            if not mount.sub_path and not mount.mount_path.startswith("/var/run/secrets")
        ]

    @contextmanager
    def _pod(self, image: str, stack: str, **options: Any) -> Iterator[Place]:
        """Keep a helper pod of a stack while the body runs; there need not be such a stack."""
        alone = not self._cluster.namespaces(stack)
        if alone:  # two commands can need one at the same time
            stack = f"{stack}-{secrets.token_hex(3)}"
        name = podhelpers.new_name()
        options["disposable"] = self._cluster.disposable
        body = podhelpers.pod(name, stack, registry.image_of(image), **options)
        try:
            if alone:
                make_namespace(self._cluster, stack, {STACK_LABEL: stack})
            yield podhelpers.start(self._cluster, stack, body, f"The helper {name}")
        finally:
            with uninterrupted():
                core = self._cluster.core
                remove = partial(core.delete_namespaced_pod, name, stack, grace_period_seconds=0)
                self._cluster.tolerant(remove)
                if alone:
                    self._cluster.tolerant(partial(core.delete_namespace, stack))
