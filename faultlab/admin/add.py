"""Add: take over a collection of labs from a Git repository, at a commit that is named."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from faultlab.core import paths, scratch
from faultlab.core.command import run
from faultlab.core.errors import BadInput, CannotRun
from faultlab.core.terminal import Terminal
from faultlab.lab import collection
from faultlab.lab import loader as labs
from faultlab.lab.collection import Collection

_COMMIT = re.compile(r"[0-9a-f]{7,40}")
_SECONDS = 600  # for a clone
# A repository that is cloned runs nothing of its own, and asks for no password.
_GIT = ("git", "-c", "core.hooksPath=/dev/null", "-c", "protocol.ext.allow=never")
_SILENT = {"GIT_TERMINAL_PROMPT": "0", "GIT_LFS_SKIP_SMUDGE": "1"}


@dataclass(frozen=True)
class Code:
    """The code of a collection, by the rights that it gets.

    `python`: runs as the user, on this machine. `dockerfiles`: run as root while an image is built,
    with the network. `commands`: of each lab, how many run as root in its containers.
    """

    python: list[str]
    dockerfiles: list[str]
    commands: dict[str, int]


@dataclass(frozen=True)
class Added:
    """A collection that was added: its folder, commit and labs, and the code in it."""

    name: str
    commit: str
    folder: str
    labs: list[str]
    code: Code


def add(term: Terminal, source: str, yes: bool) -> Added:
    """Clone a collection, show its code, ask, and keep it. Raises BadInput, CannotRun.

    `source`: `URL@COMMIT`; the URL can be a folder or a bundle of Git. `yes`: do not ask.
    """
    url, _, commit = source.rpartition("@")
    if not url or url.startswith("-") or not _COMMIT.fullmatch(commit):
        what = f"expected URL@COMMIT, with 7 to 40 digits of a commit, got {source!r}."
        raise BadInput(what, f"git ls-remote {url or source}")
    if "://" not in url and Path(url).exists():
        url = str(Path(url).absolute())
    with _cloned(term, url, commit) as root:
        its = collection.read(root)
        _refuse_links(root)
        _refuse_twice(its)
        code = code_of(its)
        whole = _says(root, "rev-parse", "HEAD")
        _show(term, its, code, whole)
        _ask(its, source, yes)
        folder = collection.added() / its.name
        root.rename(folder)
    ids = sorted(collection.read(folder).ids())
    term.say(f"{its.name} is added; labs in it: {len(ids)}. Next: faultlab list")
    return Added(its.name, whole, str(folder), ids, code)


@contextmanager
def _cloned(term: Terminal, url: str, commit: str) -> Iterator[Path]:
    """Yield the folder of a clone at this commit, which is removed unless it was renamed."""
    try:
        collection.added().mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise paths.unwritable(collection.added(), error) from error
    with scratch.folder(".new-", collection.added()) as root:
        with term.step("clone", url) as step:
            clone = [*_GIT, "clone", "-q", "--no-checkout", "--", url, str(root)]
            _must(clone, f"{url} cannot be cloned", f"git ls-remote {url}")
            # The name of a branch can look like a commit, and this is none.
            _says(root, "rev-parse", "--verify", f"{commit}^{{commit}}")
            out = [*_GIT, "-C", str(root), "checkout", "-q", "--detach", commit, "--"]
            _must(out, f"{url} has no commit {commit}", f"git ls-remote {url}")
            step.done(commit)
        if not _says(root, "rev-parse", "HEAD").startswith(commit):
            raise BadInput(f"{commit} is the name of a branch or tag.", f"git ls-remote {url}")
        root.chmod(0o755)
        yield root


def _must(command: list[str], what: str, hint: str) -> str:
    done = run(command, timeout=_SECONDS, env=_SILENT)
    if done.returncode != 0:
        tail = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise CannotRun(f"{what}: {tail}", hint)
    return done.stdout.strip()


def _says(root: Path, *words: str) -> str:
    command = [*_GIT, "-C", str(root), *words]
    return _must(command, f"git says nothing of {words[-1]}", "git log")


def _refuse_links(root: Path) -> None:
    """Refuse links out of the folder: they would bring any file into an image or onto a page."""
    for file in root.rglob("*"):
        if file.is_symlink() and not file.resolve().is_relative_to(root.resolve()):
            what = f"{file.relative_to(root)} is a link to a place outside the collection."
            raise BadInput(what, "tell its author")


def _refuse_twice(its: Collection) -> None:
    for other in collection.every():
        if other.name == its.name:
            ours = other.root.parent == collection.added()
            what = f"There is a collection {its.name!r} already, in {other.root}."
            raise BadInput(what, f"rm -r {other.root}" if ours else f"env {collection.PATH}=")


def code_of(its: Collection) -> Code:
    """Return the code of a collection, without running any. Raises BadInput for a broken lab."""

    def named(pattern: str) -> list[str]:
        found = (file.relative_to(its.root) for file in its.root.rglob(pattern))
        return sorted(str(file) for file in found if ".git" not in file.parts)

    every = [labs.load_in(its, lab_id) for lab_id in its.ids()]
    commands = {lab.id: sum(step.run is not None for _, step in lab.steps()) for lab in every}
    return Code(named("*.py"), named("Dockerfile"), commands)


def _show(term: Terminal, its: Collection, code: Code, commit: str) -> None:
    term.say(f"{its.name}, commit {commit}")
    term.heading("Python that runs with your rights, on this machine")
    term.points(code.python or ["none"])
    term.heading("Images that are built as root in a container, with the network")
    term.points(code.dockerfiles or ["none"])
    term.heading("Commands that run as root in the containers of a lab")
    term.points(f"labs/{collection.bare(lab)}/lab.toml: {n}" for lab, n in code.commands.items())


def _ask(its: Collection, source: str, yes: bool) -> None:
    """Ask the person at the terminal. Raises CannotRun for a no, or if no person is there."""
    if yes:
        return
    again = f"faultlab add {source} --yes"
    if not sys.stdin.isatty():
        raise CannotRun(f"{its.name} was not added: there is no terminal to ask you in.", again)
    sys.stderr.write(f"Do you trust this code, and add {its.name}? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise CannotRun(f"{its.name} was not added.", again)
