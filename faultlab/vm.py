"""VM: the disposable lab VM, and the Docker Engine and the kernel inside it.

Vagrant and libvirt own it; its state is always asked from libvirt, so that what a user does with
`vagrant` by hand is noticed. Docker's socket comes through one ssh connection, which dies with us.
"""

from __future__ import annotations

import atexit
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from faultlab.build import ensure_images
from faultlab.core import lock, paths
from faultlab.core.command import DIE_WITH_US, run, stream
from faultlab.core.errors import CannotRun
from faultlab.core.terminal import Terminal
from faultlab.engine import Done, Engine, Shell
from faultlab.lab import images

State = Literal["absent", "off", "paused", "running"]
Say = Callable[[str], None]

_LIBVIRT = "qemu:///system"
BOOT_SECONDS = 60  # a VM that is just booting may refuse connections for so long
_BOOT = "boot"  # the name of the snapshot
_POOL = "default"
_BOX_VOLUME = "faultlab_vagrant_box_image_"  # what vagrant-libvirt calls a box's copy in the pool
# A socket's path has at most 107 bytes (unix(7)): its folder's, this, and what ssh adds to a name.
_LONGEST = 107 - len("/vm-12345678/ssh.1234567890123456")
_BOX_ID = "/etc/faultlab-box"  # in the VM: the digest of what it was built from


def name() -> str:
    """The VM's name in Vagrant and libvirt."""
    return os.environ.get("FAULTLAB_VM_NAME", "faultlab")


def _folder() -> Path:
    """What `images/vm/build.sh` makes: disk, kernel, box, ssh key."""
    return paths.root() / ".vm"


def _virsh(*words: str, timeout: float = 30) -> tuple[int, str]:
    done = run(["virsh", "--connect", _LIBVIRT, *words], timeout=timeout)
    return done.returncode, (done.stdout + done.stderr).strip()


def state() -> State:
    """What libvirt says of the VM now; without libvirt there is none."""
    if not _folder().is_dir() or shutil.which("virsh") is None:
        return "absent"
    code, text = _virsh("domstate", name())
    if code != 0:
        return "absent"
    return "running" if text == "running" else "paused" if text == "paused" else "off"


def _refuse_what_is_not_ours() -> None:
    """Raises CannotRun when the VM of our name was made from another folder that is still there."""
    _, text = _virsh("desc", name())
    made_from = Path(text.removeprefix("Source: ")).parent
    if state() != "absent" and made_from != paths.root() and (made_from / "Vagrantfile").is_file():
        raise CannotRun(
            f"The VM {name()} belongs to {made_from}.", f"{made_from}/.venv/bin/faultlab vm down"
        )


def address() -> str:
    """The VM's IPv4 address. Raises CannotRun when libvirt knows none."""
    _, text = _virsh("domifaddr", name(), "--source", "lease")
    for word in text.split():
        if "/" in word and word[0].isdigit():
            return word.split("/")[0]
    raise CannotRun("The lab VM has no address.", "faultlab vm reset")


def ssh_command() -> list[str]:
    """ssh to the VM; its host key is made anew with every box, so none is remembered."""
    options = ("StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR")
    timeouts = ("ConnectTimeout=20", "ServerAliveInterval=10", "ServerAliveCountMax=3")
    flags = [word for option in (*options, *timeouts) for word in ("-o", option)]
    return ["ssh", "-i", str(_folder() / "ssh_key"), *flags, f"vagrant@{address()}"]


def _silent() -> CannotRun:
    """Why nobody answers: what libvirt says of the VM, and what helps."""
    found = state()
    if found != "running":
        return CannotRun(f"The lab VM is {found}.", "make vm")
    return CannotRun("The lab VM does not answer.", "faultlab vm reset")


class VmKernel(Shell):
    """A root shell in the VM, outside of any container: `at = "kernel"`."""

    name = "kernel"

    def __init__(self, control: Path) -> None:
        self._control = control

    def run(self, command: str, timeout: float = 30) -> Done:
        """Run a shell command as root in the VM."""
        inner = f"sudo timeout -k 1 {timeout:g} sh -c {shlex.quote(command)}"
        started = time.monotonic()
        # Through the connection that stands, never over a new one to some other "vm".
        ssh = ["ssh", "-S", str(self._control), "-o", "ProxyCommand=false", "vm"]
        done = run([*ssh, inner], timeout=timeout + 60)
        seconds = time.monotonic() - started
        if done.returncode == 255:
            raise _silent()
        if done.returncode == 124:
            raise CannotRun(
                f"In the lab VM this did not end within {timeout:g} s: {command}",
                "faultlab vm reset",
            )
        return Done(command, done.returncode, done.stdout, done.stderr, seconds)


