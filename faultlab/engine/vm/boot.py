"""Boot: start the lab VM, reset it to its boot state, or remove it."""

import os
import platform
import time
from dataclasses import dataclass

from faultlab.core import lock, paths
from faultlab.core.command import stream
from faultlab.core.errors import CannotRun
from faultlab.core.terminal import Terminal
from faultlab.engine.contract import Say
from faultlab.engine.docker.local import LocalEngine
from faultlab.engine.vm import libvirt
from faultlab.engine.vm.ssh import BOOT_SECONDS, Connection, ssh_command
from faultlab.lab import images

_BOOT = "boot"  # the name of the snapshot
_BOX_ID = "/etc/faultlab-box"  # a file in the VM: the digest of the sources of its box
_BOOTS = 3  # until its clock is right
_CLOCK_SECONDS = 30.0  # for which its clock is compared with ours, at most
_WIDTH = 0.1  # of the range that its rate is in; it gets narrower with time
_OFF = 0.05  # what Linux has measured wrongly is off by a tenth at least


@dataclass(frozen=True)
class Removed:
    """The state of the VM, in libvirt's words."""

    state: str


@dataclass(frozen=True)
class Vm(Removed):
    """The state of the VM, and its address if it runs."""

    address: str


def up(term: Terminal) -> Vm:
    """Start the VM, and print its address."""
    bring_up(term)
    return Vm(libvirt.state(), libvirt.address())


def bring_up(term: Terminal) -> None:
    """Set up libvirt, build the box and boot the VM; each step only if needed.

    Raises CannotRun.
    """
    if platform.machine() != "x86_64":
        raise CannotRun(
            f"The lab VM can be built on x86-64 only, and this is {platform.machine()}.",
            "make list",
        )
    local = LocalEngine()
    with lock.hold("vm", "vm up", wait=True):
        with term.step("libvirt", "checking what is missing") as step:
            stream([str(paths.root() / "setup/libvirt.sh")], step.note)
            step.done("ready")
        with term.step("images", "checking what must be built") as step:
            local.images.ensure(step.note)
            step.done("ready")
        with term.step("box", "checking if it is up to date") as step:
            tags = " ".join(images.tag(name) for name in images.names() if name != images.BASE)
            build = [str(paths.images() / "vm/build.sh"), "--images", tags, str(paths.vm())]
            stream(build, step.note)
            step.done("ready")
        with term.step("vm", "checking if it runs") as step:
            _boot(step.note)
            step.done(f"up at {libvirt.address()}")


def _boot(note: Say) -> None:
    """Boot the VM with the current box, and take the snapshot for a reset."""
    libvirt.refuse_what_is_not_ours()
    if libvirt.state() != "absent" and not _current(note):
        note("removing the old VM, which was made from another box")
        _destroy(note)
    if libvirt.state() != "running":
        _start(note)
    _keep_boot_state(note)
    libvirt.forget_old_boxes(note)


def _current(note: Say) -> bool:
    """Return whether the VM was made from the current box. Boots it if it is off."""
    if libvirt.state() != "running":
        try:
            _start(note)
        except CannotRun:
            return False  # its disk is broken, for example because qemu was killed
    kernel = Connection(BOOT_SECONDS).kernel
    wanted = (paths.vm() / "digest").read_text().strip()
    return kernel.run(f"cat {_BOX_ID}").out.strip() == wanted


def _start(note: Say) -> None:
    """Boot the VM, again if its kernel has measured its processor's frequency wrongly.

    Linux measures it once, for some milliseconds. Without KVM, on a busy machine, it found 208 MHz
    of 2596, and all clocks and timers in the VM were 12 times too fast. Raises CannotRun.
    """
    how, why = libvirt.acceleration()
    for _ in range(_BOOTS):
        note(f"booting it with {how}: {why}")
        libvirt.vagrant("up", note=note, env={"FAULTLAB_VM_ACCEL": how})
        note("waiting for Docker in it")
        slowest, fastest = _clock_rate(Connection(BOOT_SECONDS))
        if slowest < 1 + _OFF and fastest > 1 - _OFF:
            return
        note(f"its clock runs at {slowest:.1f} times the speed of ours: switching it off")
        libvirt.virsh("destroy", libvirt.name())  # its disk stays
    raise CannotRun(
        f"The clock of the lab VM is wrong after each of {_BOOTS} boots. Is this machine busy?",
        "make vm",
    )


