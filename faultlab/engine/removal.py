"""Removal: take a stack down by its labels alone, and read back that nothing is left.

It works after a `kill -9`, after an edit of the compose file, and on half of a stack.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from faultlab.core import naming
from faultlab.core.command import uninterrupted
from faultlab.core.errors import CannotRun
from faultlab.core.later import Later
from faultlab.engine import kernel
from faultlab.engine.docker import STACK_LABEL, Engine
from faultlab.engine.stack import in_vm_mark, joined

if TYPE_CHECKING:
    import docker
else:
    docker = Later("docker")


def take_down(engine: Engine, name: str) -> None:
    """Remove a stack, and put the kernel back as it was before, if its lab changed it."""
    down(engine, name)
    if engine.kernel is not None:
        kernel.put_back(engine.kernel, name)


def down(engine: Engine, name: str) -> None:
    """Remove everything with this stack's label, then read back. Raises CannotRun for a rest."""
    with uninterrupted():
        _down(engine, name)
    if engine.kernel is not None:
        in_vm_mark(name).unlink(missing_ok=True)


def may_be_in_vm(name: str) -> bool:
    """Tell whether this user has started a stack of this name in the VM and not removed it.

    To ask the VM itself takes more than a second of two CPUs without KVM.
    """
    return in_vm_mark(name).exists()


def _down(engine: Engine, name: str) -> None:
    bridges = [f"br-{network.id[:12]}" for network in engine.networks(stack=name)]
    deadline = time.monotonic() + 30
    while left := leftovers(engine, name):
        if time.monotonic() > deadline:
            raise CannotRun(f"Could not remove {', '.join(left)}.", "faultlab sweep")
        _remove(engine, name)
    interfaces = _interfaces(engine)
    still = [bridge for bridge in bridges if bridge in interfaces]
    if still:
        raise CannotRun(f"The bridge {still[0]} of {name} is still there.", "ip -d link")


def _interfaces(engine: Engine) -> list[str]:
    """The network interfaces of the machine that the engine runs on."""
    if engine.kernel is None:
        return [path.name for path in Path("/sys/class/net").iterdir()]
    return engine.kernel.must("ls /sys/class/net").split()


def _remove(engine: Engine, name: str) -> None:
    """What joins a machine at the same time, then the machines one by one.

    Docker 20.10 can lock up for good when two containers leave a network at once: one holds the
    network and wants its controller (getSvcRecords), the other the reverse: moby#42545.
    """
    containers = engine.containers(stack=name)
    with ThreadPoolExecutor(max_workers=8) as pool:
        list(pool.map(partial(_remove_container, engine), filter(joined, containers)))
    for container in containers:
        if not joined(container):
            _remove_container(engine, container)
    for kind in (engine.networks, engine.volumes):
        for thing in kind(stack=name):
            _tolerant(engine, thing.remove)


def _remove_container(engine: Engine, container: Any) -> None:
    _tolerant(engine, lambda: container.remove(force=True, v=True))


def _tolerant(engine: Engine, remove: Callable[[], None]) -> None:
    """Remove, where "gone already" and "in use for a moment" are for the next look to judge."""
    with engine.errors():
        try:
            remove()
        except docker.errors.NotFound:
            pass
        except docker.errors.APIError as error:
            if error.status_code not in (403, 409):
                raise
            time.sleep(0.1)


def leftovers(engine: Engine, name: str) -> list[str]:
    """Containers, networks and volumes that still carry this stack's label."""
    return [
        *(f"container {container.name}" for container in engine.containers(stack=name)),
        *(f"network {network.name}" for network in engine.networks(stack=name)),
        *(f"volume {volume.name}" for volume in engine.volumes(stack=name)),
    ]


def names(engine: Engine) -> list[str]:
    """Every stack of ours of which anything is left; in a namespace, only those in it."""
    labels = [
        *(container.labels for container in engine.containers()),
        *((network.attrs.get("Labels") or {}) for network in engine.networks()),
        *((volume.attrs.get("Labels") or {}) for volume in engine.volumes()),
    ]
    return sorted({n for label in labels if (n := label[STACK_LABEL]).startswith(naming.prefix())})
