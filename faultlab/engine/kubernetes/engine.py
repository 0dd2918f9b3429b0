"""Kubernetes: stacks on the cluster of the current kubeconfig context.

A machine is a pod, a daemon is a container of it, and a stack is a namespace: decision record 044.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from faultlab.core import lock, naming, paths
from faultlab.core.command import uninterrupted
from faultlab.core.errors import CannotRun
from faultlab.core.naming import LAB_LABEL, STACK_LABEL
from faultlab.core.terminal import Terminal
from faultlab.engine.contract import Engine, Machine, Process, Program
from faultlab.engine.fact import Fact, Facts
from faultlab.engine.kubernetes import cluster as clusters
from faultlab.engine.kubernetes import (
    manifest,
    namespace,
    node,
    podhelpers,
    podjobs,
    podtrial,
    registry,
)
from faultlab.engine.kubernetes.cluster import (
    DISPOSABLE_LABEL,
    MACHINE,
    ROLE_LABEL,
    gone,
    owner_note,
    owner_of,
    pause,
)
from faultlab.engine.kubernetes.helper import Helpers
from faultlab.engine.kubernetes.node_pod import NodePod
from faultlab.engine.kubernetes.pod_exec import Place
from faultlab.engine.kubernetes.pods import container_id, status_of
from faultlab.engine.kubernetes.quantity import amount
from faultlab.engine.measure import node_observer
from faultlab.engine.measure.cpu_interference import Observer
from faultlab.engine.own_pod import in_a_pod
from faultlab.engine.shell import Shell
from faultlab.lab import images
from faultlab.lab.model import Lab
from faultlab.lab.services import USER

_OLDEST = (1, 33)  # the first Kubernetes that changes limits in place without a feature gate


class KubernetesEngine(Engine):
    """A cluster, whose nodes we must not change."""

    name = "kubernetes"
    owns_kernel = False
    auto_eligible = False
    setup_hints = ("kubectl config get-contexts", "faultlab images push REGISTRY")
    walk_seconds = 5400

    def __init__(self) -> None:
        self.cluster = clusters.Cluster(disposable=self.owns_kernel)
        self.images = registry.ClusterImages(self.cluster)
        self.node_pod = NodePod(self.cluster)
        self.helpers = Helpers(self, self.node_pod)

    @classmethod
    def absent(cls) -> str:
        """Return why no cluster is asked. Unless one has a stack that was started here, none is."""
        if why := clusters.absent():
            return why
        here = in_a_pod() or any(cls._marks().glob("*"))
        return "" if here else "no stack was started on a cluster from here"

    @classmethod
    def _marks(cls) -> Path:
        """Return the folder with an empty file for each stack that was started from here.

        It outlives the machine's next boot, as the stacks do.
        """
        return paths.state() / "clusters" / cls.name

    @classmethod
    def might_host(cls, stack: str) -> bool:
        """Return whether this stack was started on a cluster from here and not removed."""
        return (cls._marks() / stack).exists()

    @classmethod
    def reach(cls, patient: bool = False) -> KubernetesEngine:
        """Return the cluster of the current context. Raises CannotRun if it does not respond."""
        engine = cls()
        _ = engine.cluster.version  # it is asked
        return engine

    @classmethod
    def bring_up(cls, term: Terminal, images: Collection[str] | None = None) -> KubernetesEngine:
        """Check that the cluster has the images. Raises CannotRun."""
        engine = cls()
        with term.step("images", f"asking the cluster of {engine.cluster.context}") as step:
            engine.images.ensure(step.note, images)
            step.done("ready")
        return engine

    def kernel(self, stack: str) -> Shell:
        """Refuse a root shell on a node. Raises CannotRun."""
        raise CannotRun("The kernel of a node must not be changed.", "add --engine vm")

    def facts(self) -> Facts:
        """Return the version of the API, and what the first node says about itself."""
        nodes = self.cluster.nodes()
        if not nodes:
            raise CannotRun("The cluster has no such node.", "kubectl get nodes --show-labels")
        info, most = nodes[0].status.node_info, nodes[0].status.allocatable
        return Facts(
            version=self.cluster.version.git_version,
            kernel=info.kernel_version,
            system=info.os_image,
            cgroup="",
            cpus=int(float(amount(most["cpu"]))),
            memory=int(amount(most["memory"])),
        )

    def unfit(self) -> str:
        """Return that Kubernetes is too old, if it is; `doctor` tries the rest."""
        said = self.cluster.version
        now = (int(said.major), int("".join(filter(str.isdigit, said.minor))))
        if now < _OLDEST:
            return f"Kubernetes {said.git_version} cannot change limits in place; 1.33 can"
        return ""

    def trials(self) -> list[Fact]:
        """Return the rights, admission, node pod, network policies and resizing of the cluster."""
        return podtrial.tried(self, self.node_pod)

    def batch(self, name: str) -> podjobs.PodJobs | None:
        """Return Jobs of the cluster for tasks; a task itself has none."""
        return None if os.environ.get(namespace.BATCH) else podjobs.PodJobs(self.cluster, name)

    def cannot(self, lab: Lab) -> str:
        """Return why the services of a lab cannot be pods, or its fault has no effect on them."""
        if any("ip addr add" in (step.run or "") for step in lab.inject):
            return "it moves a machine to an address that no pod has, which the policy blocks"
        if own := images.of_others(lab.services.images(lab.daemons)):
            return f"`faultlab images push` pushes no image of another collection, as {own[0]}"
        return manifest.obstacle(manifest.services(lab))

    def stacks(self) -> list[str]:
        """Return our stacks of which anything is left; in a namespace of ours, only its own."""
        names = self.all_stacks()
        return sorted(name for name in names if name.startswith(naming.prefix_of_all()))

    def all_stacks(self) -> Mapping[str, str]:
        """Return every stack, with the id of its lab."""
        found = [each.metadata.labels for each in self.cluster.namespaces()]
        return {its[STACK_LABEL]: its.get(LAB_LABEL, "") for its in found}

    def machines(self, stack: str) -> list[Machine]:
        """Return the machines of a stack and then its daemons, running or not."""
        found: list[Machine] = [
            self.node_pod.machine_of(self, pod, container.name)
            for pod in self.cluster.pods(stack, MACHINE)
            for container in pod.spec.containers
        ]
        return sorted(found, key=lambda machine: (bool(machine.joins), machine.name))

    def start_node_pod(self, stack: str) -> None:
        """Start the node pod of a stack, and wait until it runs. Raises CannotRun."""
        self.node_pod.start(stack)

    def sidecar(
        self, stack: str, seconds: int, *, whole: bool = False, rights: Sequence[str] = ()
    ) -> AbstractContextManager[Machine]:
        """Keep a helper pod while the body runs commands in it. It ends after `seconds`."""
        return self.helpers.sidecar(stack, seconds, whole=whole, rights=rights)

    def process(self, program: Program) -> AbstractContextManager[Process]:
        """Run a program in a container of its own while the body runs."""
        return self.helpers.process(program)

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

    def leftovers(self, stack: str) -> list[str]:
        """Return the namespace of a stack and the pods in it."""
        spaces = [f"namespace {each.metadata.name}" for each in self.cluster.namespaces(stack)]
        pods = self.cluster.pods(stack) if spaces else []
        return [
            *spaces,
            *(f"pod {pod.metadata.name}" for pod in pods),
            *(f"container {p.metadata.name}/{c.name}" for p in pods for c in p.spec.containers),
        ]

    def launch(self, lab: Lab, stack: str, run_id: str, folder: Path, slot: str = "") -> None:
        """Create the pods of a lab, give them their names, and wait until they run."""
        made = manifest.services(lab)
        plan = manifest.Plan(stack, lab.alias, run_id, self.cluster.disposable)
        bodies = manifest.pods(plan, made)
        for body in bodies:
            body["metadata"]["annotations"] = owner_note()
        (folder / "compose.yaml").write_text(yaml.safe_dump_all(bodies, sort_keys=False))
        self._marks().mkdir(parents=True, exist_ok=True)
        (self._marks() / stack).touch()
        namespace.make_namespace(self.cluster, stack, plan.labels)
        with ThreadPoolExecutor(max_workers=8) as pool:
            node_pod = pool.submit(self.start_node_pod, stack)
            list(pool.map(partial(podhelpers.create, self.cluster, stack), bodies))
            node_pod.result()
        self._join(stack, made)

    def _join(self, stack: str, made: Mapping[str, manifest.Service]) -> None:
        """Close the networks of the pods, tell them their names, and wait until they run."""
        pods = podhelpers.until(partial(self._waiting_for_names, stack), "The pods got no address")
        by_name = {pod.metadata.name: pod for pod in pods}
        first = {n: container_id(status_of(p, manifest.NAMES)) for n, p in by_name.items()}
        peers = [pod.status.pod_ip for pod in pods]
        settings = {first[name]: manifest.sysctls(made[name]) for name in by_name}
        self.node_pod.run(stack, node.closing(settings, peers, tracked=self.cluster.disposable))
        for service in made.values():
            for at, options in enumerate(service.tmpfs.values()):
                if "nr_inodes" in options:
                    where = f"{manifest.VOLUMES}/{manifest.tmpfs_name(service, at)}"
                    self.node_pod.run(stack, node.sizing(first[service.home], where, options))
        with ThreadPoolExecutor(max_workers=8) as pool:
            list(pool.map(lambda pod: self._tell(stack, pod, pods), pods))
        running = podhelpers.until(partial(self._running, stack), "The pods did not start")
        self._bound(stack, made, running)

    def _waiting_for_names(self, stack: str) -> list[Any]:
        """Return the pods once all have an address and wait for names; empty before."""
        pods = self.cluster.pods(stack, MACHINE)
        for pod in pods:
            status = status_of(pod, manifest.NAMES)
            if status is None or status.state.running is None or not pod.status.pod_ip:
                podhelpers.refuse_waiting_pod(pod)
                return []
        return pods

    def _tell(self, stack: str, pod: Any, pods: Sequence[Any]) -> None:
        """Write the hosts files of a pod: one for its machine, and one for its user."""
        lines = ["127.0.0.1 localhost"]
        others = [each for each in pods if not each.metadata.name.endswith(USER)]
        lines += [f"{each.status.pod_ip} {each.metadata.name}" for each in others]
        text = "\\n".join([*lines, ""])
        write = f"printf '{text}' >hosts; cp hosts part; mv part hosts-user"
        place = Place(stack, pod.metadata.name, manifest.NAMES)
        self.node_pod.must(place, f"cd {manifest.HOSTS}; {write}")

    def _running(self, stack: str) -> dict[str, str]:
        """Return the ids of all containers once all have started; empty before."""
        found = {}
        for pod in self.cluster.pods(stack, MACHINE):
            for container in pod.spec.containers:
                status = status_of(pod, container.name)
                state = status.state if status else None
                if state is None or (state.running is None and state.terminated is None):
                    podhelpers.refuse_waiting_pod(pod)
                    return {}
                found[container.name] = container_id(status)
        return found

    def _bound(
        self, stack: str, made: Mapping[str, manifest.Service], running: Mapping[str, str]
    ) -> None:
        """Set the limits that a pod cannot have, in the cgroups of its containers."""
        bounds = [
            (running[name], "pids.max", str(service.keys["pids_limit"]))
            for name, service in made.items()
            if "pids_limit" in service.keys
        ]
        if self.cpus:
            bounds += [(its, "cpuset.cpus", self.cpus) for its in running.values()]
        if bounds:
            self.node_pod.run(stack, node.bounding(bounds))

    def isolate_network(self, machines: Sequence[Machine]) -> None:
        """Make /proc/sys/net writable in the machines; their networks are closed already."""
        if machines:
            marks = [machine.mark for machine in machines]
            self.node_pod.run(machines[0].stack, node.opening(marks))

    def down(self, stack: str) -> None:
        """Remove a stack, and verify that nothing is left. Raises Held if it is another user's."""
        spaces = self.cluster.namespaces(stack)
        lock.refuse_others(stack, [owner_of(each.metadata) for each in spaces])
        with uninterrupted():
            self._remove(stack)
            (self._marks() / stack).unlink(missing_ok=True)

    def _remove(self, stack: str) -> None:
        began, asked = time.monotonic(), False
        while self._there(stack):
            if time.monotonic() > began + namespace.GONE_WITHIN:
                left = ", ".join(self.leftovers(stack)) or f"namespace {stack}"
                raise CannotRun(f"Could not remove {left}.", f"kubectl get all -n {stack}")
            if not asked:
                core = self.cluster.core
                for remove in (core.delete_collection_namespaced_pod, core.delete_namespace):
                    self.cluster.tolerant(partial(remove, stack, grace_period_seconds=0))
                asked = True
            pause(began)

    def _there(self, stack: str) -> bool:
        try:
            with self.cluster.errors():
                found = self.cluster.core.read_namespace(stack)
        except CannotRun as problem:
            if gone(problem.__cause__):
                return False
            raise
        labels = found.metadata.labels or {}
        if STACK_LABEL not in labels:
            raise CannotRun(f"The namespace {stack} is not ours.", f"kubectl get namespace {stack}")
        if (DISPOSABLE_LABEL in labels) is not self.cluster.disposable:
            where = "on a disposable node" if DISPOSABLE_LABEL in labels else "on another node"
            raise CannotRun(f"{stack} is up {where}.", "type `faultlab down` with its lab first")
        return True

    def note_kernel(self, stack: str) -> None:
        """Note nothing, because no lab changes this kernel."""

    def observer(self, stack: str) -> Observer:
        """Return an observer that does not count the stack's pods, with the node pod, as others."""
        return node_observer.observer(self.cluster.pods(stack), partial(self.node_pod.run, stack))


def _disk_of(pod: Any) -> list[str]:
    """Return the limits of what the containers of a pod can write."""
    limits = [each.resources.limits or {} for each in pod.spec.containers if each.resources]
    return [each["ephemeral-storage"] for each in limits if "ephemeral-storage" in each]
