"""Image tags: a digest of the sources, so that a changed image is always built and no other."""

from __future__ import annotations

import io
import re
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from docker.errors import APIError, DockerException

from faultlab.core.errors import CannotRun
from faultlab.engine.contract import Say
from faultlab.engine.docker import build
from faultlab.engine.docker.connection import Docker
from faultlab.lab import images, release
from tests.unit.conftest import forget


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


def packed(folder: Path) -> dict[str, int]:
    """Return what Docker would get: names with their permissions."""
    with tempfile.TemporaryFile() as file:
        build.pack(folder, file)
        with tarfile.open(fileobj=file) as archive:
            assert {(each.uid, each.gid, each.uname) for each in archive} == {(0, 0, "root")}
            return {each.name.removeprefix("./"): each.mode for each in archive}


def test_base_comes_first_and_the_vm_is_no_image(folder: Path) -> None:
    assert images.names() == ["base", "db", "web"]


@pytest.mark.parametrize(
    ("change", "images"),
    [
        (lambda at: (at / "web/Dockerfile").touch(), []),
        (lambda at: (at / "web/etc/start.sh").write_text("echo hullo\n"), ["web"]),
        (lambda at: (at / "web/etc/start.sh").chmod(0o755), ["web"]),
        (lambda at: (at / "web/etc/start.sh").rename(at / "web/etc/begin.sh"), ["web"]),
        (lambda at: (at / "base/Dockerfile").write_text("# other\n"), ["base", "db", "web"]),
    ],
    ids=["time", "content", "executable", "name", "base"],
)
def test_what_counts_in_a_tag(
    change: Callable[[Path], object], images: list[str], folder: Path
) -> None:
    before = tags()
    change(folder)
    assert changed(before) == images and before["web"].startswith("faultlab/web:")


@pytest.mark.parametrize("umask", [0o077, 0o002])
def test_the_umask_of_a_checkout_does_not_count(folder: Path, umask: int) -> None:
    """Neither in the tag nor in what Docker gets: a daemon must be able to read its files."""
    (folder / "web/etc/start.sh").chmod(0o755)
    before, context = tags(), packed(folder / "web")
    for path in folder.rglob("*"):
        plain = 0o777 if path.is_dir() or path.stat().st_mode & 0o100 else 0o666
        path.chmod(plain & ~umask)
    assert changed(before) == []
    assert packed(folder / "web") == context
    modes = {"Dockerfile": 0o644, "etc/start.sh": 0o755}
    assert context == {".": 0o755, "etc": 0o755, **modes}


def test_facts_count_in_no_image(folder: Path) -> None:
    """Neither in the tag nor in what Docker gets."""
    before, context = tags(), packed(folder / "web")
    (folder / "web/daemon.toml").write_text("log = '/var/log/web'\n")
    assert changed(before) == []
    assert packed(folder / "web") == context


def test_a_link_out_of_the_folder_of_a_stranger_is_refused(tmp_path: Path) -> None:
    """A link out of a tool's folder: it would bring any file into the image, for RUN to read."""
    mine, other = tmp_path / "mine", tmp_path / "other"
    for made in (mine, other):
        made.mkdir()
        (made / "Dockerfile").write_text("FROM x\n")
    (mine / "within").symlink_to("Dockerfile")
    build.pack(mine, io.BytesIO())
    (mine / "out").symlink_to("../other/Dockerfile")
    with pytest.raises(CannotRun, match="out is a link to a place outside its folder"):
        build.pack(mine, io.BytesIO())


def test_the_content_behind_a_link_counts(folder: Path) -> None:
    (folder / "db/start.sh").symlink_to("../web/etc/start.sh")
    before = tags()
    (folder / "web/etc/start.sh").write_text("echo hullo\n")
    assert changed(before) == ["db", "web"]


class Registry:
    """A Docker whose registry has one image, or does not respond. No real registry was asked."""

    def __init__(self, responds: bool) -> None:
        self.asked: list[str] = []
        self.have = ["faultlab/web:1", "faultlab/bookworm:latest"]
        self.removed: list[str] = []
        self.tagged: list[tuple[str, str]] = []
        self.client = SimpleNamespace(images=self)
        self._responds = responds

    def list(self, name: str) -> list[SimpleNamespace]:
        assert name == "faultlab/*"
        return [SimpleNamespace(tags=self.have)]

    def remove(self, name: str, *, force: bool = False) -> None:
        if not (force or self._responds):
            raise APIError("conflict: a container uses it")
        self.removed.append(name)

    def errors(self) -> AbstractContextManager[None]:
        return nullcontext()

    def pull(self, name: str) -> SimpleNamespace:
        self.asked.append(name)
        if not self._responds:
            raise DockerException("no such host")
        return SimpleNamespace(tag=lambda *words: self.tagged.append(words))