class VmEngine(Engine):
    """The Docker Engine inside the VM, through an ssh connection that ends with us.

    `patience`: seconds in which a VM that is just coming up may still refuse the connection.
    """

    name = "vm"
    kernel: Shell

    def __init__(self, patience: float = 0) -> None:
        where = Path(tempfile.mkdtemp(prefix="vm-", dir=_sockets()))
        atexit.register(shutil.rmtree, where, ignore_errors=True)
        control, socket = where / "ssh", where / "docker.sock"
        command = ssh_command()
        options = ["-M", "-S", str(control), "-N", "-L", f"{socket}:/var/run/docker.sock"]
        began = time.monotonic()
        while not _stands([*DIE_WITH_US, command[0], *options, *command[1:]], control, socket):
            if time.monotonic() > began + patience:
                raise _silent()
            time.sleep(0.5)
        self.kernel = VmKernel(control)
        self.guest = name()
        super().__init__(f"unix://{socket}")

    def unreachable(self, error: BaseException) -> CannotRun:
        """A VM that hangs, died or lost its network gives no verdict, but a command to type."""
        return _silent()


def _stands(command: list[str], control: Path, socket: Path) -> bool:
    """Open the ssh connection; it stays open until we end."""
    quiet = subprocess.DEVNULL
    ssh = subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet)
    atexit.register(ssh.terminate)
    deadline = time.monotonic() + BOOT_SECONDS
    while not (socket.exists() and control.exists()):
        if ssh.poll() is not None:
            return False
        if time.monotonic() > deadline:
            ssh.terminate()
            return False
        time.sleep(0.05)
    return True


def _short(folder: Path) -> Path:
    """Return the folder, or one of its name in /tmp where a socket's path would be too long."""
    return folder if len(os.fsencode(folder)) <= _LONGEST else Path("/tmp", folder.name)


def _sockets() -> Path:
    """The folder for the sockets; what killed commands have left there goes first."""
    folder = _short(lock.folder())
    folder.mkdir(mode=0o700, exist_ok=True)
    young = time.time() - 5 * BOOT_SECONDS
    for old in folder.glob("vm-*"):
        if old.stat().st_mtime > young:
            continue
        probe = ["ssh", "-S", str(old / "ssh"), "-O", "check", "vm"]
        if run(probe, timeout=10).returncode != 0:
            shutil.rmtree(old, ignore_errors=True)
    return folder


def connect(patience: float = 0) -> VmEngine:
    """The engine in the running VM. Raises CannotRun when it is not running or does not answer."""
    if state() != "running":
        raise _silent()
    return VmEngine(patience)


def if_running(patience: float = 0) -> VmEngine | None:
    """The engine in the VM; None when it does not run. Raises CannotRun when it does not answer."""
    return VmEngine(patience) if state() == "running" else None


def up(term: Terminal) -> None:
    """Bring the VM up, and say where."""
    bring_up(term)
    term.json({"state": state(), "address": address()})


def bring_up(term: Terminal) -> None:
    """Set up libvirt, build the box, boot the VM; each only where it is missing."""
    local = Engine()
    with lock.hold("vm", "vm up", wait=True):
        with term.step("libvirt", "looking for what is missing") as step:
            stream([str(paths.root() / "setup/libvirt.sh")], step.note)
            step.done("ready")
        with term.step("images", "looking for what has to be built") as step:
            ensure_images(local, step.note)
            step.done("ready")
        with term.step("box", "looking whether it is up to date") as step:
            tags = " ".join(images.tag(name) for name in images.names() if name != images.BASE)
            build = [str(paths.images() / "vm/build.sh"), "--images", tags, str(_folder())]
            stream(build, step.note)
            step.done("ready")
        with term.step("vm", "looking whether it runs") as step:
            _boot(step.note)
            step.done(f"up at {address()}")


def _boot(note: Say) -> None:
    """Have the VM run with the current box, and its boot state kept for reset."""
    _refuse_what_is_not_ours()
    if state() != "absent" and not _current(note):
        note("removing the old one: it was made from another box")
        _destroy(note)
    if state() != "running":
        _start(note)
    _keep_boot_state(note)
    _forget_old_boxes(note)


def _current(note: Say) -> bool:
    """Was the VM made from the box that is here now? Boots it if it is off."""
    if state() != "running":
        try:
            _start(note)
        except CannotRun:
            return False  # its disk is broken: qemu was killed, say
    kernel = connect(BOOT_SECONDS).kernel
    return kernel.run(f"cat {_BOX_ID}").out.strip() == (_folder() / "digest").read_text().strip()


def _start(note: Say) -> None:
    how, why = acceleration()
    note(f"booting it with {how}: {why}")
    _vagrant("up", note=note, env={"FAULTLAB_VM_ACCEL": how})
    note("waiting for Docker in it")
    connect(BOOT_SECONDS).info()


