"""Podhelpers: helper containers beside a stack, in pods of their own or in those of machines.

A container in the pod of a machine cannot be removed before its pod, so it ends by itself.
"""

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from faultlab.core.command import uninterrupted
from faultlab.core.errors import CannotRun
from faultlab.core.naming import STACK_LABEL
from faultlab.engine.contract import Part
from faultlab.engine.kubernetes import pod_exec
from faultlab.engine.kubernetes.cluster import HELPER, ROLE_LABEL, Cluster, owner_note, pause
from faultlab.engine.kubernetes.manifest import HOSTS, NAMES, OF_ALL_PODS, near
from faultlab.engine.kubernetes.pod_exec import Place
from faultlab.engine.kubernetes.pods import STRATEGIC, container_id, status_of
from faultlab.engine.kubernetes.quantity import limits

STARTED_WITHIN = 120.0  # seconds; a node can have to pull an image first
_LIFE = 7200  # seconds after which a helper ends, even if we were killed
# It has the hosts file of the pod, which the kubelet makes; the names of the stack are added.
_SLEEP = f"if [ -e {HOSTS}/hosts ]; then cat {HOSTS}/hosts >/etc/hosts; fi; exec sleep {_LIFE}"
_END = """
own=$(cat /proc/self/cgroup)
for p in /proc/[0-9]*; do
  [ "$(cat $p/cgroup 2>/dev/null)" = "$own" ] && [ "${p#/proc/}" != $$ ] && kill -9 "${p#/proc/}"
done
true
"""


def pod(
    name: str,
    stack: str,
    image: dict[str, str],
    *,
    seconds: int = _LIFE,
    disposable: bool = False,
    whole: bool = False,
    rights: Sequence[str] = (),
    memory: str = "",
) -> dict[str, Any]:
    """Return a helper pod that sleeps, on the node of its stack.

    `disposable`: that node is; `whole`: it sees the processes of its node.
    """
    allowed = _allowed(rights)
    container: dict[str, Any] = {
        "name": "helper",
        **image,
        "command": ["sleep", str(seconds)],
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
    }
    spec: dict[str, Any] = {
        **OF_ALL_PODS,
        "activeDeadlineSeconds": seconds + 60,
        "containers": [container],
        **near(stack, disposable),
    }
    if memory:
        container["resources"]["limits"] = limits(memory=memory)
    if whole:
        allowed["readOnlyRootFilesystem"] = True
        container["volumeMounts"] = [{"name": "tmp", "mountPath": "/tmp"}]
        spec |= {"hostPID": True, "volumes": [{"name": "tmp", "emptyDir": {}}]}
    container["securityContext"] = allowed
    labels = {STACK_LABEL: stack, ROLE_LABEL: HELPER}
    meta = {"name": name, "labels": labels, "annotations": owner_note()}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def _allowed(rights: Sequence[str]) -> dict[str, Any]:
    seccomp: dict[str, Any] = {"seccompProfile": {"type": "RuntimeDefault"}}
    if not rights:
        return seccomp
    more = {"capabilities": {"add": list(rights)}, "appArmorProfile": {"type": "Unconfined"}}
    return {**seccomp, **more}


def new_name() -> str:
    """Return a name that no other helper has."""
    return f"helper-{secrets.token_hex(4)}"


def until(look: Callable[[], Any], what: str, seconds: float = STARTED_WITHIN) -> Any:
    """Return what a look finds, as soon as it finds anything. Raises CannotRun after a while."""
    began = time.monotonic()
    while not (found := look()):
        if time.monotonic() > began + seconds:
            raise CannotRun(f"{what} within {seconds:.0f} s.", "kubectl get pods,events -A")
        pause(began)
    return found


def running(cluster: Cluster, at: Place) -> str:
    """Return the id of a container once it runs; empty before.

    Raises CannotRun if it never will.
    """
    with cluster.errors():
        status = status_of(cluster.core.read_namespaced_pod(at.pod, at.namespace), at.container)
    state = status.state if status else None
    if state is None or (state.running is None and state.terminated is None):
        waiting = state.waiting if state else None
        refuse_to_wait(at.container, waiting)
        return ""
    return container_id(status)


