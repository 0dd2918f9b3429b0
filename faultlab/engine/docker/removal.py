"""Removal: remove a stack by its labels alone, and verify that nothing is left.

It works after a `kill -9`, after a change of the compose file, and on half of a stack.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from faultlab.core.errors import CannotRun
from faultlab.core.later import Later
from faultlab.engine.docker.connection import Docker

docker: Any = Later("docker")

_PATIENCE = 30  # seconds


def remove(on: Docker, stack: str, interfaces: Callable[[], list[str]]) -> None:
    """Remove a stack, and verify that nothing is left. Raises CannotRun.

    `interfaces`: returns the network interfaces of the machine that Docker runs on.
    """
    bridges = on.bridges(stack)
    deadline = time.monotonic() + _PATIENCE
    while left := on.leftovers(stack):
        if time.monotonic() > deadline:
            raise CannotRun(f"Could not remove {', '.join(left)}.", "faultlab sweep")
        _remove(on, stack)
    there = interfaces()
    still = [bridge for bridge in bridges if bridge in there]
    if still:
        raise CannotRun(f"The bridge {still[0]} of {stack} is still there.", "ip -d link")


def _remove(on: Docker, stack: str) -> None:
    """Remove the containers that join a machine all at once, then the machines one by one.

    Docker 20.10 can deadlock if two containers leave a network at the same time. One holds the
    network and wants its controller (getSvcRecords), the other the reverse: moby#42545.
    """
    containers = on.containers(stack)
    with ThreadPoolExecutor(max_workers=8) as pool:
        list(pool.map(partial(_remove_container, on), filter(joined_id, containers)))
    for container in containers:
        if not joined_id(container):
            _remove_container(on, container)
    for thing in (*on.networks(stack), *on.volumes(stack)):
        _tolerant(on, thing.remove)


def _remove_container(on: Docker, container: Any) -> None:
    _tolerant(on, partial(container.remove, force=True, v=True))


def _tolerant(on: Docker, remove: Callable[[], None]) -> None:
    """Remove it, and ignore "already gone" and "in use"; the next look decides."""
    with on.errors():
        try:
            remove()
        except docker.errors.NotFound:
            pass
        except docker.errors.APIError as error:
            if error.status_code not in (403, 409):
                raise
            time.sleep(0.1)


def joined_id(container: Any) -> str:
    """Return the id of the container whose namespaces this one has joined, or an empty text."""
    kind, _, where = str(container.attrs["HostConfig"]["NetworkMode"]).partition(":")
    return where if kind == "container" else ""
