"""Scratch: what a killed command has left, and what a sweep does with it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from faultlab.core import lock, paths, scratch
from faultlab.core.errors import CannotRun
from tests.unit.conftest import REPO, Run
from tests.unit.fake import FakeEngine
from tests.waiting import until

KILLED = """
import os, signal, sys
from pathlib import Path
from faultlab.core import lock, scratch
lock._TOP = Path(sys.argv[1])
with scratch.folder("faultlab-page-", Path(sys.argv[2])) as folder:
    (folder / "events.jsonl").write_text("{}")
    print(folder, flush=True)
    if sys.argv[3] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    sys.stdin.read()
"""


def notes() -> list[str]:
    return [path.name for path in lock.folder().glob("scratch-*")]


def begun(where: Path, how: str) -> subprocess.Popen[str]:
    """A command that has a folder of its own."""
    command = [sys.executable, "-c", KILLED, str(lock._TOP), str(where), how]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=REPO, stdin=pipe, stdout=pipe, text=True)


def test_a_folder_is_there_while_it_is_used(tmp_path: Path) -> None:
    with scratch.folder("x-", tmp_path) as folder:
        assert folder.parent == tmp_path and folder.name.startswith("x-")
        assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "deep").mkdir()
        assert scratch.sweep() == [] and folder.is_dir()
    assert not folder.exists() and notes() == []
    with scratch.folder() as folder:
        assert folder.parent == Path(tempfile.gettempdir())


def test_an_error_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), scratch.folder("x-", tmp_path):
        _ = 1 / 0
    with pytest.raises(CannotRun, match="cannot be written"), scratch.folder("x-", tmp_path / "no"):
        pass
    assert [*tmp_path.glob("x-*")] == [] and notes() == []


def test_a_killed_command_is_swept(tmp_path: Path, engine: FakeEngine, faultlab: Run) -> None:
    """`kill -9` of a page, a bundle or a walk left its folder for good."""
    with begun(tmp_path, "killed") as process:
        out, _ = process.communicate(timeout=20)
    folder = Path(out.strip())
    assert process.returncode == -9 and folder.is_dir()
    got = faultlab("sweep")
    assert (got.code, folder.exists(), notes()) == (0, False, [])
    assert folder.name in got.out.replace("\n", "") and "removed 1" in got.out
    assert faultlab("sweep").out.count("nothing of ours was there") == 1


def test_what_is_used_is_not_swept(tmp_path: Path) -> None:
    with begun(tmp_path, "alive") as process:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().strip())
        assert scratch.sweep() == [] and (folder / "events.jsonl").exists()
        process.kill()
    assert scratch.sweep() == [str(folder)]


def test_a_file_that_another_command_uses_by_now_stays(tmp_path: Path) -> None:
    """As the address of a page that was killed and begun again."""
    url = tmp_path / "page.url"
    (lock.private(lock.folder()) / "scratch-0").write_text(str(url))
    with scratch.noted(url):
        url.write_text("http://127.0.0.1:8420")
        assert scratch.sweep() == [] and url.exists()
    assert not url.exists() and notes() == []


def test_a_note_that_is_just_being_written(tmp_path: Path) -> None:
    note = lock.private(lock.folder()) / "scratch-0"
    note.touch()
    assert scratch.sweep() == [] and notes() == ["scratch-0"]
    os.utime(note, (0, 0))
    assert scratch.sweep() == [] and notes() == []


def test_a_link_is_removed_and_not_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    (lock.private(lock.folder()) / "scratch-0").write_text(str(tmp_path / "link"))
    assert scratch.sweep() == [str(tmp_path / "link")]
    assert (tmp_path / "mine").is_dir() and not (tmp_path / "link").is_symlink()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file another user's")
def test_what_is_another_users_by_now_stays(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    os.chown(tmp_path / "theirs", 64201, 64201)
    (lock.private(lock.folder()) / "scratch-0").write_text(str(tmp_path / "theirs"))
    assert scratch.sweep() == [] and (tmp_path / "theirs").is_dir() and notes() == []


def test_half_of_a_bundle_is_its_commands_own(tmp_path: Path) -> None:
    """It is noted from before it is written until it has its name."""
    file = tmp_path / "faultlab.bundle.tar"
    with scratch.noted(paths.part_of(file)), paths.whole(file) as half:
        half.write_text("whole")
        assert half == paths.part_of(file)
    assert file.read_text() == "whole" and not half.exists()
    (tmp_path / "link.tar").symlink_to(file)
    assert paths.part_of(tmp_path / "link.tar") == half


def test_temporary_folders_are_noted() -> None:
    """Otherwise a command that is killed leaves one that no sweep finds."""
    allowed = {"engine/vm/ssh.py"}  # removes those of killed commands itself
    package = REPO / "faultlab"
    files = {str(f.relative_to(package)): f.read_text() for f in package.rglob("*.py")}
    found = {name for name, text in files.items() if "TemporaryDirectory(" in text}
    found |= {name for name, text in files.items() if "mkdtemp(" in text}
    assert found == allowed


@pytest.fixture(autouse=True)
def nothing_held() -> None:
    until(lambda: notes() == [])
