"""The switch between two releases of Debian: what it replaces, and that else nothing changes."""

from __future__ import annotations

import re
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from faultlab.core import document, paths
from faultlab.core.errors import BadInput, CannotRun
from faultlab.engine.docker import build
from faultlab.engine.docker.connection import Docker
from faultlab.engine.kubernetes import jobspec
from faultlab.lab import collection, decoys, dockerfile, images, release
from faultlab.lab import loader as labs
from faultlab.lab import services as compose_files
from faultlab.run import digest, preflight
from faultlab.run import run as runs
from faultlab.run.record import Record
from faultlab.score import tool
from tests.unit.conftest import REPO, Run, forget, said
from tests.unit.test_images import packed

OTHERS = [name for name in release.RELEASES if name != release.WRITTEN_FOR.suite]
# A version in a name: of a package, a program, a unit or a folder.
VERSIONED = re.compile(r"(php-fpm|php/?|openjdk-)(\d+(?:\.\d+)?)")


def empty() -> None:
    """Empty what is kept by the path of a file, as no command has two releases."""
    forget()
    for kept in (compose_files._plan, compose_files._read, dockerfile.read):
        kept.cache_clear()


@pytest.fixture(params=OTHERS)
def other(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A release that the files are not written for, chosen in this test."""
    monkeypatch.setenv(release.VARIABLE, request.param)
    empty()
    yield request.param
    monkeypatch.undo()
    empty()


def versions(text: str) -> set[tuple[str, str]]:
    return {(name.strip("-/"), number) for name, number in VERSIONED.findall(text)}


def read(folder: Path) -> str:
    """Return all of a folder that a program reads, as this release needs it."""
    files = [file for file in sorted(folder.rglob("*")) if file.is_file()]
    return "\n".join(release.content(file.read_bytes()).decode(errors="replace") for file in files)


def test_the_usual_release_replaces_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """So its digests and tags are those of the files, and recorded walks stay valid."""
    written = b"php8.2-fpm /etc/php/8.2/fpm openjdk-17-jdk-headless \xff"
    for chosen in ("", release.WRITTEN_FOR.suite):
        monkeypatch.setenv(release.VARIABLE, chosen)
        assert release.now() == release.WRITTEN_FOR and release.now().mark == b""
        assert release.content(written) == written
        for file in (*paths.labs().rglob("*.toml"), *paths.images().rglob("*/*")):
            if file.is_file():
                assert release.content(file.read_bytes()) == file.read_bytes()


def test_names_are_replaced_and_prose_is_not(other: str) -> None:
    new = release.now()
    assert (release.text("exec php-fpm8.2 --nodaemonize"), new.suite) == (
        f"exec php-fpm{new.php} --nodaemonize",
        other,
    )
    assert release.text("apt-get install php8.2-fpm") == f"apt-get install php{new.php}-fpm"
    assert release.text("/etc/php/8.2/fpm/x.conf") == f"/etc/php/{new.php}/fpm/x.conf"
    assert release.text("openjdk-17-jdk-headless") == f"openjdk-{new.java}-jdk-headless"
    for prose in ("since PHP 8.2 it is -1", "| nginx 1.22.1, PHP 8.2 | 17 MB |", "17 of 8.2"):
        assert release.text(prose) == prose
    assert release.content(b"\xffphp8.2-fpm") == b"\xffphp8.2-fpm"  # no text


def test_nothing_that_reaches_a_stack_has_a_version_of_another_release(other: str) -> None:
    """A new way to write one would otherwise be found when its lab is started."""
    new = release.now()
    allowed = {("php-fpm", new.php), ("php", new.php), ("openjdk", new.java)}
    assert allowed <= versions(read(paths.images()))
    for name in images.names():
        assert versions(read(images.folder(name))) <= allowed, name
        assert versions(" ".join(dockerfile.read(name).command)) <= allowed, name
    for lab_id in labs.ours():
        lab = labs.load(lab_id)
        steps = " ".join(repair.model_dump_json() for repair in labs.repairs(lab))
        told = f"{lab.model_dump_json()} {lab.ticket} {lab.lesson} {lab.services.services} {steps}"
        assert versions(told) <= allowed, lab_id
    its = collection.ours()
    for decoy_id in decoys.ids(its):
        assert versions(decoys.read(its, decoy_id).model_dump_json()) <= allowed, decoy_id
    for name in tool.ids():
        assert versions(tool.load(name).model_dump_json()) <= allowed, name
    for file in [*paths.checks().glob("*.py"), *(REPO / "faultlab").rglob("*.py")]:
        written = set() if file.name == "release.py" else versions(file.read_text())
        assert not written, f"{file}: it is not replaced in a program"


def test_no_file_is_written_for_another_release() -> None:
    """With the usual one its names would be wrong, and nothing replaces them."""
    usual = release.WRITTEN_FOR
    allowed = {("php-fpm", usual.php), ("php", usual.php), ("openjdk", usual.java)}
    for part in ("labs", "images", "tools", "decoys"):
        assert versions(read(REPO / part)) <= allowed, part


def of_all() -> dict[str, str]:
    empty()
    found = {name: images.tag(name) for name in images.names()}
    for lab_id in labs.ours():
        lab = labs.load(lab_id)
        found |= {f"walk {lab_id}": digest.walk(lab_id), f"fault {lab_id}": digest.fault(lab)}
    for name in tool.ids():
        found |= {f"tool {name}": images.tag(tool.load(name).image)}
    decoy = labs.decoy(collection.ours(), decoys.ids(collection.ours())[0])
    return found | {"decoy": digest.decoy(decoy, labs.load("mtu"))}


def test_two_releases_share_no_image_and_no_digest(
    other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both sets of images can be on one machine, and no walk counts for the other release."""
    new = of_all()
    monkeypatch.delenv(release.VARIABLE)
    old = of_all()
    assert old.keys() == new.keys()
    assert [name for name in old if old[name] == new[name]] == []


def test_an_image_gets_its_files_as_its_tag_counts_them(
    other: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "Dockerfile").write_text("FROM x\nRUN apt-get install php8.2-fpm\n")
    (tmp_path / "run").write_text("exec php-fpm8.2\n")
    (tmp_path / "run").chmod(0o755)
    with tempfile.TemporaryFile() as file:
        build.pack(tmp_path, file, release.content)
        with tarfile.open(fileobj=file) as archive:
            text = cast(Any, archive.extractfile("./run")).read().decode()
    assert text == f"exec php-fpm{release.now().php}\n"
    fitted, tag = packed(tmp_path), images.tag(str(tmp_path))
    assert fitted == {".": 0o755, "Dockerfile": 0o644, "run": 0o755}
    (tmp_path / "run").write_text(text)  # as if it were written for the other one
    images.tag.cache_clear()
    assert images.tag(str(tmp_path)) == tag


class Registry:
    """A Docker with a registry, of which only the calls are known."""

    def __init__(self) -> None:
        self.pulled: list[str] = []
        self.tagged: list[tuple[str, ...]] = []
        self.client = SimpleNamespace(images=self)

    def pull(self, name: str) -> SimpleNamespace:
        self.pulled.append(name)
        return SimpleNamespace(tag=lambda *words: self.tagged.append(words))


def test_base_is_made_of_the_chosen_release(other: str) -> None:
    registry = Registry()
    build._build_base(cast(Docker, registry), lambda _: None)
    assert registry.pulled == [release.RELEASES[other].pinned]
    assert registry.tagged == [(f"faultlab/{other}", "latest")]
    pinned = {each.pinned for each in release.RELEASES.values()}
    assert len(pinned) == len(release.RELEASES)


@pytest.mark.parametrize("words", [("list",), ("start", "mtu"), ("images",), ("status",)])
def test_a_release_that_is_not_known(
    words: tuple[str, ...], faultlab: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(release.VARIABLE, "buster")
    problem = "FAULTLAB_RELEASE: expected one of bookworm, trixie, got 'buster'."
    assert faultlab(*words) == said(problem, "export FAULTLAB_RELEASE=bookworm")
    assert faultlab(words[0], "--help").code == 0


def test_a_user_is_told_which_one_is_used(
    other: str, faultlab: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = f"The stack is made of {release.RELEASES[other].title}'s packages."
    assert line in faultlab("list").out.splitlines()
    monkeypatch.delenv(release.VARIABLE)
    empty()
    assert "The stack is made of Debian 12 (bookworm)'s packages." in faultlab("list").out


def test_doctor_and_the_record_say_it(other: str) -> None:
    from tests.unit.fake import FakeEngine

    facts = {fact.name: fact.text for fact in preflight.ready(FakeEngine())}
    assert facts["release"] == release.RELEASES[other].title
    told = runs._context(FakeEngine(), labs.load("mtu"), FakeEngine().facts(), "")
    assert told["release"] == other
    assert told["images"] == {"machine": images.tag("machine"), **told["images"]}


def test_a_stack_of_another_release_is_left_alone(other: str, tmp_path: Path) -> None:
    """Its paths are others: a fix would edit a file that is not there."""
    facts = {"schema": 2, "lab": "mtu", "events": []}
    Record(tmp_path, {**facts, "release": other}).refuse_other_release()
    for its in ({"release": "bookworm"}, {}):  # older records do not say it
        with pytest.raises(CannotRun, match=f"up on bookworm, and {other} is chosen") as caught:
            Record(tmp_path, {**facts, **its}).refuse_other_release()
        assert caught.value.hint == "export FAULTLAB_RELEASE=bookworm"


@pytest.mark.parametrize("words", [("docs",), ("transcript", "mtu"), ("lint", ".", "--write")])
def test_no_file_is_rewritten_for_another_release(
    words: tuple[str, ...], other: str, faultlab: Run
) -> None:
    found = faultlab(*words)
    assert found.code == 2 and "writes files that are for Debian 12 (bookworm)." in found.err
    assert "next: FAULTLAB_RELEASE=bookworm faultlab" in found.err


def test_a_task_on_a_cluster_gets_it(other: str) -> None:
    env = {each["name"]: each.get("value") for each in jobspec._container("b", "n")["env"]}
    assert env["FAULTLAB_RELEASE"] == other


def test_a_mistake_in_the_release_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(release.VARIABLE, "Bookworm")
    empty()
    with pytest.raises(BadInput, match="got 'Bookworm'"):
        labs.load("mtu")
    with pytest.raises(BadInput):
        images.tag("machine")
    assert document.readable(REPO / "labs/mtu/lab.toml")  # facts without a name need no release
