"""Build: make the missing container images from Debian packages.

`base` comes from a registry if one responds, else from mmdebstrap. From a registry it is the same
everywhere; mmdebstrap takes the newest packages of the day.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
import tempfile
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from faultlab.core import lock, paths
from faultlab.core.command import stream
from faultlab.core.errors import CannotRun
from faultlab.core.later import Later
from faultlab.core.text import colourless
from faultlab.engine.contract import Images, Say
from faultlab.engine.docker.connection import Docker
from faultlab.lab.images import BASE, LABEL, belongs, folder, mode, names, short, tag
from faultlab.lab.release import RELEASES, content, now

if TYPE_CHECKING:
    from _typeshed import SupportsRead

docker: Any = Later("docker")
requests: Any = Later("requests")
Fit = Callable[[bytes], bytes]

# While one image downloads its packages, another one unpacks its own.
_AT_ONCE = 3
# On SIGTERM mmdebstrap removes its temporary folder; on SIGKILL it cannot.
_STOP_WITH_US = ("setpriv", "--pdeathsig", "TERM", "--")


class DockerImages(Images):
    """The images of a Docker Engine."""

    def __init__(self, on: Docker) -> None:
        self._docker = on

    def missing(self, wanted: Collection[str] | None = None) -> list[str]:
        """Return the wanted images (default: all) that are missing, in build order.

        `base` exists only to build the others from.
        """
        wanted = [BASE, *(names() if wanted is None else wanted)]
        have = self._tags()
        every = dict.fromkeys([*names(), *wanted])
        lacking = [name for name in every if name in wanted and tag(name) not in have]
        return lacking if lacking != [BASE] else []

    def _tags(self) -> list[str]:
        with self._docker.errors():
            found = self._docker.client.images.list(name="faultlab/*")
        return [tag for image in found for tag in image.tags]

    def ensure(
        self, say: Say, wanted: Collection[str] | None = None, *, network: bool = False
    ) -> None:
        """Build what is missing; two commands at once build it once. Raises CannotRun.

        `network`: let the build of a folder outside this project use a network too.
        """
        if not self.missing(wanted):
            return
        with lock.hold("images", "images", wait=True):
            others = self.missing(wanted)
            if BASE in others:
                others.remove(BASE)
                self._build(BASE, _of(BASE, say), network)
            at_once([(name, _of(name, say)) for name in others], self._build, network)

    def _build(self, name: str, say: Say, network: bool) -> None:
        # A tool's folder is given by its path; a collection was trusted when it was added.
        ours = not Path(name).is_absolute() or folder(name).is_relative_to(paths.root())
        try:
            _build(self._docker, name, say, "default" if ours or network else "none")
        except CannotRun as problem:
            if not (ours or network):
                problem.hint = "if you trust its author, add --network to the command"
            raise

    def save(self, tags: Sequence[str], to: Path, note: Say) -> None:
        """Write images to a compressed archive. Raises CannotRun."""
        script = 'set -o pipefail; docker save "$@" | gzip -1 >"$0"'
        stream(["bash", "-c", script, str(to), *tags], note, self._docker.env)

    def remove(self) -> list[str]:
        """Remove all images of ours and return their tags."""
        have = self._tags()
        with self._docker.errors():
            for name in have:
                self._docker.client.images.remove(name, force=True)
            for made_from in RELEASES.values():
                # The name that Docker gave it when it was pulled; not if a container uses it.
                with suppress(docker.errors.APIError):
                    if made_from.base in have:
                        self._docker.client.images.remove(made_from.pinned)
        return have


def _of(name: str, say: Say) -> Say:
    """Return what says of which image a line is."""
    return lambda line: say(f"image {name}: {line}")


def at_once(
    builds: Sequence[tuple[str, Say]], build: Callable[[str, Say, bool], None], network: bool
) -> None:
    """Build several at a time. If one fails, or at Ctrl-C, the others end at their next line."""
    over, speaking = threading.Event(), threading.Lock()

    def one(name: str, say: Say) -> None:
        def heard(line: str) -> None:
            if over.is_set():
                raise CannotRun("The build was ended.", "make ready")
            with speaking:
                say(line)

        build(name, heard, network)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        running = [pool.submit(one, *its) for its in builds]
        try:
            for ended in as_completed(running):
                ended.result()
        except BaseException:
            over.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _build_base(on: Docker, say: Say) -> None:
    """Make a bare Debian, `faultlab/bookworm`: pull it if a registry responds, else build it."""
    release = now()
    repository, version = release.base.split(":")
    say(f"asking the registry for debian:{release.suite}-slim, by its digest")
    try:
        image = on.client.images.pull(release.pinned)
        image.tag(repository, version)
        return
    except (docker.errors.DockerException, requests.exceptions.RequestException) as error:
        why = (str(error).strip() or type(error).__name__).splitlines()[-1]
        say(f"it was not pulled: {why}")
        say("no registry responds: making it from Debian packages")
    if shutil.which("mmdebstrap") is None:
        raise CannotRun(
            f"No registry responds ({why}) and mmdebstrap is not installed.", "make setup"
        )
    make = subprocess.Popen(
        [*_STOP_WITH_US, "mmdebstrap", "--quiet", "--variant=minbase", release.suite, "-"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert make.stdout is not None and make.stderr is not None
    try:
        with on.errors():
            on.client.api.import_image_from_stream(make.stdout, repository, version)
    except BaseException:
        make.terminate()
        make.wait()
        raise
    errors = make.stderr.read().decode(errors="replace").strip()
    if make.wait() != 0:
        raise CannotRun(
            f"mmdebstrap failed: {errors.splitlines()[-1] if errors else 'no reason given'}",
            f"mmdebstrap --variant=minbase {release.suite} /dev/null",
        )


def _entry(found: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Return a file's tar header, the same in every checkout; None for what stays out."""
    if not belongs(Path(found.name)):
        return None
    found.mode = mode(found.mode)
    found.uid = found.gid = 0
    found.uname = found.gname = "root"
    return found


