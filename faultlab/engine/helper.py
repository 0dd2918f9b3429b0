"""Helper containers beside a stack: they carry its label and go with it, or end by themselves."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from faultlab.core.command import uninterrupted
from faultlab.core.errors import CannotRun
from faultlab.core.later import Later
from faultlab.engine.contract import Part
from faultlab.engine.docker import STACK_LABEL, Docker

if TYPE_CHECKING:
    import docker
    from docker.models.containers import Container
else:
    docker = Later("docker")

UNCONFINED = ["apparmor=unconfined"]
_HELPER = {"auto_remove": True, "network_mode": "none"}


def having(rights: Sequence[str]) -> dict[str, Any]:
    """Return the options of a container that has these capabilities; none for no capability."""
    return {"cap_add": list(rights), "security_opt": UNCONFINED} if rights else {}


def once(on: Docker, image: str, script: str, stack: str, **options: Any) -> str:
    """Run a script in a container, and return its output. Raises CannotRun."""
    with on.errors():
        try:
            out: bytes = on.client.containers.run(
                image,
                ["sh", "-ec", script],
                entrypoint=[],
                labels={STACK_LABEL: stack},
                remove=True,
                stderr=True,
                **{"network_mode": "none", **options},
            )
        except docker.errors.ContainerError as error:
            text = str(error).splitlines()[-1]
            raise CannotRun(
                f"A helper container failed: {text or error}", "faultlab doctor"
            ) from error
    return out.decode(errors="replace")


@contextmanager
def _made(
    on: Docker, image: str, command: Sequence[str], stack: str, **options: Any
) -> Iterator[Container]:
    """Make a container that is not started yet, and remove it when the body has ended."""
    with on.errors():
        container = on.client.containers.create(
            image, list(command), labels={STACK_LABEL: stack}, **options
        )
    try:
        yield container
    finally:
        with on.errors(), uninterrupted(), suppress(docker.errors.APIError):
            container.remove(force=True)


@contextmanager
def running(
    on: Docker, image: str, command: Sequence[str], stack: str, **options: Any
) -> Iterator[Container]:
    """Keep a helper container while the body runs."""
    with _made(on, image, command, stack, **{**_HELPER, **options}) as container:
        with on.errors():
            container.start()
        yield container


@contextmanager
def lines(
    on: Docker, image: str, command: Sequence[str], stack: str, **options: Any
) -> Iterator[Iterator[str]]:
    """Run a program in a helper container and yield its lines while the body runs."""
    with _made(on, image, command, stack, **{**_HELPER, **options}) as container:
        with on.errors():
            printed = container.attach(stream=True, stderr=False)
            container.start()
        yield _lines(printed)


def _lines(chunks: Iterable[bytes]) -> Iterator[str]:
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (line.decode(errors="replace") for line in whole)


class DockerProcess:
    """A program in a container of its own."""

    def __init__(
        self, on: Docker, container: Container, began: float, output: Iterator[Part]
    ) -> None:
        self.began = began
        self.output = output
        self._docker = on
        self._container = container

    def wait(self, seconds: float) -> int:
        """Return the exit code when the program has ended. Raises CannotRun."""
        with self._docker.errors():
            return int(self._container.wait(timeout=seconds)["StatusCode"])


@contextmanager
def process(
    on: Docker, image: str, command: Sequence[str], stack: str, files: bytes | None, **options: Any
) -> Iterator[DockerProcess]:
    """Run a program of others for as long as the body takes; nothing of it stays on the disk."""
    silent = docker.types.LogConfig(type="none")
    options |= {"entrypoint": [], "security_opt": UNCONFINED, "log_config": silent}
    with _made(on, image, command, stack, **options) as container:
        with on.errors():
            if files is not None:
                container.put_archive("/", files)
            output = container.attach(stream=True, demux=True)
            began = time.monotonic()
            container.start()
        yield DockerProcess(on, container, began, output)
