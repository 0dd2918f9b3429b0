"""Removal: remove a stack by its labels alone, and verify that nothing is left.

It works after a `kill -9`, after a change of the compose file, and on half of a stack.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from faultlab.core import lock, naming
from faultlab.core.command import uninterrupted
from faultlab.core.errors import CannotRun
from faultlab.core.later import Later
from faultlab.core.naming import OWNER_LABEL, STACK_LABEL
from faultlab.engine.docker.connection import DockerEngine

docker: Any = Later("docker")


class Removable(DockerEngine):
    """The part of a Docker engine that removes stacks."""

    def down(self, stack: str) -> None:
        """Remove a stack, and verify that nothing is left. Raises Held if it is another user's."""
        labels = [
            *(container.labels for container in self.containers(stack)),
            *((network.attrs.get("Labels") or {}) for network in self.networks(stack)),
        ]
        lock.refuse_others(stack, [each.get(OWNER_LABEL, "") for each in labels])
        with uninterrupted():
            self._down(stack)

    def _down(self, stack: str) -> None:
        """Remove a stack; an engine that has more to remove adds it here."""
        bridges = self.bridges(stack)
        deadline = time.monotonic() + 30
        while left := self.leftovers(stack):
            if time.monotonic() > deadline:
                raise CannotRun(f"Could not remove {', '.join(left)}.", "faultlab sweep")
            self._remove(stack)
        there = self.interfaces()
        still = [bridge for bridge in bridges if bridge in there]
        if still:
            raise CannotRun(f"The bridge {still[0]} of {stack} is still there.", "ip -d link")

    def bridges(self, stack: str) -> list[str]:
        """Return the interfaces of Docker's machine to the networks of a stack."""
        return [f"br-{network.id[:12]}" for network in self.networks(stack)]

    def interfaces(self) -> list[str]:
        """Return the network interfaces of the machine that Docker runs on."""
        return [path.name for path in Path("/sys/class/net").iterdir()]

    def _remove(self, stack: str) -> None:
        """Remove the containers that join a machine all at once, then the machines one by one.

        Docker 20.10 can deadlock if two containers leave a network at the same time. One holds the
        network and wants its controller (getSvcRecords), the other the reverse: moby#42545.
        """
        containers = self.containers(stack)
        with ThreadPoolExecutor(max_workers=8) as pool:
            list(pool.map(self._remove_container, filter(joined_id, containers)))
        for container in containers:
            if not joined_id(container):
                self._remove_container(container)
        for thing in (*self.networks(stack), *self.volumes(stack)):
            self._tolerant(thing.remove)

    def _remove_container(self, container: Any) -> None:
        self._tolerant(partial(container.remove, force=True, v=True))

    def _tolerant(self, remove: Callable[[], None]) -> None:
        """Remove it, and ignore "already gone" and "in use"; the next look decides."""
        with self.errors():
            try:
                remove()
            except docker.errors.NotFound:
                pass
            except docker.errors.APIError as error:
                if error.status_code not in (403, 409):
                    raise
                time.sleep(0.1)

    def leftovers(self, stack: str) -> list[str]:
        """Return the containers, networks and volumes that still carry this stack's label."""
        return [
            *(f"container {container.name}" for container in self.containers(stack)),
            *(f"network {network.name}" for network in self.networks(stack)),
            *(f"volume {volume.name}" for volume in self.volumes(stack)),
        ]

    def stacks(self) -> list[str]:
        """Return our stacks of which anything is left; in a namespace, only its own."""
        labels = [
            *(container.labels for container in self.containers()),
            *((thing.attrs.get("Labels") or {}) for thing in (*self.networks(), *self.volumes())),
        ]
        names = {label[STACK_LABEL] for label in labels}
        return sorted(name for name in names if name.startswith(naming.prefix_of_all()))


def joined_id(container: Any) -> str:
    """Return the id of the container whose namespaces this one has joined, or an empty text."""
    kind, _, where = str(container.attrs["HostConfig"]["NetworkMode"]).partition(":")
    return where if kind == "container" else ""
