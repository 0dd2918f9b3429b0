"""Jobspec: the Job whose pods are tasks of faultlab, and the results in their logs."""

import base64
from collections.abc import Iterator
from typing import Any

from faultlab.core import git
from faultlab.core.naming import BATCH_LABEL
from faultlab.engine.kubernetes import program
from faultlab.engine.kubernetes.manifest import NODE
from faultlab.engine.kubernetes.namespace import BATCH
from faultlab.engine.kubernetes.registry import VARIABLE, chosen, tagged
from faultlab.engine.measure.node_observer import OUR_POD
from faultlab.lab import release

HOME = "faultlab"  # the namespace and the service account that deploy/kubernetes makes
JOB = "batch.kubernetes.io/job-name"
INDEX = "batch.kubernetes.io/job-completion-index"
TASKS = "tasks"  # the file of a ConfigMap with a line for each task
_RESULT = "faultlab-result "  # begins a line of the log that is a part of the result
_LINE = 8000  # characters; container runtimes split lines of 16 KiB
_END_WITHIN = 120  # seconds for a task that is told to stop
_RUN = f'exec python3 -m faultlab.$(sed -n "$((INDEX + 1))p" /{TASKS}/{TASKS})'
_USER = 10001  # none of the image
# No other task is on the node of such a pod, and it waits for such a node.
_ALONE = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {
                "labelSelector": {"matchExpressions": [{"key": BATCH_LABEL, "operator": "Exists"}]},
                "topologyKey": "kubernetes.io/hostname",
            }
        ]
    }
}
# A pod that a drained node loses is made again. One that has failed is not, and its log says why.
_RULES = [
    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
    {"action": "FailIndex", "onExitCodes": {"operator": "NotIn", "values": [0]}},
]


def job(batch: str, name: str, count: int, at_once: int, alone: bool) -> dict[str, Any]:
    """Return a Job with this many pods, whose tasks are in the ConfigMap of its name.

    `alone`: each of them has a node for itself and its stack.
    """
    labels = {BATCH_LABEL: batch}
    pod = {
        "serviceAccountName": HOME,
        "restartPolicy": "Never",
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": _END_WITHIN,
        "securityContext": {"runAsNonRoot": True, "runAsUser": _USER, "runAsGroup": _USER},
        "containers": [_container(batch, name)],
        "volumes": [
            {"name": "tmp", "emptyDir": {}},
            {"name": TASKS, "configMap": {"name": name}},
        ],
        **({"affinity": _ALONE} if alone else {}),
    }
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "completionMode": "Indexed",
            "completions": count,
            "parallelism": min(count, at_once),
            "backoffLimitPerIndex": 1,
            "podFailurePolicy": {"rules": _RULES},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def _container(batch: str, name: str) -> dict[str, Any]:
    fields = {
        "INDEX": f"metadata.annotations['{INDEX}']",
        NODE: "spec.nodeName",
        OUR_POD: "metadata.uid",
    }
    env: list[dict[str, Any]] = [
        {"name": key, "valueFrom": {"fieldRef": {"fieldPath": path}}}
        for key, path in fields.items()
    ]
    values = {
        # No two tasks that run at a time have stacks of one name.
        "FAULTLAB_NAMESPACE": f"{name}-$(INDEX)",
        BATCH: batch,
        "FAULTLAB_STATE": "/tmp/state",
        "HOME": "/tmp",
        **({VARIABLE: chosen()} if chosen() else {}),
        release.VARIABLE: release.now().suite,
        **git.environment(),
    }
    env += [{"name": key, "value": value} for key, value in values.items()]
    return {
        "name": "task",
        **tagged(program.its_tag()),
        "command": ["sh", "-c", _RUN],
        "env": env,
        "volumeMounts": [
            {"name": "tmp", "mountPath": "/tmp"},
            {"name": TASKS, "mountPath": f"/{TASKS}", "readOnly": True},
        ],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "resources": {
            "requests": {"cpu": "100m", "memory": "192Mi"},
            "limits": {"memory": "768Mi"},
        },
    }


def lines(result: bytes) -> Iterator[str]:
    """Yield the lines of the log that carry a result."""
    text = base64.b64encode(result).decode()
    for at in range(0, len(text), _LINE):
        yield _RESULT + text[at : at + _LINE]


def result_of(log: str) -> bytes:
    """Return the result in a log; empty if the log has no whole result."""
    found = (line for line in log.splitlines() if line.startswith(_RESULT))
    try:
        return base64.b64decode("".join(line.removeprefix(_RESULT) for line in found))
    except ValueError:
        return b""
