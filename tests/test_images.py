"""Image tags: a digest of the sources, so that a changed image is always built and no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from faultlab import images
from tests.conftest import forget


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a base image and two more."""
    monkeypatch.setenv("FAULTLAB_ROOT", str(tmp_path))
    for name in ("base", "web", "db"):
        (tmp_path / "images" / name / "etc").mkdir(parents=True)
        (tmp_path / "images" / name / "Dockerfile").write_text(f"# {name}\n")
    (tmp_path / "images/web/etc/start.sh").write_text("echo hello\n")
    (tmp_path / "images/vm").mkdir()
    return tmp_path / "images"


def tags() -> dict[str, str]:
    forget()
    return {name: images.tag(name) for name in images.names()}


def changed(before: dict[str, str]) -> list[str]:
    return [name for name, tag in tags().items() if tag != before[name]]


def test_base_comes_first_and_the_vm_is_no_image(folder: Path) -> None:
    assert images.names() == ["base", "db", "web"]


def test_nothing_changed(folder: Path) -> None:
    before = tags()
    (folder / "web/Dockerfile").touch()
    assert changed(before) == []
    assert before["web"].startswith("faultlab/web:")


def test_the_content_counts(folder: Path) -> None:
    before = tags()
    (folder / "web/etc/start.sh").write_text("echo hullo\n")
    assert changed(before) == ["web"]


def test_the_executable_bit_counts(folder: Path) -> None:
    before = tags()
    (folder / "web/etc/start.sh").chmod(0o755)
    assert changed(before) == ["web"]


def test_the_name_counts(folder: Path) -> None:
    before = tags()
    (folder / "web/etc/start.sh").rename(folder / "web/etc/begin.sh")
    assert changed(before) == ["web"]


def test_base_counts_for_all(folder: Path) -> None:
    before = tags()
    (folder / "base/Dockerfile").write_text("# other base\n")
    assert changed(before) == ["base", "db", "web"]


def test_the_content_behind_a_link_counts(folder: Path) -> None:
    (folder / "db/start.sh").symlink_to("../web/etc/start.sh")
    before = tags()
    (folder / "web/etc/start.sh").write_text("echo hullo\n")
    assert changed(before) == ["db", "web"]
