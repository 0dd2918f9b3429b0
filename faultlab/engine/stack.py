"""Stack: the machines and daemons of one lab, up in Docker under one name.

A stack is known by its labels alone: nothing here reads a state file, and `down` works after a
`kill -9`, after an edit of the compose file, and on half of a stack.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from faultlab.core import lock
from faultlab.core.command import meanwhile
from faultlab.core.errors import CannotRun
from faultlab.core.later import Later
from faultlab.engine import compose, subnet
from faultlab.engine.docker import LAB_LABEL, RUN_LABEL, STACK_LABEL, Engine, Machine
from faultlab.engine.pace import Pace
from faultlab.engine.shell import Shell
from faultlab.lab import images
from faultlab.lab.model import KERNEL, Lab

if TYPE_CHECKING:
    import docker
else:
    docker = Later("docker")

_READY_SECONDS = 30

# Docker mounts /proc/sys read-only. This makes /proc/sys/net alone writable in the mount
# namespace of each process id, so that `sysctl -w net.*` works in a machine as on a host and
# `kernel.*` and `vm.*` stay closed. Some versions of Docker give machines on an internal network a
# default route all the same; without it their kernel refuses what would leave.
_MAKE_MACHINE = """
for pid in {pids}; do
  for ns in net mnt; do  # a process id can be used again: never enter the host's own namespaces
    [ "$(readlink /proc/$pid/ns/$ns)" != "$(readlink /proc/1/ns/$ns)" ]
  done
  nsenter -t "$pid" -n ip route flush default
  nsenter -t "$pid" -m sh -ec \
    'mount --bind /proc/sys/net /proc/sys/net; mount -o remount,bind,rw /proc/sys/net'
done
"""


class Stack(Mapping[str, Machine]):
    """The containers of one stack by the name of their machine or daemon."""

    def __init__(self, engine: Engine, name: str) -> None:
        self.engine = engine
        self.name = name
        self.pace = Pace()
        self._machines: dict[str, Machine] = {}
        self.refresh()

    def refresh(self) -> None:
        """Read from Docker what is there now."""
        found = [
            Machine(role, container, self.engine)
            for container in self.engine.containers(stack=self.name)
            if (role := container.labels.get("com.docker.compose.service"))
        ]
        found.sort(key=lambda machine: (bool(joins(machine)), machine.name))
        self._machines = {machine.name: machine for machine in found}

    def __getitem__(self, name: str) -> Machine:
        """A machine or daemon. Raises CannotRun when it is not there any more."""
        if name not in self._machines:
            raise CannotRun(f"{name} is not there any more in {self.name}.", "faultlab status")
        return self._machines[name]

    def __contains__(self, name: object) -> bool:
        return name in self._machines

    def __iter__(self) -> Iterator[str]:
        return iter(self._machines)

    def __len__(self) -> int:
        return len(self._machines)

    def label(self, label: str) -> str:
        """The value of one of our labels, empty when nothing is up."""
        for machine in self._machines.values():
            return str(machine.container.labels.get(label, ""))
        return ""

    def place(self, at: str) -> Shell:
        """Where a step runs: a machine, a daemon, or the VM's own kernel."""
        if at != KERNEL:
            return self[at]
        if self.engine.kernel is None:
            raise CannotRun("This engine's kernel must not be changed.", "add --engine vm")
        return self.engine.kernel

    @property
    def lab_id(self) -> str:
        """The lab that this stack was started for."""
        return self.label(LAB_LABEL)

    @property
    def run_id(self) -> str:
        """The run that this stack belongs to."""
        return self.label(RUN_LABEL)

    def stopped(self) -> list[str]:
        """What should run and does not, as `name (exit code N)`."""
        states = [(name, machine.state) for name, machine in self._machines.items()]
        return [
            f"{name} (exit code {state['ExitCode']})"
            for name, state in states
            if not state["Running"]
        ]

    def wait_ready(self, seconds: float = _READY_SECONDS) -> None:
        """Wait until every container's own health check passes. Raises CannotRun with its words."""
        deadline = time.monotonic() + seconds
        for machine in self._machines.values():
            command = _health_command(machine)
            while command:
                if not machine.state["Running"]:
                    tail = machine.last_log_line()
                    raise CannotRun(
                        f"{machine.name} ended while it started: {tail or 'no log line'}",
                        f"docker logs {machine.container_name}",
                    )
                done = machine.run(command, timeout=5)
                if done.code == 0:
                    break
                if time.monotonic() > deadline:
                    said = (done.err or done.out).strip() or f"exit code {done.code}"
                    raise CannotRun(
                        f"{machine.name} was not ready within {seconds:.0f} s: {said}",
                        f"docker logs {machine.container_name}",
                    )
                time.sleep(0.03)


