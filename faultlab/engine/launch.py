"""Launch: start the containers of a stack by Compose, on a subnet that is free."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import yaml

from faultlab.core import lock
from faultlab.core.errors import CannotRun
from faultlab.engine import compose, subnet
from faultlab.engine.contract import Machine
from faultlab.engine.docker import LAB_LABEL, RUN_LABEL, STACK_LABEL, Docker
from faultlab.lab.model import Lab

# Docker mounts /proc/sys read-only. This makes /proc/sys/net alone writable in the mount
# namespace of each process id, so that `sysctl -w net.*` works in a machine as on a host and
# `kernel.*` and `vm.*` stay closed. Some versions of Docker give machines on an internal network a
# default route all the same; without it their kernel refuses what would leave.
_FURNISH = """
for pid in {pids}; do
  for ns in net mnt; do  # a process id can be used again: never enter the host's own namespaces
    [ "$(readlink /proc/$pid/ns/$ns)" != "$(readlink /proc/1/ns/$ns)" ]
  done
  nsenter -t "$pid" -n ip route flush default
  nsenter -t "$pid" -m sh -ec \
    'mount --bind /proc/sys/net /proc/sys/net; mount -o remount,bind,rw /proc/sys/net'
done
"""


def launch(on: Docker, lab: Lab, stack: str, run_id: str, folder: Path) -> None:
    """Start the containers of the lab's stack; none of them need be ready.

    The compose files that were run stay in `folder`. Raises CannotRun.
    """
    labels = {STACK_LABEL: stack, LAB_LABEL: lab.alias, RUN_LABEL: run_id}
    with on.errors():
        taken = subnet.of_networks(on.client.networks.list()) + subnet.host_routes()
    for candidate in subnet.free(taken):
        files = []
        documents = lab.services.documents(stack, lab.daemons, str(candidate), labels)
        for i, document in enumerate(documents):
            file = folder / ("compose.yaml" if i == 0 else "overlay.yaml")
            file.write_text(yaml.safe_dump(document, sort_keys=False))
            files.append(file)
        try:
            compose.up(stack, files, on.env)
        except compose.PoolOverlap:
            continue  # another stack took it between our look and Docker's
        return
    raise CannotRun(f"No free /24 is left in {subnet.POOL}.", "faultlab sweep")


def furnishing(machines: Sequence[Machine]) -> str:
    """Return the script that makes machines of containers, run where all processes are seen."""
    return _FURNISH.format(pids=" ".join(machine.pid for machine in machines))


def in_vm_mark(stack: str) -> Path:
    """Return the file that says that this user has started this stack in the VM."""
    return lock.folder() / f"{stack}.in-vm"
