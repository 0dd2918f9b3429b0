"""Build: make the container images that are missing, from Debian packages.

`base` comes from a registry when one answers, else from mmdebstrap.
"""

from __future__ import annotations

import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Collection
from pathlib import Path
from typing import IO, TYPE_CHECKING

from faultlab.core import lock
from faultlab.core.errors import CannotRun
from faultlab.core.later import Later
from faultlab.engine.docker import Engine
from faultlab.lab.images import BASE, LABEL, folder, mode, names, short, tag

if TYPE_CHECKING:
    import docker
    import requests
else:
    docker = Later("docker")
    requests = Later("requests")

Say = Callable[[str], None]

_SUITE = "bookworm"
# On SIGTERM mmdebstrap removes its temporary folder; on SIGKILL it could not.
_STOP_WITH_US = ("setpriv", "--pdeathsig", "TERM", "--")


def missing(engine: Engine, wanted: Collection[str] | None = None) -> list[str]:
    """Those of the wanted images (all) that the engine lacks, in the order to build them.

    `base` is only there to build the others from.
    """
    wanted = [BASE, *(names() if wanted is None else wanted)]
    with engine.errors():
        have = {t for image in engine.client.images.list(name="faultlab/*") for t in image.tags}
    own = [name for name in wanted if Path(name).is_absolute()]
    lacking = [name for name in [*names(), *own] if name in wanted and tag(name) not in have]
    return lacking if lacking != [BASE] else []


def ensure_images(engine: Engine, say: Say, wanted: Collection[str] | None = None) -> None:
    """Build those of these images (all) that are missing; two commands at once build them once."""
    lacking = missing(engine, wanted)
    if not lacking:
        return
    if engine.kernel is not None:
        raise CannotRun(f"The lab VM has no current image of {', '.join(lacking)}.", "make vm")
    with lock.hold("images", "images", wait=True):
        for name in missing(engine, wanted):
            build(engine, name, lambda line, name=name: say(f"image {name}: {line}"))  # type: ignore[misc]


def build(engine: Engine, name: str, say: Say) -> None:
    """Make one image; `say` gets a line for each step. Raises CannotRun with the step's error."""
    if name == BASE:
        _build_base(engine, say)
    _build(engine, name, say)


def _base_source() -> str:
    return f"faultlab/{_SUITE}:latest"


def _build_base(engine: Engine, say: Say) -> None:
    """Bring a bare Debian under `faultlab/bookworm`: pulled when a registry answers, else made."""
    repository, version = _base_source().split(":")
    say("asking the registry for debian:bookworm-slim")
    try:
        image = engine.client.images.pull("debian", tag=f"{_SUITE}-slim")
        image.tag(repository, version)
        return
    except (docker.errors.DockerException, requests.exceptions.RequestException):
        say("no registry answers: making it from Debian packages")
    if shutil.which("mmdebstrap") is None:
        raise CannotRun("No registry answers and mmdebstrap is not installed.", "make setup")
    make = subprocess.Popen(
        [*_STOP_WITH_US, "mmdebstrap", "--quiet", "--variant=minbase", _SUITE, "-"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert make.stdout is not None and make.stderr is not None
    try:
        with engine.errors():
            engine.client.api.import_image_from_stream(make.stdout, repository, version)
    except BaseException:
        make.terminate()
        make.wait()
        raise
    errors = make.stderr.read().decode(errors="replace").strip()
    if make.wait() != 0:
        raise CannotRun(
            f"mmdebstrap failed: {errors.splitlines()[-1] if errors else 'no reason given'}",
            f"mmdebstrap --variant=minbase {_SUITE} /dev/null",
        )


def _entry(found: tarfile.TarInfo) -> tarfile.TarInfo:
    """Return a file's head, the same whoever checked it out."""
    found.mode = mode(found.mode)
    found.uid = found.gid = 0
    found.uname = found.gname = "root"
    return found


def pack(folder: Path, into: IO[bytes]) -> None:
    """The folder as a tar file; of a link what it points to, so that two tools can share a file."""
    with tarfile.open(fileobj=into, mode="w", dereference=True) as archive:
        archive.add(folder, arcname=".", filter=_entry)
    into.seek(0)


def _build(engine: Engine, name: str, say: Say) -> None:
    base = _base_source() if name == BASE else tag(BASE)
    with engine.errors(), tempfile.TemporaryFile() as context:
        pack(folder(name), context)
        stream = engine.client.api.build(
            fileobj=context,
            custom_context=True,
            tag=tag(name),
            buildargs={"BASE": base},
            labels={LABEL: short(name)},
            network_mode="default",
            rm=True,
            forcerm=True,
            decode=True,
        )
        last = ""
        for event in stream:
            if "error" in event:
                detail = last or str(event["error"]).strip()
                raise CannotRun(f"Building the image {name} failed: {detail}", "faultlab doctor")
            text = str(event.get("stream") or event.get("status") or "").strip()
            if text:
                last = text.splitlines()[-1]
                say(last)
