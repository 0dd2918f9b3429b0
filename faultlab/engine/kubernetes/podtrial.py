"""Podtrial: what the Kubernetes engine needs of a cluster, found by trying each thing.

Each fact that is missing has the command, or the section of docs/kubernetes.md, that gives it.
"""

from functools import partial
from typing import Any

from faultlab.core import lock, naming
from faultlab.core.errors import CannotRun
from faultlab.core.naming import STACK_LABEL
from faultlab.engine.contract import Engine
from faultlab.engine.fact import Fact
from faultlab.engine.kubernetes import namespace, pod_exec, podhelpers, registry
from faultlab.engine.kubernetes.cluster import HELPER, MACHINE, ROLE_LABEL, client
from faultlab.engine.kubernetes.node_pod import NodePod
from faultlab.engine.kubernetes.pod_exec import Place

# The rights of a person who runs labs: verb, resource, subresource, group, in every namespace.
RIGHTS = (
    *((verb, "namespaces", "", "") for verb in ("create", "delete", "get", "list")),
    *((verb, "pods", "", "") for verb in ("create", "delete", "deletecollection", "get", "list")),
    ("create", "pods", "exec", ""),
    ("get", "pods", "exec", ""),
    ("patch", "pods", "resize", ""),
    ("patch", "pods", "ephemeralcontainers", ""),
    ("get", "pods", "log", ""),
    ("create", "configmaps", "", ""),
    ("create", "serviceaccounts", "", ""),
    ("create", "resourcequotas", "", ""),
    ("list", "nodes", "", ""),
    ("create", "networkpolicies", "", "networking.k8s.io"),
)
_PAGE = "docs/kubernetes.md"
_PORT = 8080
_SERVE = f"nohup nc -lk -p {_PORT} </dev/null >/dev/null 2>&1 & sleep 0.2"


def rights(node_pod: NodePod) -> Fact:
    """Ask the API whether this user may do what a stack needs."""
    lacking = []
    api = client.AuthorizationV1Api(node_pod.cluster.client)
    for verb, resource, part, group in RIGHTS:
        asked = {"verb": verb, "resource": resource, "subresource": part, "group": group}
        with node_pod.cluster.errors():
            said = api.create_self_subject_access_review(
                {"spec": {"resourceAttributes": {k: v for k, v in asked.items() if v}}}
            )
        if not said.status.allowed:
            lacking.append(f"{verb} {resource}{'/' if part else ''}{part}")
    text = f"not allowed: {', '.join(lacking)}" if lacking else "allowed to do what a stack needs"
    return Fact("rights", not lacking, text, "kubectl apply -k deploy/kubernetes")


def tried(engine: Engine, node_pod: NodePod) -> list[Fact]:
    """Try what a stack needs in a namespace that is removed again."""
    facts = [rights(node_pod)]
    stack = naming.prefix() + "doctor-trial"
    if not facts[0].ok:
        return facts
    with lock.hold(stack, "doctor", wait=True):
        engine.down(stack)
        try:
            namespace.make_namespace(node_pod.cluster, stack, {STACK_LABEL: stack})
            for step in (_levels, _node_pod, _policy, partial(_resize, engine)):
                facts.append(step(node_pod, stack))
                if not facts[-1].ok:
                    break
        finally:
            engine.down(stack)
    return facts


def _levels(node_pod: NodePod, stack: str) -> Fact:
    """Try whether pods with the rights of a machine and of the node pod are admitted."""
    body = _pod(node_pod, stack, "level", ["NET_ADMIN", "NET_RAW", "SYS_PTRACE"])
    body["spec"]["hostPID"] = True
    hint = f"kubectl label namespace {stack} pod-security.kubernetes.io/enforce=privileged"
    try:
        with node_pod.cluster.errors():
            node_pod.cluster.core.create_namespaced_pod(stack, body, dry_run="All")
    except CannotRun as problem:
        return Fact("pod level", False, problem.message, hint)
    return Fact("pod level", True, "machines and the node pod are admitted")


def _node_pod(node_pod: NodePod, stack: str) -> Fact:
    """Try whether the node pod can enter the network of a pod and see its processes."""
    try:
        node_pod.start(stack)
        at = _start(node_pod, stack, MACHINE, "one")
        own = podhelpers.running(node_pod.cluster, at)
        pid = node_pod.find_pid(stack, own)
        if not pid:
            return Fact("node pod", False, "it does not see the processes of its node", _PAGE)
        node_pod.run(stack, f"nsenter -t {pid} -n ip link show eth0 >/dev/null")
    except CannotRun as problem:
        return Fact("node pod", False, problem.message, problem.hint or _PAGE)
    return Fact("node pod", True, "enters the network of a pod on its node")


def _policy(node_pod: NodePod, stack: str) -> Fact:
    """Try whether a machine reaches another, and whether a pod that is none is kept from it."""
    one = Place(stack, "one", "helper")
    two, other = _start(node_pod, stack, MACHINE, "two"), _start(node_pod, stack, HELPER, "other")
    node_pod.must(one, _SERVE)
    with node_pod.cluster.errors():
        address = node_pod.cluster.core.read_namespaced_pod("one", stack).status.pod_ip
    ask = ["nc", "-z", "-w", "3", address, str(_PORT)]
    codes = [pod_exec.run(node_pod.cluster, at, ask, 10).code for at in (two, other)]
    if not {*codes} <= {0, 1}:
        return Fact("network policy", False, "the trial was cut off", "kubectl cluster-info")
    reached = [code == 0 for code in codes]
    hint = f"a network plugin that enforces NetworkPolicy: {_PAGE}"
    if reached == [True, False]:
        return Fact("network policy", True, "enforced: only machines of a stack reach each other")
    said = "not enforced" if reached[0] else "machines of a stack do not reach each other"
    return Fact("network policy", False, said, hint)


def _resize(engine: Engine, node_pod: NodePod, stack: str) -> Fact:
    """Try whether a node changes the limits of a running container."""
    pods = {pod.metadata.name: pod for pod in node_pod.cluster.pods(stack)}
    machine = node_pod.machine_of(engine, pods["two"], "helper")
    try:
        machine.limit(0.5, "128m")
        machine.limit(0.7, "256m")
    except CannotRun as problem:
        return Fact("resize", False, problem.message, "kubectl version")
    return Fact("resize", True, "limits change while a container runs")


def _pod(
    node_pod: NodePod, stack: str, name: str, capabilities: list[str], role: str = HELPER
) -> dict[str, Any]:
    image, disposable = registry.image_of("machine"), node_pod.cluster.disposable
    body = podhelpers.pod(
        name, stack, image, seconds=300, disposable=disposable, rights=capabilities
    )
    body["metadata"]["labels"][ROLE_LABEL] = role
    return body


def _start(node_pod: NodePod, stack: str, role: str, name: str) -> Place:
    body = _pod(node_pod, stack, name, [], role)
    return podhelpers.start(node_pod.cluster, stack, body, f"The pod {name}")