def refuse_to_wait(container: str, waiting: Any) -> None:
    """Raise CannotRun if a container waits for what does not come."""
    why = str(waiting.reason or "") if waiting else ""
    if why.startswith(("ErrImage", "ImagePull", "InvalidImage")):
        text = " ".join(str(waiting.message or why).split())[:200]
        raise CannotRun(
            f"The node has no image for {container}: {text}", "faultlab images push REGISTRY"
        )
    if why in ("CreateContainerConfigError", "CreateContainerError", "RunContainerError"):
        text = " ".join(str(waiting.message or why).split())[:300]
        raise CannotRun(f"{container} cannot start: {text}", "faultlab doctor --engine kubernetes")


def refuse_waiting_pod(pod: Any) -> None:
    """Raise CannotRun if a container of a pod, or the pod, waits for what does not come."""
    status = pod.status
    for each in [*(status.init_container_statuses or []), *(status.container_statuses or [])]:
        refuse_to_wait(each.name, each.state.waiting if each.state else None)
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


def create(cluster: Cluster, namespace: str, body: dict[str, Any]) -> None:
    """Create a pod. Raises CannotRun."""
    with cluster.errors():
        cluster.core.create_namespaced_pod(namespace, body)


def start(cluster: Cluster, stack: str, body: dict[str, Any], what: str) -> Place:
    """Create a helper pod and wait until it runs. Raises CannotRun."""
    create(cluster, stack, body)
    at = Place(stack, body["metadata"]["name"], "helper")
    until(lambda: running(cluster, at), f"{what} did not start")
    return at


@contextmanager
def within(
    cluster: Cluster,
    inside: Place,
    image: dict[str, str],
    rights: Sequence[str],
    mounts: Sequence[dict[str, Any]] | None = None,
) -> Iterator[tuple[Place, str]]:
    """Keep a container in the pod of a machine while the body runs; yield it and its id.

    `mounts`: of a foreign program. Without them it has no capabilities but `rights`.
    """
    name = new_name()
    rights_of = {"add": list(rights), **({"drop": ["ALL"]} if mounts is None else {})}
    names = {"name": NAMES, "mountPath": HOSTS, "readOnly": True}
    body = {
        "name": name,
        **image,
        "command": ["sh", "-c", _SLEEP],
        "targetContainerName": inside.container,
        "securityContext": {
            "capabilities": rights_of,
            "seccompProfile": {"type": "RuntimeDefault"},
            "appArmorProfile": {"type": "Unconfined"},
        },
        "volumeMounts": [names, *(mounts or ())],
    }
    change = {"spec": {"ephemeralContainers": [body]}}
    with cluster.errors():
        cluster.core.patch_namespaced_pod_ephemeralcontainers(
            inside.pod, inside.namespace, change, _content_type=STRATEGIC
        )
    at = Place(inside.namespace, inside.pod, name)
    try:
        yield at, until(lambda: running(cluster, at), f"A helper in {inside.pod} did not start")
    finally:
        with uninterrupted(), suppress(CannotRun):
            pod_exec.run(cluster, at, ["sh", "-c", _END], 10)


@dataclass
class PodProcess:
    """A program in a container of its own."""

    began: float
    output: Iterator[Part]
    line: pod_exec.PodExec

    def wait(self, seconds: float) -> int:
        """Return the exit code when the program has ended. Raises CannotRun."""
        with pod_exec.cut_off_after(self.line, seconds):
            for _ in self.output:
                pass
        if self.line.code is None or self.line.problem:
            raise CannotRun(
                f"The program did not end: {self.line.problem or 'cut off'}.", "faultlab status"
            )
        return self.line.code


def parts(line: pod_exec.PodExec) -> Iterator[Part]:
    """Yield the output of a program, each piece as standard output or standard error."""
    for channel, piece in line.read():
        yield (piece, None) if channel == pod_exec.STDOUT else (None, piece)