def _clock_rate(connection: Connection) -> tuple[float, float]:
    """Return the seconds that pass in the VM in one second here: at least, and at most."""
    with connection.kernel.uptime() as uptime:
        uptime()  # the first reading also starts the session
        asked, began, answered = time.monotonic(), uptime(), time.monotonic()
        connection.docker()
        while True:
            time.sleep(0.5)
            asked_again, now, answered_again = time.monotonic(), uptime(), time.monotonic()
            longest = answered_again - asked
            slowest, fastest = (now - began) / longest, (now - began) / (asked_again - answered)
            if fastest - slowest < _WIDTH * slowest or longest > _CLOCK_SECONDS:
                return slowest, fastest


def _destroy(note: Say) -> None:
    libvirt.virsh("destroy", libvirt.name())
    libvirt.virsh("snapshot-delete", libvirt.name(), _BOOT)
    try:
        libvirt.vagrant("destroy", "--force", note=note)
    except CannotRun as problem:  # Vagrant does not know it: its folder no longer exists
        code, text = libvirt.virsh(
            "undefine", libvirt.name(), "--snapshots-metadata", "--remove-all-storage"
        )
        if code != 0:
            raise CannotRun(
                f"The lab VM could not be removed: {text}", "virsh list --all"
            ) from problem


def _keep_boot_state(note: Say) -> None:
    """Take the snapshot for a reset, while nothing of ours is in the VM."""
    if (
        libvirt.virsh("snapshot-info", libvirt.name(), _BOOT)[0] == 0
        or Connection().docker().containers()
    ):
        return
    note("keeping its boot state")
    code, text = libvirt.virsh("snapshot-create-as", libvirt.name(), _BOOT, timeout=120)
    if code != 0:
        raise CannotRun(f"The boot state of the lab VM could not be kept: {text}", "make vm-down")


def reset(term: Terminal) -> Vm:
    """Reset disk, memory and kernel to the boot state. Raises CannotRun."""
    with lock.hold("vm", "vm reset"), term.step("vm", "going back to its boot state") as step:
        libvirt.refuse_what_is_not_ours()
        if libvirt.state() == "absent":
            raise CannotRun("There is no lab VM.", "make vm")
        try:
            _revert(step.note)
        except CannotRun as problem:
            step.note(f"making a new one: {problem.message}")
            _destroy(step.note)
            _boot(step.note)
        step.done(f"as it was after boot, at {libvirt.address()}")
    return Vm(libvirt.state(), libvirt.address())


def _revert(note: Say) -> None:
    code, text = libvirt.virsh("snapshot-revert", libvirt.name(), _BOOT, "--running", timeout=45)
    if code != 0:
        raise CannotRun(text)
    note("waiting until it responds")
    kernel = Connection(BOOT_SECONDS).kernel
    kernel.must(f"date -s @{time.time():.0f}")  # the reset also set its clock back


def down(term: Terminal) -> Removed:
    """Remove the VM, but keep its box."""
    with lock.hold("vm", "vm down"), term.step("vm", "removing it") as step:
        libvirt.require_reachable()
        libvirt.refuse_what_is_not_ours()
        was = libvirt.state()
        if was != "absent":
            _destroy(step.note)
        step.done("removed" if was != "absent" else "there was none")
    return Removed(libvirt.state())


def ssh(_term: Terminal) -> None:
    """Replace this process by a shell in the VM."""
    if libvirt.state() != "running":
        raise libvirt.silent()
    command = ssh_command()
    os.execvp(command[0], command)


def status(term: Terminal) -> Vm:
    """Print the state of the VM as libvirt reports it."""
    found, other = libvirt.state(), libvirt.elsewhere()
    where = libvirt.address() if found == "running" else ""
    of = f", and belongs to {other}" if found != "absent" and other else ""
    term.say(f"The lab VM is {found}{' at ' + where if where else ''}{of}.")
    return Vm(found, where)
