"""Removal: take a stack down by its labels alone, and read back that nothing is left.

It works after a `kill -9`, after an edit of the compose file, and on half of a stack.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

from faultlab.core import naming
from faultlab.core.command import uninterrupted
from faultlab.core.errors import CannotRun
from faultlab.core.later import Later
from faultlab.engine.docker import STACK_LABEL, Docker

if TYPE_CHECKING:
    import docker
else:
    docker = Later("docker")


def down(on: Docker, name: str, interfaces: Callable[[], list[str]]) -> None:
    """Remove everything with this stack's label, then read back. Raises CannotRun for a rest.

    `interfaces`: reads the network interfaces of the machine that Docker runs on.
    """
    with uninterrupted():
        _down(on, name, interfaces)


def bridges(on: Docker, name: str) -> list[str]:
    """Return the interfaces that the host has to the networks of a stack."""
    return [f"br-{network.id[:12]}" for network in on.networks(stack=name)]


def _down(on: Docker, name: str, interfaces: Callable[[], list[str]]) -> None:
    mine = bridges(on, name)
    deadline = time.monotonic() + 30
    while left := leftovers(on, name):
        if time.monotonic() > deadline:
            raise CannotRun(f"Could not remove {', '.join(left)}.", "faultlab sweep")
        _remove(on, name)
    there = interfaces()
    still = [bridge for bridge in mine if bridge in there]
    if still:
        raise CannotRun(f"The bridge {still[0]} of {name} is still there.", "ip -d link")


def _remove(on: Docker, name: str) -> None:
    """Remove the containers that join a machine all at once, then the machines one by one.

    Docker 20.10 can lock up for good when two containers leave a network at once: one holds the
    network and wants its controller (getSvcRecords), the other the reverse: moby#42545.
    """
    containers = on.containers(stack=name)
    with ThreadPoolExecutor(max_workers=8) as pool:
        list(pool.map(partial(_remove_container, on), filter(_joined, containers)))
    for container in containers:
        if not _joined(container):
            _remove_container(on, container)
    for kind in (on.networks, on.volumes):
        for thing in kind(stack=name):
            _tolerant(on, thing.remove)


def _remove_container(on: Docker, container: Any) -> None:
    _tolerant(on, lambda: container.remove(force=True, v=True))


def _tolerant(on: Docker, remove: Callable[[], None]) -> None:
    """Remove it, and ignore "gone already" and "in use for a moment": the next look judges."""
    with on.errors():
        try:
            remove()
        except docker.errors.NotFound:
            pass
        except docker.errors.APIError as error:
            if error.status_code not in (403, 409):
                raise
            time.sleep(0.1)


def leftovers(on: Docker, name: str) -> list[str]:
    """Containers, networks and volumes that still carry this stack's label."""
    return [
        *(f"container {container.name}" for container in on.containers(stack=name)),
        *(f"network {network.name}" for network in on.networks(stack=name)),
        *(f"volume {volume.name}" for volume in on.volumes(stack=name)),
    ]


def names(on: Docker) -> list[str]:
    """Every stack of ours of which anything is left; in a namespace, only those in it."""
    labels = [
        *(container.labels for container in on.containers()),
        *((network.attrs.get("Labels") or {}) for network in on.networks()),
        *((volume.attrs.get("Labels") or {}) for volume in on.volumes()),
    ]
    return sorted({n for label in labels if (n := label[STACK_LABEL]).startswith(naming.prefix())})


def _joined(container: Any) -> bool:
    """Tell whether a container has joined the namespaces of another."""
    return joined_id(container) != ""


def joined_id(container: Any) -> str:
    """Return the id of the container whose namespaces this one has joined; else nothing."""
    kind, _, where = str(container.attrs["HostConfig"]["NetworkMode"]).partition(":")
    return where if kind == "container" else ""
