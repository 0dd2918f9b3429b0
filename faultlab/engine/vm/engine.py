"""VM: the engine in the lab VM: its Docker, and the kernel below that."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from faultlab.core import lock, paths
from faultlab.core.errors import CannotRun
from faultlab.core.terminal import Terminal
from faultlab.engine import kernel
from faultlab.engine.contract import Machine, Say
from faultlab.engine.docker import launch
from faultlab.engine.docker.build import DockerImages
from faultlab.engine.docker.local import LocalEngine
from faultlab.engine.measure.cpu_interference import Observer
from faultlab.engine.shell import Shell
from faultlab.engine.vm import boot, libvirt, ssh
from faultlab.lab import images
from faultlab.lab.model import Lab


def in_vm_mark(stack: str) -> Path:
    """Return the file that records that this user has started this stack in the VM."""
    return lock.folder() / f"{stack}.in-vm"


class _VmImages(DockerImages):
    """The images in the VM, which come with its box."""

    def ensure(
        self, say: Say, wanted: Collection[str] | None = None, *, network: bool = False
    ) -> None:
        """Build nothing. Raises CannotRun if an image is missing."""
        if lacking := self.missing(wanted):
            raise CannotRun(f"The lab VM has no current image of {', '.join(lacking)}.", "make vm")


class VmEngine(ssh.VmDocker, LocalEngine):
    """The Docker Engine in the VM, over an ssh connection that ends when we end.

    `patience`: seconds in which a VM that is just booting can still refuse the connection.
    """

    name = "vm"
    owns_kernel = True
    prompt = "vm$"
    stays = "The lab VM stays up for the next lab. To remove it: make vm-down"
    walk_seconds = 5400  # without KVM everything takes many times as long
    patience = 2.0  # without KVM, opening and closing 200 connections takes 20 s

    def __init__(self, patience: float = 0) -> None:
        connection = ssh.Connection(patience)
        self._kernel = connection.kernel
        super().__init__(connection.url)
        self.images = _VmImages(self)

    @classmethod
    def absent(cls) -> str:
        """Return that the VM does not run, or that it belongs to another folder, if so."""
        now = libvirt.state() if paths.vm().is_dir() else "absent"
        if now == "running" and (other := libvirt.elsewhere()):
            return f"the lab VM belongs to {other}"
        return "" if now == "running" else f"the lab VM is {now}"

    @classmethod
    def might_host(cls, stack: str) -> bool:
        """Return whether this user has started this stack in the VM and not removed it.

        Asking the VM itself takes more than a second of two CPUs without KVM.
        """
        return in_vm_mark(stack).exists()

    @classmethod
    def require_reachable(cls) -> None:
        """Raise CannotRun if this user has stacks in a VM of which libvirt says nothing."""
        if any(lock.folder().glob(in_vm_mark("*").name)):
            libvirt.require_reachable()

    @classmethod
    def reach(cls, patient: bool = False) -> VmEngine:
        """Return the engine in the running VM. Raises CannotRun if it does not respond."""
        return cls(ssh.BOOT_SECONDS if patient else 0)

    @classmethod
    def bring_up(cls, term: Terminal, images: Collection[str] | None = None) -> VmEngine:
        """Boot the VM, with all images in its box. Raises CannotRun."""
        boot.bring_up(term)
        return cls.reach()

    def cannot(self, lab: Lab) -> str:
        """Return that the images of a lab are not in the box, if so."""
        own = images.of_others(lab.services.images(lab.daemons))
        return f"the box of the lab VM has no image {own[0]}" if own else ""

    def kernel(self, stack: str) -> Shell:
        """Return a root shell in the VM."""
        return self._kernel

    def slots(self) -> list[str]:
        """Return none: the VM is measured from outside, where its CPUs are threads of QEMU."""
        return []

    def launch(self, lab: Lab, stack: str, run_id: str, folder: Path, slot: str = "") -> None:
        """Start the containers, and record that this stack is in the VM."""
        in_vm_mark(stack).touch(mode=0o600)
        super().launch(lab, stack, run_id, folder, slot)
        if most := self.most():
            bounds = self.bounds
            self.helpers.on_host(bounds.binding(bounds.parent(stack), most), stack)

    def isolate_network(self, machines: Sequence[Machine]) -> None:
        """Open /proc/sys/net of the machines without a helper, which takes seconds without KVM."""
        bridges = self.bridges(machines[0].stack) if machines else []
        self._kernel.must(f"set -e\n{launch.isolating(machines, bridges)}")

    def _down(self, stack: str) -> None:
        super()._down(stack)
        kernel.put_back(self._kernel, stack)
        in_vm_mark(stack).unlink(missing_ok=True)

    def interfaces(self) -> list[str]:
        """Return the network interfaces of the VM."""
        return self._kernel.must("ls /sys/class/net").split()

    def note_kernel(self, stack: str) -> None:
        """Note the settings of the kernel before this stack changes them.

        What a stack has changed that is gone, because its `down` was killed, is restored first.
        """
        for other in kernel.noted(self._kernel):
            if other != stack and not self.containers(stack=other):
                kernel.put_back(self._kernel, other)
        kernel.note(self._kernel, stack)

    def observer(self, stack: str) -> Observer:
        """Return an observer that does not count the VM as another program."""
        return Observer(guest=libvirt.name())
