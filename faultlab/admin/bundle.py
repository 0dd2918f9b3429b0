"""Offline: one archive with all that a machine without a network needs to run the labs.

`faultlab bundle` writes it: the images, the wheels of the lock file, Debian's packages, the lab
VM's box, and the SHA-256 of each file. `make setup BUNDLE=FILE` reads it: setup/bundle.sh. It takes
no file that the list of these does not name, so the SHA-256 of the list is a digest of the whole.
"""

import hashlib
import json
import os
import platform
import shutil
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faultlab import __version__
from faultlab.core import paths, scratch
from faultlab.core.command import run, stream
from faultlab.core.terminal import Terminal
from faultlab.engine.contract import Say
from faultlab.lab import images
from faultlab.run import placement

SUMS = "SHA256SUMS"
_FACTS = "bundle.json"
# What setup.sh may install, on a Debian that has nothing yet; libvirt.sh names its own.
_PACKAGES = (
    *("docker.io", "docker-compose", "iptables", "python3-venv", "make", "git"),
    *("mmdebstrap", "uidmap", "debian-archive-keyring", "openssl"),
)
_BOX = (
    *("faultlab.box", "box.json", "version", "digest", "vmlinuz", "initrd.img", "cmdline"),
    *("ssh_key", "ssh_key.pub"),
)


@dataclass(frozen=True)
class Bundle:
    """The archive, and what is in it. `digest`: of the list of its files and their digests."""

    file: str
    bytes: int
    digest: str
    faultlab: str
    python: str
    machine: str
    suite: str
    images: list[str]
    vm: bool


def bundle(term: Terminal, out: str, *, vm: bool) -> Bundle:
    """Write the archive. Raises BadInput, or CannotRun when a part of it cannot be had."""
    file = paths.in_a_folder(out)
    engine = placement.local()
    box = paths.vm()
    with_vm = vm and (box / "digest").is_file()
    with scratch.folder(".bundle-", file.absolute().parent) as folder:
        with term.step("images", "looking for what has to be built") as step:
            engine.images.ensure(step.note)
            tags = [images.tag(each) for each in images.names()]
            step.note(f"saving {len(tags)} images")
            engine.images.save(tags, folder / "images.tar.gz", step.note)
            step.done(f"{len(tags)} images, {_size(folder / 'images.tar.gz')}")
        with term.step("wheels", "collecting what .venv is made from") as step:
            step.done(f"{_wheels(folder / 'wheels', step.note)} wheels")
        with term.step("packages", "collecting Debian's packages") as step:
            step.done(f"{_packages(folder / 'debs', with_vm, step.note)} packages")
        with term.step("vm", "copying the box of the lab VM") as step:
            if with_vm:
                (folder / "vm").mkdir()
                for each in _BOX:
                    shutil.copy2(box / each, folder / "vm" / each)
            why = "no box is here (make vm)" if vm else "not asked for"
            step.done(_size(folder / "vm/faultlab.box") if with_vm else f"without: {why}")
        facts: dict[str, Any] = {
            "faultlab": __version__,
            "python": f"{sys.version_info.major}.{sys.version_info.minor}",
            "machine": platform.machine(),
            "suite": platform.freedesktop_os_release().get("VERSION_CODENAME", ""),
            "images": tags,
            "vm": with_vm,
        }
        (folder / _FACTS).write_text(json.dumps(facts, indent=1) + "\n")
        with term.step("archive", "writing checksums and the archive") as step:
            digest = _pack(folder, file, step.note)
            step.done(f"{file} ({_size(file)})")
    term.say("On the other machine, in a checkout of this version:")
    term.say(f"  make setup BUNDLE={file.name} DIGEST={digest}")
    term.say("Take the digest there by a different route. It proves that the file is this one.")
    return Bundle(str(file), file.stat().st_size, digest, **facts)


def _wheels(folder: Path, note: Say) -> int:
    """Collect the wheels that faultlab, its pages and pip's build of it need; return how many.

    setup/venv.sh compares their hashes with the lock file, so none is built here. A package without
    a wheel for this Python is an error here, not on the machine without a network.
    """
    stream(
        [
            *(sys.executable, "-m", "pip", "download", "--progress-bar", "off", "--no-deps"),
            *("--only-binary", ":all:", "--require-hashes"),
            *("--dest", str(folder), "--requirement", str(paths.root() / "setup/lock/web.txt")),
        ],
        note,
    )
    return len(list(folder.glob("*.whl")))


def _packages(folder: Path, with_vm: bool, note: Say) -> int:
    """All packages that a bare Debian would need, with an index that apt reads."""
    folder.mkdir()
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        note("without: that needs apt-get, and root")
        (folder / "Packages").touch()
        return 0
    wanted = [*_PACKAGES, *(_of_the_vm() if with_vm else ())]
    (folder / "partial").mkdir()
    (folder / "status").touch()  # as if nothing were installed
    stream(
        [
            *("apt-get", "install", "--download-only", "--yes", "--no-install-recommends"),
            *("-o", f"Dir::State::status={folder}/status"),
            *("-o", f"Dir::Cache::archives={folder}"),
            *("-o", "APT::Sandbox::User=root", "-o", "Debug::NoLocking=1"),
            *wanted,
        ],
        note,
    )
    index = []
    for deb in sorted(folder.glob("*.deb")):
        note(f"reading {deb.name}")
        control = run(["dpkg-deb", "--field", str(deb)], timeout=30).stdout.rstrip()
        size, digest = deb.stat().st_size, _sha256(deb)
        index.append(f"{control}\nFilename: ./{deb.name}\nSize: {size}\nSHA256: {digest}\n")
    (folder / "Packages").write_text("\n".join(index))
    for rest in ("partial", "status", "lock"):
        path = folder / rest
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    return len(index)


def _of_the_vm() -> list[str]:
    """Return the packages that setup/libvirt.sh installs, read from the script itself."""
    text = (paths.root() / "setup/libvirt.sh").read_text()
    return text.partition("PACKAGES=(")[2].partition(")")[0].split()


def _pack(folder: Path, file: Path, note: Say) -> str:
    """Write the archive and return its digest. Raises CannotRun."""
    parts = sorted(path for path in folder.rglob("*") if path.is_file())
    sums = []
    for part in parts:
        note(f"checksum of {part.name}")
        sums.append(f"{_sha256(part)}  {part.relative_to(folder)}\n")
    (folder / SUMS).write_text("".join(sums))
    with scratch.noted(paths.part_of(file)), paths.whole(file) as half:
        half.unlink(missing_ok=True)  # a killed command's, with other permissions
        # The box of the VM contains the key of the VM.
        half.touch(mode=0o600 if (folder / "vm").exists() else 0o666)
        with tarfile.open(half, "w") as archive:
            for part in [folder / SUMS, *parts]:
                note(f"writing {part.name}")
                archive.add(part, part.relative_to(folder))
    return _sha256(folder / SUMS)


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _size(file: Path) -> str:
    return f"{file.stat().st_size / 1e6:,.0f} MB"
