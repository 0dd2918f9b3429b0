"""Helper containers beside a stack: removed with it by its label, or ending by themselves."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from faultlab.core import naming
from faultlab.core.command import uninterrupted
from faultlab.core.later import Later
from faultlab.core.naming import OWNER_LABEL, STACK_LABEL
from faultlab.engine.contract import Machine, Part, Program, output_of
from faultlab.engine.docker.connection import Docker, DockerEngine
from faultlab.engine.docker.container import DockerMachine
from faultlab.lab import images

if TYPE_CHECKING:
    from docker.models.containers import Container
docker: Any = Later("docker")

_PATIENCE = 30.0  # seconds, until Docker has removed a helper
_UNCONFINED = ["apparmor=unconfined"]
_HOST = {"network_mode": "host", "pid_mode": "host"}


@dataclass
class DockerProcess:
    """A program in a container of its own."""

    on: Docker
    container: Container
    began: float
    output: Iterator[Part]

    def wait(self, seconds: float) -> int:
        """Return the exit code when the program has ended. Raises CannotRun."""
        with self.on.errors():
            return int(self.container.wait(timeout=seconds)["StatusCode"])


class Helpers:
    """The helpers and foreign programs of a Docker engine."""

    def __init__(self, engine: DockerEngine) -> None:
        self._engine = engine

    def on_host(
        self, script: str, stack: str, rights: Sequence[str] = (), *, whole: bool = False
    ) -> str:
        """Run a script with the cgroups of Docker's machine in /cgroup; return its output.

        `whole`: it also has the processes and the network of that machine.
        """
        options: dict[str, Any] = {"entrypoint": [], **_having(rights)}
        options |= {"volumes": {"/sys/fs/cgroup": {"bind": "/cgroup", "mode": "rw"}}}
        options |= _HOST if whole else {"network_mode": "none"}
        with self._started("machine", ["sh", "-ec", script], stack, **options) as process:
            return output_of(process)

    @contextmanager
    def sidecar(
        self, stack: str, seconds: int, *, whole: bool, rights: Sequence[str], cpus: str = ""
    ) -> Iterator[Machine]:
        """Keep a helper container while the body runs commands in it.

        After `seconds` Docker itself ends and removes it, even if we were killed. `cpus`: those
        that it can use; empty for all.
        """
        hidden = {"pid_mode": "host", "read_only": True, "tmpfs": {"/tmp": ""}}
        options = {"auto_remove": True, "network_mode": "none", **(hidden if whole else {})}
        options |= {"cpuset_cpus": cpus or None}
        command = ["sleep", str(seconds)]
        with self._made("machine", command, stack, **options, **_having(rights)) as container:
            with self._engine.errors():
                container.start()
            yield DockerMachine("a helper container", container, self._engine)

    def process(self, program: Program) -> AbstractContextManager[DockerProcess]:
        """Run a program while the body runs; nothing stays on the disk."""
        options: dict[str, Any] = {"network_mode": "none", **_having(program.rights)}
        if inside := program.inside:
            home = f"container:{inside.mark}"
            options = {"network_mode": home, "pid_mode": home, "cap_add": list(program.rights)}
            options |= {"security_opt": _UNCONFINED}
            if program.ours:
                options |= {"cap_drop": ["ALL"], "auto_remove": True}
            else:
                options |= {"volumes_from": [f"{inside.mark}:ro"]}  # its sockets can still be used
        options |= {"entrypoint": [], "working_dir": program.folder}
        options |= {"mem_limit": program.memory or None, "pids_limit": program.processes or None}
        cpus = program.cpus or (inside.slot if inside else "")
        options |= {"cpuset_cpus": cpus or None}
        what = program.image, program.command, program.stack, program.files
        return self._started(*what, **options)

    @contextmanager
    def _started(
        self,
        image: str,
        command: Sequence[str],
        stack: str,
        files: bytes | None = None,
        **options: Any,
    ) -> Iterator[DockerProcess]:
        silent = docker.types.LogConfig(type="none")  # root on a machine could fill the disk
        made = self._made(image, command, stack, log_config=silent, **options)
        with ExitStack() as after, made as container:
            with self._engine.errors():
                if files is not None:
                    container.put_archive("/", files)
                output = container.attach(stream=True, demux=True)
                after.callback(_close, output)
                began = time.monotonic()
                container.start()
            yield DockerProcess(self._engine, container, began, output)

    @contextmanager
    def _made(
        self, image: str, command: Sequence[str], stack: str, **options: Any
    ) -> Iterator[Container]:
        """Create a container without starting it, and remove it when the body has ended."""
        labels = {STACK_LABEL: stack, OWNER_LABEL: naming.owner()}
        with self._engine.errors():
            container = self._engine.client.containers.create(
                images.tag(image), list(command), labels=labels, **options
            )
        try:
            yield container
        finally:
            with self._engine.errors(), uninterrupted():
                _remove(container)


def _remove(container: Container) -> None:
    """Remove a container. Docker can refuse while it ends or is being removed; try again."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            return container.remove(force=True)
        except docker.errors.NotFound:
            return None
        except docker.errors.APIError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _having(rights: Sequence[str]) -> dict[str, Any]:
    """Return the options of a container with these capabilities; empty for none."""
    return {"cap_add": list(rights), "security_opt": _UNCONFINED} if rights else {}


def _close(output: Any) -> None:
    """Close what `attach` opened. The SDK leaves its response open (docker/docker-py#3345).

    Python 3.13 and newer print a traceback about that when they end.
    """
    with suppress(OSError):  # it has ended
        output.close()  # so that no thread reads from it any more
    output._response.close()