def _destroy(note: Say) -> None:
    _virsh("destroy", name())
    _virsh("snapshot-delete", name(), _BOOT)
    try:
        _vagrant("destroy", "--force", note=note)
    except CannotRun as problem:  # made from a folder that is gone: Vagrant does not know it
        code, text = _virsh("undefine", name(), "--snapshots-metadata", "--remove-all-storage")
        if code != 0:
            raise CannotRun(
                f"The lab VM could not be removed: {text}", "virsh list --all"
            ) from problem


def _keep_boot_state(note: Say) -> None:
    """Take the snapshot that reset goes back to, while nothing of ours is in the VM."""
    if _virsh("snapshot-info", name(), _BOOT)[0] == 0 or connect().containers():
        return
    note("keeping its boot state")
    code, text = _virsh("snapshot-create-as", name(), _BOOT, timeout=120)
    if code != 0:
        raise CannotRun(f"The boot state of the lab VM could not be kept: {text}", "make vm-down")


def _forget_old_boxes(note: Say) -> None:
    """Remove the copies that Vagrant and libvirt keep of boxes that were replaced, 0.6 GB each."""
    volumes = [line.split()[0] for line in _virsh("vol-list", _POOL)[1].splitlines()[2:] if line]
    used = {base for volume in volumes for base in _based_on(volume)}
    for volume in volumes:
        if volume.startswith(_BOX_VOLUME) and volume not in used:
            note(f"removing the old box {volume}")
            _virsh("vol-delete", "--pool", _POOL, volume)
    for version in _old_versions():
        box = ["faultlab", "--provider", "libvirt", "--box-version", version]
        _vagrant("box", "remove", *box, "--force", note=note)


def _old_versions() -> list[str]:
    """Vagrant's copies of boxes that are not this folder's; each folder still has its own in .vm.

    Not left to `vagrant box prune`: it counts the newest as the current one, and fails in the
    plugin when the VM was made from another, as it is where two folders have built a box.
    """
    done = run(["vagrant", "box", "list", "--machine-readable"], timeout=60, env=_cwd())
    listed = re.findall(r",box-name,faultlab\n.*\n.*,box-version,(\S+)", done.stdout)
    return [version for version in listed if version != (_folder() / "version").read_text().strip()]


def _based_on(volume: str) -> list[str]:
    """The volume that this one is a layer upon, if any."""
    _, text = _virsh("vol-dumpxml", "--pool", _POOL, volume)
    return re.findall(r"<backingStore>\s*<path>[^<]*/([^/<]+)</path>", text)


def reset(term: Terminal) -> None:
    """Back to the boot state of disk, memory and kernel. Raises CannotRun."""
    with lock.hold("vm", "vm reset"), term.step("vm", "going back to its boot state") as step:
        _refuse_what_is_not_ours()
        if state() == "absent":
            raise CannotRun("There is no lab VM.", "make vm")
        try:
            _revert(step.note)
        except CannotRun as problem:
            step.note(f"making it anew: {problem.message}")
            _destroy(step.note)
            _boot(step.note)
        step.done(f"as it was after boot, at {address()}")
    term.json({"state": state(), "address": address()})


def _revert(note: Say) -> None:
    code, text = _virsh("snapshot-revert", name(), _BOOT, "--running", timeout=45)
    if code != 0:
        raise CannotRun(text)
    note("waiting for it")
    kernel = connect(BOOT_SECONDS).kernel
    kernel.must(f"date -s @{time.time():.0f}")  # its clock went back as well


def down(term: Terminal) -> None:
    """Remove the VM; its box stays."""
    with lock.hold("vm", "vm down"), term.step("vm", "removing it") as step:
        _refuse_what_is_not_ours()
        was = state()
        if was != "absent":
            _destroy(step.note)
        step.done("removed" if was != "absent" else "there was none")
    term.json({"state": state()})


def ssh(_term: Terminal) -> None:
    """Become a shell in the VM."""
    if state() != "running":
        raise _silent()
    command = ssh_command()
    os.execvp(command[0], command)


def acceleration() -> tuple[str, str]:
    """`kvm` or `tcg`, found by booting a guest, and the reason. Raises CannotRun."""
    done = run([str(paths.root() / "setup/accel.sh"), str(_folder() / "vmlinuz")], timeout=60)
    if done.returncode != 0:
        raise CannotRun(f"No acceleration found out: {done.stderr.strip()}", "make vm")
    return done.stdout.strip(), done.stderr.strip().split(": ", 2)[-1]


def status(term: Terminal) -> None:
    """Say what libvirt says of the VM."""
    found = state()
    where = address() if found == "running" else ""
    term.say(f"The lab VM is {found}{' at ' + where if where else ''}.")
    term.json({"state": found, "address": where})


def _vagrant(*words: str, note: Say, env: Mapping[str, str] | None = None) -> None:
    stream(["vagrant", *words, "--no-color"], note, {**_cwd(), **(env or {})})


def _cwd() -> dict[str, str]:
    return {"VAGRANT_CWD": str(paths.root())}