def _health_command(machine: Machine) -> str:
    """The test of the image's HEALTHCHECK as a shell command, empty when there is none."""
    health: dict[str, Any] = machine.container.attrs["Config"].get("Healthcheck") or {}
    match health.get("Test"):
        case ["CMD", *words]:
            return shlex.join(words)
        case ["CMD-SHELL", command]:
            return str(command)
    return ""


def up(engine: Engine, lab: Lab, name: str, run_id: str, folder: Path) -> Stack:
    """Start the lab's stack and wait until it is ready. Raises CannotRun."""
    stack = launch(engine, lab, name, run_id, folder)
    make_ready(stack)
    return stack


def launch(engine: Engine, lab: Lab, name: str, run_id: str, folder: Path) -> Stack:
    """Start the containers of the lab's stack on a free subnet; none of them need be ready.

    The compose files that were run stay in `folder`. Raises CannotRun.
    """
    plan = lab.services
    if engine.kernel is not None:
        in_vm_mark(name).touch(mode=0o600)
    labels = {STACK_LABEL: name, LAB_LABEL: lab.id, RUN_LABEL: run_id}
    with engine.errors():
        taken = subnet.of_networks(engine.client.networks.list()) + subnet.host_routes()
    for candidate in subnet.free(taken):
        files = []
        for i, document in enumerate(plan.documents(name, lab.daemons, str(candidate), labels)):
            file = folder / ("compose.yaml" if i == 0 else "overlay.yaml")
            file.write_text(yaml.safe_dump(document, sort_keys=False))
            files.append(file)
        try:
            compose.up(name, files, engine.env)
        except compose.PoolOverlap:
            continue  # another stack took it between our look and Docker's
        return Stack(engine, name)
    raise CannotRun(f"No free /24 is left in {subnet.POOL}.", "faultlab sweep")


def make_ready(stack: Stack) -> None:
    """Give the machines what makes them machines, and wait for the daemons. Raises CannotRun."""
    with meanwhile(partial(_make_machines, stack.engine, stack)):
        stack.wait_ready()


def _make_machines(engine: Engine, stack: Stack) -> None:
    machines = [m for m in stack.values() if not joins(m)]
    pids = [str(m.container.attrs["State"]["Pid"]) for m in machines]
    if "0" in pids:
        pids = [str(m.state["Pid"]) for m in machines]
    script = _MAKE_MACHINE.format(pids=" ".join(pids))
    if engine.kernel is not None:  # where we may, without a helper: it takes seconds without KVM
        engine.kernel.must(f"set -e\n{script}")
        return
    engine.helper(
        images.tag("machine"),
        script,
        stack.name,
        pid_mode="host",
        cap_add=["SYS_ADMIN", "SYS_PTRACE", "NET_ADMIN"],
        security_opt=["apparmor=unconfined"],
    )


def joins(machine: Machine) -> str:
    """The id of the container whose namespaces a daemon has joined; empty for a machine."""
    return joined(machine.container)


def joined(container: Any) -> str:
    """Return the id of the container whose namespaces this one has joined; else nothing."""
    kind, _, where = str(container.attrs["HostConfig"]["NetworkMode"]).partition(":")
    return where if kind == "container" else ""


def in_vm_mark(name: str) -> Path:
    """Return the file that says that this user has started this stack in the VM."""
    return lock.folder() / f"{name}.in-vm"
