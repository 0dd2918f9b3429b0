"""Node observer: reads the counters of a node, which the node pod of a stack prints."""

import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from faultlab.engine.measure.cpu_interference import DOCKER, Observer
from faultlab.engine.measure.procfs import counters, unpack

OUR_POD = "FAULTLAB_POD_UID"  # the pod that this command runs in, if it runs in one
_RUNTIME = (*DOCKER, "kubelet", "crio", "conmon")


def observer(pods: Iterable[Any], on_node: Callable[[str], str]) -> Observer:
    """Return an observer of the machine that these pods run on.

    If that is this machine, no node pod is asked. Here this command is known by its number, and
    programs are seen that run beside a node that is a container.
    """
    stack = [part for pod in pods for part in _in_cgroups(pod.metadata.uid)]
    here = Observer(stack, runtime=_RUNTIME)
    if here.read().processes:
        return here
    script = counters(stack)
    ours = _in_cgroups(os.environ.get(OUR_POD, ""))
    return replace(here, node=lambda: unpack(on_node(script)), own=ours)


def _in_cgroups(uid: str) -> set[str]:
    """Return how the id of a pod is in the names of its cgroups; systemd allows no `-` there."""
    return {uid, uid.replace("-", "_")} if uid else set()