def test_a_registry_gives_the_base_by_its_digest() -> None:
    registry = Registry(responds=True)
    build._build_base(cast(Docker, registry), lambda _: None)
    (name,) = registry.asked
    assert re.fullmatch(r"debian@sha256:[0-9a-f]{64}", name)
    assert registry.tagged == [("faultlab/bookworm", "latest")]


def test_the_base_is_removed_by_the_name_that_it_was_pulled_by() -> None:
    """Its other name would keep the image here."""
    registry = Registry(responds=True)
    images = build.DockerImages(cast(Docker, registry))
    assert images.remove() == registry.have
    pinned = release.RELEASES["bookworm"].pinned
    assert registry.removed == [*registry.have, pinned]
    assert build.DockerImages(cast(Docker, Registry(responds=False))).remove() == registry.have
    registry.have, registry.removed = ["faultlab/web:1"], []  # made from packages elsewhere
    assert images.remove() == registry.removed == ["faultlab/web:1"]


def test_without_a_registry_it_is_made_from_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    said: list[str] = []
    with pytest.raises(CannotRun, match="mmdebstrap is not installed") as caught:
        build._build_base(cast(Docker, Registry(responds=False)), said.append)
    assert said[-1] == "no registry responds: making it from Debian packages"
    assert said[-2] == "it was not pulled: no such host"
    assert "(no such host)" in caught.value.message
    assert caught.value.hint == "make setup"


@pytest.mark.parametrize(
    ("printed", "says"),
    [
        (
            # As Docker 20.10 streams a step of apt that fails: red, and in pieces.
            [
                "Step 2/3 : RUN apt-get install -y nosuch",
                "Reading package lists...\n",
                "\x1b[91mE: Unable to locate package nosuch\n\x1b[0m",
                "\x1b[91mE: Couldn't find any package by regex 'nosuch'\n\x1b[0m",
                "\x1b[0m",
                "Removing intermediate container 0123456789ab\n",
            ],
            "E: Unable to locate package nosuch",
        ),
        (
            ["Step 1/2 : RUN make", "\x1b[91mmake: *** no rule\n\x1b[0m", "\x1b[0m"],
            "make: *** no rule",
        ),
        (
            ["E: was passed over", "Step 2/2 : RUN false", " ---> Running in 0123"],
            "---> Running in 0123",
        ),
        ([], "returned a non-zero code: 100"),
    ],
)
def test_a_failed_build_says_why(printed: list[str], says: str, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM x\n")
    events = [{"stream": each} for each in printed]
    ended = {"error": "The command returned a non-zero code: 100"}
    api = SimpleNamespace(build=lambda **_: iter([*events, ended]))
    on = SimpleNamespace(errors=nullcontext, client=SimpleNamespace(api=api))
    said: list[str] = []
    with pytest.raises(CannotRun) as caught:
        build.build_folder(
            cast(Docker, on), tmp_path, "mine", "faultlab/mine:1", said.append, base="x", network=""
        )
    assert caught.value.message.endswith(says)
    assert not [line for line in said if "\x1b" in line or not line]


def test_images_are_built_side_by_side() -> None:
    """Each waits for the other, so one after the other they would never end."""
    both = threading.Barrier(2, timeout=10)
    said: list[str] = []

    def made(name: str, say: Say, _: bool) -> None:
        both.wait()
        say(name)

    build.at_once([(name, said.append) for name in ("nginx", "mysql")], made, False)
    assert sorted(said) == ["mysql", "nginx"]


def test_a_build_that_fails_ends_the_others() -> None:
    begun, ended = threading.Event(), threading.Event()

    def made(name: str, say: Say, _: bool) -> None:
        if name == "nginx":
            assert begun.wait(10)
            raise CannotRun("Building the image nginx failed: no space", "faultlab doctor")
        try:
            for _line in range(1000):
                say("unpacking")
                begun.set()
                time.sleep(0.01)
        except CannotRun:
            ended.set()
            raise

    with pytest.raises(CannotRun, match="nginx failed: no space"):
        build.at_once([(name, lambda _: None) for name in ("mysql", "nginx")], made, False)
    assert ended.is_set()
