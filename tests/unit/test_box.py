"""The VM's box is built once for all checkouts of a user: images/vm/keep.sh."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from faultlab.admin import status
from faultlab.core import paths

FILES = [
    *("disk.qcow2", "vmlinuz", "initrd.img", "cmdline"),
    *("ssh_key", "ssh_key.pub", "faultlab.box", "version"),
]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "faultlab" / "box"


@pytest.fixture
def built(tmp_path: Path) -> Path:
    """A folder as a build leaves it."""
    folder = tmp_path / "one/.vm"
    folder.mkdir(parents=True)
    for name in FILES:
        (folder / name).write_text(f"{name} of one\n")
    (folder / "ssh_key").chmod(0o600)
    url = {"url": f"file://{folder}/faultlab.box"}
    (folder / "box.json").write_text(json.dumps(url) + "\n")
    return folder


def keep(verb: str, out: Path, digest: str = "abc") -> int:
    """Do what build.sh does with these files: `keep` them, or `take_kept`."""
    script = 'set -euo pipefail; out=$1 digest=$2; . "$3"; "$4"'
    keep_sh = paths.images() / "vm/keep.sh"
    words = ["bash", "-c", script, "-", str(out), digest, str(keep_sh), verb]
    return subprocess.run(words, check=False).returncode


def test_a_second_checkout_takes_what_the_first_has_built(built: Path, tmp_path: Path) -> None:
    other = tmp_path / "two"
    other.mkdir()
    assert keep("keep", built) == 0
    assert keep("take_kept", other) == 0
    for name in FILES:
        assert (other / name).read_text() == f"{name} of one\n"
    assert (other / "ssh_key").stat().st_mode & 0o777 == 0o600
    assert (other / "digest").read_text() == "abc\n"
    assert json.loads((other / "box.json").read_text())["url"] == f"file://{other}/faultlab.box"
    assert json.loads((built / "box.json").read_text())["url"] == f"file://{built}/faultlab.box"


def test_nobody_else_can_read_its_key(built: Path, cache: Path) -> None:
    assert keep("keep", built) == 0
    assert cache.stat().st_mode & 0o777 == 0o700


def test_nothing_is_taken_of_another_build(built: Path, tmp_path: Path) -> None:
    assert keep("take_kept", tmp_path) == 1  # nothing is kept yet
    assert keep("keep", built) == 0
    assert keep("take_kept", tmp_path, "abd") == 1
    assert not (tmp_path / "digest").exists()


def test_what_was_kept_by_half_counts_as_nothing(built: Path, tmp_path: Path) -> None:
    assert keep("keep", built) == 0
    (built / "vmlinuz").unlink()
    assert keep("keep", built, "abd") == 1
    assert keep("take_kept", tmp_path, "abd") == 1
    assert keep("take_kept", tmp_path) == 1


def test_what_is_kept_has_an_owner_of_its_own_under_sudo(
    built: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files of a checkout are given to the user who typed sudo."""
    monkeypatch.setenv("SUDO_UID", "1000")
    other = tmp_path / "two"
    other.mkdir()
    assert keep("keep", built) == 0
    assert keep("take_kept", other) == 0
    for folder in (built, cache, other):
        assert (folder / "disk.qcow2").stat().st_nlink == 1


def test_only_its_owner_reads_the_box(tmp_path: Path) -> None:
    """It contains the key of the VM; the list of its versions is no secret."""
    for name in ("box.img", "ssh_key"):
        (tmp_path / name).touch()
    make = [str(paths.images() / "vm/box.sh"), str(tmp_path), str(tmp_path), "8"]
    subprocess.run(make, check=True, umask=0o022)
    modes = {
        name: (tmp_path / name).stat().st_mode & 0o777 for name in ("faultlab.box", "box.json")
    }
    assert modes == {"faultlab.box": 0o600, "box.json": 0o644}


def test_a_bundle_is_booted_from_its_box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no disk of its own."""
    (tmp_path / "box.img").write_text("disk")
    (tmp_path / "cmdline").touch()
    words = ["tar", "-C", str(tmp_path), "-cf", str(tmp_path / "faultlab.box"), "box.img"]
    subprocess.run(words, check=True)
    (tmp_path / "qemu-system-x86_64").symlink_to("/bin/true")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    subprocess.run([paths.images() / "vm/boot.sh", tmp_path], check=True)
    assert (tmp_path / "disk.qcow2").read_text() == "disk"


def build(tmp_path: Path, sudo_uid: str = "", **stubs: str) -> subprocess.CompletedProcess[str]:
    """Run build.sh as a user for whom every digest is "abc"."""
    programs = tmp_path / "bin"
    programs.mkdir(exist_ok=True)
    names = ("mmdebstrap", "mke2fs", "qemu-img", "ssh-keygen", "docker", "dockerd")
    usual = {"id": "echo 1000", "sha256sum": "cat >/dev/null; echo abc"}
    for name, body in {**dict.fromkeys(names, ""), **usual, **stubs}.items():
        (programs / name).write_text(f"#!/bin/sh\n{body}\n")
        (programs / name).chmod(0o755)
    return subprocess.run(
        [paths.images() / "vm/build.sh", tmp_path / "one/.vm"],
        env={**os.environ, "PATH": f"{programs}:/usr/bin:/bin", "SUDO_UID": sudo_uid},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_user_learns_that_it_is_up_to_date(built: Path, tmp_path: Path) -> None:
    done = build(tmp_path)
    assert (done.returncode, "that needs root\n  next: sudo " in done.stderr) == (3, True)
    (built / "digest").write_text("abc\n")
    done = build(tmp_path)
    assert (done.returncode, done.stderr) == (0, f"vm image: up to date in {built}\n")


def test_sudo_gives_what_it_takes_to_the_user(built: Path, tmp_path: Path) -> None:
    assert keep("keep", built) == 0
    (built / "ssh_key").unlink()
    note = f'echo "$*" >>{tmp_path}/given'
    done = build(tmp_path, id="echo 0", chown=note, sudo_uid="1000")
    assert (done.returncode, "taken from" in done.stderr) == (0, True)
    first, last = (tmp_path / "given").read_text().splitlines()
    assert first.startswith(f"-h 1000: {built} {built}/.gitignore {built}/")
    assert {f"{built}/lock", f"{built}/ssh_key", f"{built}/digest"} <= set(last.split())


def test_sweep_removes_it(built: Path, cache: Path) -> None:
    assert keep("keep", built) == 0
    assert status._sweep_box() == [f"box of the lab VM {cache}"]
    assert not cache.exists() and status._sweep_box() == []
    assert (built / "faultlab.box").exists()
