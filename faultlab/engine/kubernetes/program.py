"""Program: the image of faultlab itself, which a cluster runs as Jobs.

Docker builds it from the files of this installation, and from the packages of the lock file.
"""

import hashlib
import platform
import shutil
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from faultlab.core import paths, scratch
from faultlab.core.command import stream
from faultlab.engine.contract import Say
from faultlab.engine.docker.build import build_folder
from faultlab.engine.docker.connection import Docker
from faultlab.lab import release
from faultlab.lab.collection import FILE
from faultlab.lab.images import BASE, tag

NAME = "program"
_PACKAGE = Path(__file__).parents[2]
_PARTS = ("labs", "checks", "images", "tools")
_PLATFORMS = ("manylinux_2_28", "manylinux_2_17", "manylinux2014")


def its_tag() -> str:
    """Return `faultlab/program:<digest of its sources>`."""
    return f"faultlab/{NAME}:{_digest()}"


@cache
def _digest() -> str:
    digest = hashlib.sha256(tag(BASE).encode())
    for name, file in sorted(_sources()):
        digest.update(f"{name}\n".encode() + file.read_bytes())
    return digest.hexdigest()[:12]


def _sources() -> Iterator[tuple[str, Path]]:
    """Yield each file of the image that is ours, by its path there."""
    yield "Dockerfile", Path(__file__).with_name("program.Dockerfile")
    yield "lock.txt", paths.root() / "setup/lock/cluster.txt"
    yield f"project/{FILE}", paths.root() / FILE
    trees = {"faultlab": _PACKAGE, **{part: paths.root() / part for part in _PARTS}}
    for name, tree in trees.items():
        for file in tree.rglob("*"):
            inside = file.relative_to(tree)
            ours = "__pycache__" not in inside.parts and not inside.is_relative_to(paths.SHARE)
            if ours and file.is_file():
                yield f"project/{name}/{inside}", file


def ensure(on: Docker, say: Say) -> None:
    """Build the image with Docker here, on that of `base`. Raises CannotRun."""
    with on.errors():
        if on.client.images.list(its_tag()):
            return
    with scratch.folder() as folder:
        for inside, file in _sources():
            target = folder / inside
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)
        _install(folder, say)
        build_folder(on, folder, NAME, its_tag(), say, base=tag(BASE), network="default")
    with on.errors():  # each change of a file makes another image
        for image in on.client.images.list(f"faultlab/{NAME}"):
            for old in {*image.tags} - {its_tag()}:
                on.client.images.remove(old)


def _install(folder: Path, say: Say) -> None:
    """Put the packages for the image's Python in a folder; this Python can be another one."""
    machine, python = platform.machine(), release.now().python
    words = [word for each in _PLATFORMS for word in ("--platform", f"{each}_{machine}")]
    stream(
        [
            *(sys.executable, "-m", "pip", "install", "--progress-bar", "off", "--no-deps"),
            *("--only-binary", ":all:", "--require-hashes", "--python-version", python, *words),
            *("--no-compile", "--target", str(folder / "packages")),
            *("--requirement", str(folder / "lock.txt")),
        ],
        say,
    )
