"""Local: the engine that this user's `docker` command uses."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

from faultlab.core import cpus, lock, naming
from faultlab.core.command import uninterrupted
from faultlab.core.errors import CannotRun
from faultlab.core.naming import LAB_LABEL, OWNER_LABEL, SLOT_LABEL, STACK_LABEL
from faultlab.core.terminal import Terminal
from faultlab.engine import cpu_slots
from faultlab.engine.contract import Machine, Process, Program
from faultlab.engine.docker import compose, launch, removal, untracked
from faultlab.engine.docker.bounds import StackBounds
from faultlab.engine.docker.build import DockerImages
from faultlab.engine.docker.connection import DockerEngine, docker_url, here
from faultlab.engine.docker.container import ROLE, DockerMachine
from faultlab.engine.docker.helper import Helpers
from faultlab.engine.docker.removal import joined_id
from faultlab.engine.fact import Fact, Facts
from faultlab.engine.measure.cpu_interference import Observer
from faultlab.engine.own_pod import in_a_pod
from faultlab.engine.shell import Shell
from faultlab.lab.model import Lab

_TCP_MEM = Path("/proc/sys/net/ipv4/tcp_mem")


class LocalEngine(DockerEngine):
    """Docker on this machine, whose kernel we must not change."""

    name = "local"
    owns_kernel = False
    walk_seconds = 2700  # walks side by side wait for each other

    def __init__(self, url: str | None = None) -> None:
        with self.errors():
            url = url or here(docker_url())
        super().__init__(url)
        self.images = DockerImages(self)
        self.helpers = Helpers(self)
        self.bounds = StackBounds(self)

    @classmethod
    def absent(cls) -> str:
        """Return that a pod has no Docker; elsewhere only `reach` finds out if it responds."""
        return "a pod has no Docker" if in_a_pod() else ""

    @classmethod
    def might_host(cls, stack: str) -> bool:
        """Return True, because asking Docker on this machine costs little."""
        return True

    @classmethod
    def reach(cls, patient: bool = False) -> LocalEngine:
        """Return Docker on this machine. Raises CannotRun if it does not respond."""
        return cls()

    @classmethod
    def bring_up(cls, term: Terminal, images: Collection[str] | None = None) -> LocalEngine:
        """Build the missing images. Raises CannotRun."""
        engine = cls()
        engine.slots()  # a wrong size is named before anything starts
        with term.step("images", "checking what must be built") as step:
            engine.images.ensure(step.note, images)
            step.done("ready")
        return engine

    def kernel(self, stack: str) -> Shell:
        """Refuse a root shell on the kernel below. Raises CannotRun."""
        raise CannotRun("This engine's kernel must not be changed.", "add --engine vm")

    def facts(self) -> Facts:
        """Return what `docker info` reports."""
        info = self.info()
        return Facts(
            version=info.get("ServerVersion", ""),
            kernel=info.get("KernelVersion", ""),
            system=info.get("OperatingSystem", ""),
            cgroup=info.get("CgroupVersion", ""),
            cpus=info.get("NCPU", 0),
            memory=info.get("MemTotal", 0),
            tcp_mem="" if self.owns_kernel else _tcp_mem(),
        )

    def unfit(self) -> str:
        """Return why labs cannot run on an engine that only imitates Docker; empty if they can."""
        info = self.info()
        with self.errors():
            parts = self.client.version().get("Components") or []
        return _unfit(info, [str(part.get("Name")) for part in parts])

    def trials(self) -> list[Fact]:
        """Return the Compose that is installed. Raises CannotRun if none is."""
        return [Fact("compose", True, " ".join(compose.program()))]

    def stacks(self) -> list[str]:
        """Return our stacks of which anything is left; in a namespace, only its own."""
        labels = [
            *(container.labels for container in self.containers()),
            *((thing.attrs.get("Labels") or {}) for thing in (*self.networks(), *self.volumes())),
        ]
        names = {label[STACK_LABEL] for label in labels}
        return sorted(name for name in names if name.startswith(naming.prefix_of_all()))

    def all_stacks(self) -> Mapping[str, str]:
        """Return every stack of every namespace, with the id of its lab."""
        labels = [container.labels for container in self.containers()]
        return {its[STACK_LABEL]: its.get(LAB_LABEL, "") for its in labels}

    def machines(self, stack: str) -> list[Machine]:
        """Return the machines of a stack and then its daemons, running or not."""
        found = [
            DockerMachine(role, container, self)
            for container in self.containers(stack=stack)
            if (role := container.labels.get(ROLE))
        ]
        names = {machine.mark: machine.name for machine in found}
        for machine in found:
            home = joined_id(machine.container)
            machine.joins = names.get(home, home)
        return sorted(found, key=lambda machine: (bool(machine.joins), machine.name))

    def slots(self) -> list[str]:
        """Return the slots of this machine; empty if there is one, of all that Docker has.

        A Docker with fewer CPUs than this command has others, and we cannot know which. Raises
        BadInput for a size that no slot can have.
        """
        found, ours = cpu_slots.of_machine(), len(cpu_slots.usable())
        whole = len(cpus.parse(found[0])) == ours
        if whole and ours == os.cpu_count():
            return []  # without asking Docker, which can have no more
        docker = self.bounds.cpus
        return [] if docker < ours or (whole and docker == ours) else found

    @contextmanager
    def slot(self, stack: str) -> Iterator[str]:
        """Choose the slot that the fewest stacks have; where `cpus` are chosen, what is a slot."""
        slots = self.slots()
        if self.cpus or not slots:
            yield self.cpus if self.cpus in slots else ""
            return
        with cpu_slots.claim(stack, slots, self.slots_up) as chosen:
            yield chosen

    def launch(self, lab: Lab, stack: str, run_id: str, folder: Path, slot: str = "") -> None:
        """Start the containers with Compose; the compose files are stored in `folder`.

        They are in the cgroup that `isolate_network` limits.
        """
        parent = self.bounds.parent(stack) if self.most() else ""
        launch.launch(self, lab, stack, run_id, folder, parent=parent, cpus=self.cpus, slot=slot)

    def most(self) -> Mapping[str, Any]:
        """Return the limits of a stack as a whole: those that are chosen, else a share."""
        return self.bounds.most()

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
        was_up = bool(self.networks(stack))
        removal.remove(self, stack, self.interfaces)
        if script := self.bounds.unbinding(stack) + (self._restoring() if was_up else ""):
            self._on_host(stack, script)

    def interfaces(self) -> list[str]:
        """Return the network interfaces of the machine that Docker runs on."""
        return [path.name for path in Path("/sys/class/net").iterdir()]

    def _restoring(self) -> str:
        """Return the script that removes what the host had for stacks, if the last one is gone."""
        if self.owns_kernel or self.networks():
            return ""
        return self.bounds.unbinding_all(self.all_stacks()) + untracked.REMOVE

    def _on_host(self, stack: str, script: str) -> str:
        return self.helpers.on_host(script, stack, ("NET_ADMIN",), whole=True)

    def tidy(self) -> list[str]:
        """Remove what a `down` that was killed left on the host, and return it."""
        if self.owns_kernel or self.images.missing(["machine"]):
            return []
        script = self._restoring() or self.bounds.unbinding_all(self.all_stacks())
        return self._on_host(f"{naming.prefix()}sweep", script).splitlines() if script else []

    def isolate_network(self, machines: Sequence[Machine]) -> None:
        """Open /proc/sys/net of the machines, close the ways out and to the host, and limit them.

        The host must not pay for the packets, the addresses and the processes of a stack.
        """
        if not machines:
            return
        rights, stack = ("SYS_ADMIN", "SYS_PTRACE", "NET_ADMIN"), machines[0].stack
        bridges, most = self.bridges(stack), self.most()
        script = self.bounds.binding(self.bounds.parent(stack), most) if most else ""
        script += launch.isolating(machines, bridges) + untracked.beginning(bridges)
        self.helpers.on_host(script, stack, rights, whole=True)

    def sidecar(
        self, stack: str, seconds: int, *, whole: bool = False, rights: Sequence[str] = ()
    ) -> AbstractContextManager[Machine]:
        """Keep a helper container while the body runs commands in it, on the CPUs of the stack."""
        its = self.slots_up().get(stack, "") if self.slots() else ""
        return self.helpers.sidecar(stack, seconds, whole=whole, rights=rights, cpus=its)

    def process(self, program: Program) -> AbstractContextManager[Process]:
        """Run a program in a container of its own while the body runs."""
        return self.helpers.process(program)

    def on_disk(self) -> Mapping[str, int]:
        """Return the disk usage of each stack's containers and volumes in bytes."""
        with self.errors():
            found = self.client.df()
        sizes: dict[str, int] = {}
        parts = [(its, its.get("SizeRw")) for its in found.get("Containers") or []]
        parts += [(its, its["UsageData"]["Size"]) for its in found.get("Volumes") or []]
        for its, size in parts:
            if stack := (its.get("Labels") or {}).get(STACK_LABEL):
                sizes[stack] = sizes.get(stack, 0) + (size or 0)
        return sizes

    def note_kernel(self, stack: str) -> None:
        """Note nothing, because no lab changes this kernel."""

    def observer(self, stack: str) -> Observer:
        """Return an observer that does not count the stack's containers as others."""
        its = self.containers(stack=stack)
        slot = next((s for each in its if (s := each.labels.get(SLOT_LABEL))), "")
        return Observer([str(each.id) for each in its], cpus=cpus.parse(slot))


def _tcp_mem() -> str:
    with suppress(OSError):  # we are in a container, too
        return " ".join(_TCP_MEM.read_text().split())
    return ""


def _unfit(info: Mapping[str, Any], parts: Sequence[str]) -> str:
    """Return why labs cannot run on an engine that imitates Docker; empty if they can."""
    if any("Podman" in part for part in parts):
        return "this is Podman, which handles volumes and names differently"
    if any("rootless" in option for option in info.get("SecurityOptions") or []):
        return "this is rootless Docker, which cannot open a container's /proc/sys/net"
    return ""
