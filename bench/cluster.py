"""Cluster: how the calls of our side grow with seats and Jobs, on a cluster of fake nodes.

The API server, the scheduler and the controllers are real (tests/live/cluster). The nodes are
kwok's: their pods start and end, and run nothing. So commands in pods, and logs, are made up.

Usage: python -m bench.cluster KWOK [--tasks 100 1000 10000] [--seats 10 100 1000]
KWOK is the program: go install sigs.k8s.io/kwok/cmd/kwok@v0.7.0
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from faultlab.engine.batch import Ended, Task
from faultlab.engine.kubernetes import jobspec, podhelpers
from faultlab.engine.kubernetes.engine import KubernetesEngine
from faultlab.engine.kubernetes.node_pod import NodePod
from faultlab.engine.kubernetes.podjobs import PodJobs
from faultlab.lab import loader as labs
from tests.live import clusters
from tests.live.clusters import kubectl

_NODES = 20
_PODS = 400  # on each of them
_AT_ONCE = 200
_SIDE_BY_SIDE = 50  # seats that are started at a time


def node(number: int) -> dict[str, Any]:
    """Return a node whose pods kwok plays."""
    most = {"cpu": "64", "memory": "256Gi", "pods": str(_PODS), "ephemeral-storage": "1Ti"}
    meta = {
        "name": f"fake-{number}",
        "annotations": {"kwok.x-k8s.io/node": "fake"},
        "labels": {"kubernetes.io/hostname": f"fake-{number}"},
    }
    status = {"allocatable": most, "capacity": most}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": status}


@contextmanager
def fake_nodes(kwok: Path) -> Iterator[None]:
    """Add fake nodes while the body runs. The real node gets no pods meanwhile."""
    only = "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake"
    access = f"--kubeconfig={os.environ['KUBECONFIG']}"
    names = [f"fake-{number}" for number in range(_NODES)]
    kubectl("cordon", "node")
    try:
        # Without a lease, the cluster takes a node for lost after 40 seconds.
        lease = "--node-lease-duration-seconds=40"
        process = subprocess.Popen([kwok, access, only, lease], stderr=subprocess.DEVNULL)
        try:
            for number in range(_NODES):
                kubectl("apply", "-f", "-", given=json.dumps(node(number)))
            kubectl("wait", "--for=condition=Ready", "--timeout=60s", "nodes", *names)
            yield
        finally:
            kubectl("delete", "node", "--ignore-not-found", *names)
            process.terminate()
            process.wait()
    finally:
        kubectl("uncordon", "node")


class Calls:
    """Counts the requests to the API, and measures the time and the CPU time of this process."""

    def __init__(self, engine: KubernetesEngine) -> None:
        self.made: Counter[str] = Counter()
        rest = engine.cluster.client.rest_client
        self._request = rest.request
        rest.request = self._counted

    def _counted(self, method: str, *words: Any, **options: Any) -> Any:
        self.made[method] += 1
        return self._request(method, *words, **options)

    @contextmanager
    def told(self, what: str, count: int) -> Iterator[None]:
        """Print what the body took, in total and for each of `count` things."""
        self.made.clear()
        began, cpu = time.monotonic(), time.process_time()
        yield
        took, cpu = time.monotonic() - began, time.process_time() - cpu
        calls = self.made.total()
        print(
            f"{count:6} {what}: {took:7.1f} s, {calls:6} calls ({calls / count:.1f} each),"
            f" {cpu:6.1f} s of CPU time ({1000 * cpu / count:.0f} ms each)",
            flush=True,
        )


def tasks(engine: KubernetesEngine, calls: Calls, count: int) -> None:
    """Run so many tasks, which end at once."""
    wanted = [Task(f"mtu {number} {engine.name}", alone=False) for number in range(count)]

    def ended(batch: PodJobs, words: str, pod: str) -> Ended:
        """Read the pod in place of its log, which a fake node does not have."""
        batch._cluster.core.read_namespaced_pod(pod, jobspec.HOME)
        return Ended(words, b"ended")

    with patch.object(PodJobs, "_ended", ended), calls.told("tasks", count):
        got = list(PodJobs(engine.cluster, "bench").run(wanted, _AT_ONCE, lambda _: None))
    assert sorted(one.words for one in got) == sorted(one.words for one in wanted)


def seats(engine: KubernetesEngine, calls: Calls, count: int) -> None:
    """Launch so many stacks and remove them. What runs in their pods is made up."""
    lab, names = labs.load("mtu"), [f"faultlab-bench-{number}" for number in range(count)]

    def with_address(_: object, stack: str) -> list[Any]:
        pods = engine.cluster.pods(stack, "machine")
        return pods if pods and all(pod.status.pod_ip for pod in pods) else []

    with (
        tempfile.TemporaryDirectory() as folder,
        patch.multiple(NodePod, run=lambda *_: "", must=lambda *_: ""),
        patch.object(KubernetesEngine, "_waiting_for_names", with_address),
        patch.object(podhelpers, "container_id", lambda _: "fake"),
        patch("faultlab.engine.kubernetes.engine.container_id", lambda _: "fake"),
        ThreadPoolExecutor(_SIDE_BY_SIDE) as pool,
    ):
        with calls.told("seats launched", count):
            list(pool.map(lambda name: engine.launch(lab, name, "run", Path(folder)), names))
        with calls.told("seats listed", count):
            assert {*names} <= {*engine.all_stacks()}
        with calls.told("seats removed", count):
            list(pool.map(engine.down, names))


def main() -> None:
    """Print a line for each measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kwok", type=Path)
    parser.add_argument("--tasks", type=int, nargs="*", default=[100, 1000, 10000])
    parser.add_argument("--seats", type=int, nargs="*", default=[10, 100, 1000])
    chosen = parser.parse_args()
    with clusters.up() as engine:
        clusters.prepare()
        calls = Calls(engine)
        with fake_nodes(chosen.kwok):
            for count in chosen.tasks:
                tasks(engine, calls, count)
            for count in chosen.seats:
                seats(engine, calls, count)


if __name__ == "__main__":
    main()
