"""Offline: the archive and its checksums, without Docker. What reads it is in test_setup.py."""

from __future__ import annotations

import hashlib
import subprocess
import tarfile
from pathlib import Path

import pytest

from faultlab.admin import bundle
from faultlab.core import lock, paths
from faultlab.core.errors import CannotRun
from tests.unit.conftest import Run


def test_the_archive_can_be_checked(tmp_path: Path) -> None:
    folder, out = tmp_path / "parts", tmp_path / "x.tar"
    (folder / "wheels").mkdir(parents=True)
    (folder / "wheels/a.whl").write_text("a")
    (folder / "images.tar.gz").write_text("images")
    digest = bundle._pack(folder, out, lambda _: None)
    with tarfile.open(out) as archive:
        assert archive.getnames() == ["SHA256SUMS", "images.tar.gz", "wheels/a.whl"]
        archive.extractall(tmp_path / "there", filter="data")
    check = ["sha256sum", "--check", "--quiet", "SHA256SUMS"]
    assert subprocess.run(check, cwd=tmp_path / "there", check=False).returncode == 0
    sums = (tmp_path / "there/SHA256SUMS").read_bytes()
    assert hashlib.sha256(sums).hexdigest() == digest
    (tmp_path / "there/images.tar.gz").write_text("other")
    assert subprocess.run(check, cwd=tmp_path / "there", check=False).returncode == 1


def test_only_its_owner_reads_the_key_of_the_vm(tmp_path: Path) -> None:
    (tmp_path / "parts/vm").mkdir(parents=True)
    (tmp_path / "parts/vm/ssh_key").write_text("key")
    out = tmp_path / "x.tar"
    out.with_name("x.tar.part").touch(mode=0o644)
    bundle._pack(tmp_path / "parts", out, lambda _: None)
    assert out.stat().st_mode & 0o777 == 0o600


def test_what_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "x").mkdir()
    with pytest.raises(CannotRun, match="cannot be written"):
        bundle._pack(tmp_path / "parts", tmp_path / "x", lambda _: None)
    locks = lock.folder()
    assert {path.name for path in tmp_path.iterdir()} == {"parts", "x", locks.name}
    assert [*locks.glob("scratch-*")] == []


def test_the_packages_of_the_vm_are_those_of_its_setup() -> None:
    found = bundle._of_the_vm()
    assert {"vagrant", "libvirt-daemon-system", "openssh-client"} <= set(found)
    assert all(name.replace("-", "").isalnum() for name in found)


def test_what_pip_builds_with_comes_along() -> None:
    """bundle takes the wheels of this file, and setup/venv.sh builds with them alone."""
    assert "\nhatchling==" in (paths.root() / "setup/lock/web.txt").read_text()


def test_a_folder_that_is_not_there(faultlab: Run) -> None:
    result = faultlab("bundle", "--out", "nowhere/x.tar")
    assert (result.code, "There is no folder for nowhere/x.tar" in result.err) == (2, True)
