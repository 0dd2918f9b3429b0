"""The real cluster of the tests: brought up, given our images, and taken down if we started it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from faultlab.core import paths
from faultlab.engine.kubernetes import registry
from faultlab.engine.kubernetes.disposable import DisposableNodes
from faultlab.engine.kubernetes.engine import KubernetesEngine

needs_time = pytest.mark.skipif(
    not os.environ.get("LONG"), reason="building a cluster takes long: LONG=1"
)
INGRESS = "127.0.0.1:16600"  # where cluster.sh has its Ingress controller
NODE_VM = "faultlab-node"  # as cluster.sh calls the VM that is a node
_SCRIPT = Path(__file__).parent / "cluster" / "cluster.sh"


@contextmanager
def up() -> Iterator[KubernetesEngine]:
    """Yield the engine of the cluster while it is up. Building it takes ten minutes once."""
    pytest.importorskip("kubernetes", reason="pip install 'faultlab[kubernetes]'")
    was_up = "it is not up" not in _cluster("status").stderr
    for line in _cluster("up").stdout.removeprefix("export ").split():
        name, _, value = line.partition("=")
        os.environ[name] = value
    try:
        registry.push(registry.chosen(), (), print)
        yield KubernetesEngine()
    finally:
        if not was_up:
            _cluster("down")


@contextmanager
def disposable() -> Iterator[DisposableNodes]:
    """Yield the engine of the VM that is a node of the cluster, while it is one."""
    with up():
        was_up = bool(DisposableNodes().cluster.nodes())
        if not was_up:
            _cluster("node-up")
        try:
            yield DisposableNodes()
        finally:
            if not was_up:
                _cluster("node-down")


def _cluster(verb: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([_SCRIPT, verb], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done


def kubectl(*words: str, given: str | None = None) -> str:
    """Run kubectl as an administrator and return its output."""
    folder = Path(os.environ["KUBECONFIG"]).parents[1]
    done = subprocess.run(
        [folder / "bin/kubectl", *words],
        input=given,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def kill_kubelet() -> None:
    """Kill the kubelet of the node. It starts again by itself."""
    _cluster("kill-kubelet")


def prepare() -> None:
    """Give the cluster what an administrator gives it."""
    kubectl("apply", "-k", str(paths.root() / "deploy/kubernetes"))


def things() -> list[str]:
    """Return the names of all that can be left over on the cluster."""
    kinds = "namespaces,pods,jobs,persistentvolumes,persistentvolumeclaims,configmaps"
    found: list[dict[str, Any]] = json.loads(kubectl("get", kinds, "-A", "-o", "json"))["items"]
    return sorted(f"{one['kind']} {one['metadata']['name']}" for one in found)
