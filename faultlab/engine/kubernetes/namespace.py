"""Namespace: the namespace of a stack, in which only its own pods reach each other."""

import os
import re
import time
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from faultlab.core.errors import CannotRun
from faultlab.core.naming import BATCH_LABEL
from faultlab.engine.kubernetes.cluster import (
    DISPOSABLE_LABEL,
    MACHINE,
    ROLE_LABEL,
    Cluster,
    gone,
    owner_note,
    pause,
)
from faultlab.engine.kubernetes.manifest import TOOLS
from faultlab.engine.kubernetes.quantity import quantity
from faultlab.lab.services import LIMITS_IN_ALL, limits

GONE_WITHIN = 90  # seconds in which Kubernetes removes a namespace; it waits for 5 by itself
BATCH = "FAULTLAB_BATCH"
_LONGEST = 63  # characters of the name of a namespace
_MOST_PODS = "16"  # of a stack, with its node pod and some helpers
_TAKEN = 409
# What a machine may do in its namespaces is more than the levels `baseline` and `restricted` allow.
_LEVEL = {"pod-security.kubernetes.io/enforce": "privileged"}


def policies() -> list[dict[str, Any]]:
    """Return the network policies of a stack: machines reach machines, and nothing else is open."""
    machines = {"podSelector": {"matchLabels": {ROLE_LABEL: MACHINE}}}
    closed = {"policyTypes": ["Ingress", "Egress"]}
    among = {"ingress": [{"from": [machines]}], "egress": [{"to": [machines]}]}
    specs = {
        "nothing": {"podSelector": {}, **closed},
        "only-machines": {**machines, **closed, **among},
    }
    frame = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy"}
    return [{**frame, "metadata": {"name": name}, "spec": spec} for name, spec in specs.items()]


def quota() -> dict[str, str]:
    """Return the most that all pods of a stack can have, for the stack of a seat."""
    most = limits(os.environ.get(LIMITS_IN_ALL, ""))
    if not most:
        return {}
    asked = {"requests.cpu": str(most["cpus"])} if "cpus" in most else {}
    asked |= {"requests.memory": quantity(most["mem_limit"])} if "mem_limit" in most else {}
    return {"pods": _MOST_PODS, "services": "0", "persistentvolumeclaims": "0", **asked}


def tools() -> dict[str, Any]:
    """Return the ConfigMap with the programs that supervise daemons."""
    here = files("faultlab.engine.kubernetes")
    supervisor = "#!/usr/bin/perl\n" + (here / "supervisor.pl").read_text()
    data = {"supervisor": supervisor, "restart": (here / "restart.sh").read_text()}
    return {"metadata": {"name": TOOLS}, "data": data}


def make_namespace(cluster: Cluster, stack: str, labels: Mapping[str, str]) -> None:
    """Create the namespace of a stack, with all but its pods. Raises CannotRun."""
    if len(stack) > _LONGEST or not re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", stack):
        raise CannotRun(
            f"Kubernetes takes no namespace of this name: {stack}.", "export FAULTLAB_NAMESPACE=lab"
        )
    batch = os.environ.get(BATCH)  # a task of this batch starts the stack
    of_batch = {BATCH_LABEL: batch} if batch else {}
    of_node = {DISPOSABLE_LABEL: "true"} if cluster.disposable else {}
    meta = {"name": stack, "labels": {**labels, **of_batch, **of_node, **_LEVEL}}
    meta["annotations"] = owner_note()
    _create_namespace(cluster, stack, {"metadata": meta})
    with cluster.errors():
        cluster.core.create_namespaced_service_account(
            stack, {"metadata": {"name": MACHINE}, "automountServiceAccountToken": False}
        )
        cluster.core.create_namespaced_config_map(stack, tools())
        if hard := quota():
            body = {"metadata": {"name": MACHINE}, "spec": {"hard": hard}}
            cluster.core.create_namespaced_resource_quota(stack, body)
        for body in policies():
            cluster.network.create_namespaced_network_policy(stack, body)


def _create_namespace(cluster: Cluster, stack: str, body: dict[str, Any]) -> None:
    """Create a namespace; wait for one of this name that is just being removed."""
    began = time.monotonic()
    while True:
        try:
            with cluster.errors():
                cluster.core.create_namespace(body)
            return
        except CannotRun as problem:
            if getattr(problem.__cause__, "status", None) != _TAKEN or not _ending(cluster, stack):
                raise
            if time.monotonic() > began + GONE_WITHIN:
                raise
            pause(began)


def _ending(cluster: Cluster, stack: str) -> bool:
    try:
        with cluster.errors():
            found = cluster.core.read_namespace(stack)
    except CannotRun as problem:
        return gone(problem.__cause__)
    return found.metadata.deletion_timestamp is not None
