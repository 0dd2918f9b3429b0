"""Libvirt: the state, the address and the boxes of the VM, as libvirt and Vagrant report them.

The state is always read from libvirt, so changes that a user makes with `vagrant` are noticed.
"""

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from faultlab.core import paths
from faultlab.core.command import run, stream
from faultlab.core.errors import CannotRun
from faultlab.engine.contract import Say

State = Literal["absent", "off", "paused", "running"]

_URI = "qemu:///system"
_POOL = "default"
_BOX_VOLUME = "faultlab_vagrant_box_image_"  # vagrant-libvirt's name for a box's copy in the pool


def name() -> str:
    """Return the VM's name in Vagrant and libvirt."""
    return os.environ.get("FAULTLAB_VM_NAME", "faultlab")


def virsh(*words: str, timeout: float = 30) -> tuple[int, str]:
    """Run virsh; return its exit code and both outputs."""
    done = run(["virsh", "--connect", _URI, *words], timeout=timeout)
    return done.returncode, (done.stdout + done.stderr).strip()


def state() -> State:
    """Return the state of the VM from libvirt now; without libvirt it is absent.

    Without the folder of its box, only a VM made from this project counts, so that it can be
    removed.
    """
    if shutil.which("virsh") is None or not (paths.vm().is_dir() or _made_from() == paths.root()):
        return "absent"
    code, text = virsh("domstate", name())
    if code != 0:
        return "absent"
    return "running" if text == "running" else "paused" if text == "paused" else "off"


def _made_from() -> Path:
    """Return the folder whose Vagrantfile the VM of our name was made from."""
    return Path(virsh("desc", name())[1].removeprefix("Source: ")).parent


def elsewhere() -> Path | None:
    """Return the other folder that the VM of our name was made from, if that still exists."""
    made_from = _made_from()
    other = made_from != paths.root() and (made_from / "Vagrantfile").is_file()
    return made_from if other else None


def refuse_what_is_not_ours() -> None:
    """Raise CannotRun if the VM of our name is not ours, or of another folder that still exists."""
    if state() == "absent":
        return
    if not _made_from().is_absolute():
        raise CannotRun(
            f"The VM {name()} was not made by faultlab.", "export FAULTLAB_VM_NAME=another"
        )
    if other := elsewhere():
        raise CannotRun(f"The VM {name()} belongs to {other}.", f"{paths.program(other)} vm down")


def require_reachable() -> None:
    """Raise CannotRun if libvirt is installed and does not say whether there is a VM."""
    if shutil.which("virsh") is None:
        return
    code, text = virsh("list", "--all")
    if code != 0:
        said = (text.splitlines() or [f"exit code {code}"])[0]
        raise CannotRun(
            f"libvirt does not say if there is a VM: {said}", f"virsh --connect {_URI} list --all"
        )


def address() -> str:
    """Return the VM's IPv4 address. Raises CannotRun if libvirt knows none."""
    _, text = virsh("domifaddr", name(), "--source", "lease")
    for word in text.split():
        if "/" in word and word[0].isdigit():
            return word.split("/")[0]
    if state() != "running":
        raise silent()
    raise CannotRun("The lab VM has no address.", "faultlab vm reset")


def silent() -> CannotRun:
    """Return the error for a VM that does not respond: its state, and the command that helps."""
    found = state()
    if found != "running":
        return CannotRun(f"The lab VM is {found}.", "make vm")
    return CannotRun("The lab VM does not answer.", "faultlab vm reset")


def acceleration() -> tuple[str, str]:
    """Return `kvm` or `tcg`, found by booting a guest, and the reason. Raises CannotRun."""
    done = run([str(paths.root() / "setup/accel.sh"), str(paths.vm() / "vmlinuz")], timeout=60)
    if done.returncode != 0:
        raise CannotRun(f"Cannot find out the acceleration: {done.stderr.strip()}", "make vm")
    return done.stdout.strip(), done.stderr.strip().split(": ", 2)[-1]


def forget_old_boxes(note: Say) -> None:
    """Remove the copies of replaced boxes that Vagrant and libvirt keep, 0.6 GB each."""
    volumes = [line.split()[0] for line in virsh("vol-list", _POOL)[1].splitlines()[2:] if line]
    used = {base for volume in volumes for base in _based_on(volume)}
    for volume in volumes:
        if volume.startswith(_BOX_VOLUME) and volume not in used:
            note(f"removing the old box {volume}")
            virsh("vol-delete", "--pool", _POOL, volume)
    for version in _old_versions():
        box = ["faultlab", "--provider", "libvirt", "--box-version", version]
        vagrant("box", "remove", *box, "--force", note=note)


def _old_versions() -> list[str]:
    """Return Vagrant's copies of boxes that are not this folder's; each folder has its own in .vm.

    We do not use `vagrant box prune`. It takes the newest box for the current one, and it fails in
    the plugin if the VM was made from another, as happens where two folders have built a box.
    """
    done = run(["vagrant", "box", "list", "--machine-readable"], timeout=60, env=_cwd())
    listed = re.findall(r",box-name,faultlab\n.*\n.*,box-version,(\S+)", done.stdout)
    return [each for each in listed if each != (paths.vm() / "version").read_text().strip()]


def _based_on(volume: str) -> list[str]:
    """Return the volume that this one is a layer on, if any."""
    _, text = virsh("vol-dumpxml", "--pool", _POOL, volume)
    return re.findall(r"<backingStore>\s*<path>[^<]*/([^/<]+)</path>", text)


def vagrant(*words: str, note: Say, env: Mapping[str, str] | None = None) -> None:
    """Run Vagrant; `note` gets each line of its output. Raises CannotRun."""
    stream(["vagrant", *words, "--no-color"], note, {**_cwd(), **(env or {})})


def _cwd() -> dict[str, str]:
    """Return the environment that shows Vagrant our Vagrantfile, and where it can write."""
    return {
        "VAGRANT_CWD": str(paths.root()),
        "VAGRANT_DOTFILE_PATH": str(paths.vagrant()),
        "FAULTLAB_VM_DIR": str(paths.vm()),
    }