class _Archive(tarfile.TarFile):
    """A tar file whose files are fitted while they are added."""

    fit: Fit

    def addfile(self, tarinfo: tarfile.TarInfo, fileobj: SupportsRead[bytes] | None = None) -> None:
        """Add a file with its content fitted."""
        if fileobj is not None:
            found = self.fit(fileobj.read())
            tarinfo.size, fileobj = len(found), io.BytesIO(found)
        super().addfile(tarinfo, fileobj)


def pack(folder: Path, into: IO[bytes], fit: Fit = bytes) -> None:
    """Write the folder as a tar file. Links are followed, so that two tools can share a file.

    `fit`: returns the content of a file for the image.

    Raises CannotRun for a link out of the folder, or for a tool of ours out of the project. It
    would copy any file of this machine into the image.
    """
    within = paths.root() if folder.is_relative_to(paths.root()) else folder
    for file in folder.rglob("*"):
        if not file.resolve().is_relative_to(within.resolve()):
            raise CannotRun(f"{file} is a link to a place outside its folder.", f"ls -l {file}")
    with _Archive.open(fileobj=into, mode="w", dereference=True) as archive:
        archive.fit = fit
        archive.add(folder, arcname=".", filter=_entry)
    into.seek(0)


def _build(on: Docker, name: str, say: Say, network: str) -> None:
    """Build one image. Raises CannotRun.

    `network`: of its RUN lines; "none" for no network.
    """
    if name == BASE:
        _build_base(on, say)
    base = now().base if name == BASE else tag(BASE)
    source, how = folder(name), {"base": base, "network": network}
    build_folder(on, source, short(name), tag(name), say, fit=content, **how)


def build_folder(
    on: Docker,
    source: Path,
    name: str,
    its_tag: str,
    say: Say,
    *,
    base: str,
    network: str,
    fit: Fit = bytes,
) -> None:
    """Build the image of a folder; `say` gets each step. Raises CannotRun with the step's error.

    `fit`: as `pack` has it.
    """
    with tempfile.TemporaryFile() as context:
        pack(source, context, fit)
        with on.errors():
            stream = on.client.api.build(
                fileobj=context,
                custom_context=True,
                tag=its_tag,
                buildargs={"BASE": base},
                labels={LABEL: name},
                network_mode=network,
                rm=True,
                forcerm=True,
                decode=True,
            )
        last = of_apt = ""
        for event in _each(on, stream):
            if "error" in event:
                detail = of_apt or last or str(event["error"]).strip()
                raise CannotRun(f"Building the image {name} failed: {detail}", "faultlab doctor")
            text = colourless(str(event.get("stream") or event.get("status") or ""))
            if text and not text.startswith("Removing intermediate container"):
                lines = text.splitlines()
                last = lines[-1]
                if text.startswith("Step "):
                    of_apt = ""
                # The first error of apt is the reason, and others follow from it.
                of_apt = of_apt or next((line for line in lines if line.startswith("E: ")), "")
                say(last)


def _each(on: Docker, stream: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield what Docker streams. What the caller does with it raises no error of Docker's."""
    while True:
        with on.errors():
            try:
                event = next(stream)
            except StopIteration:
                return
        yield event
