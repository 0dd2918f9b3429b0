"""Helper containers beside a stack: removed with it by its label, or ending by themselves."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from faultlab.core import naming, text
from faultlab.core.command import uninterrupted
from faultlab.core.errors import CannotRun
from faultlab.core.later import Later
from faultlab.core.naming import OWNER_LABEL, STACK_LABEL
from faultlab.engine.contract import Machine, Part, Program
from faultlab.engine.docker.connection import Docker, DockerEngine
from faultlab.engine.docker.container import DockerMachine
from faultlab.lab import images

if TYPE_CHECKING:
    from docker.models.containers import Container
docker: Any = Later("docker")

_PATIENCE = 30.0  # seconds, until Docker has removed a helper
_UNCONFINED = ["apparmor=unconfined"]
_HOST = {"network_mode": "host", "pid_mode": "host"}
_HELPER = {"auto_remove": True, "network_mode": "none"}


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


class WithHelpers(DockerEngine):
    """The part of a Docker engine that runs helpers and foreign programs."""

    def once(
        self,
        image: str,
        script: str,
        stack: str,
        rights: Sequence[str] = (),
        *,
        whole: bool = False,
        cgroups: bool = False,
    ) -> str:
        """Run a script in a container without a network, and return its output.

        `whole`: it has the processes and the network of the machine that Docker runs on. `cgroups`:
        it has that machine's cgroups in /cgroup.
        """
        volumes = {"/sys/fs/cgroup": {"bind": "/cgroup", "mode": "rw"}} if cgroups else {}
        options: dict[str, Any] = {"entrypoint": [], "volumes": volumes, **_having(rights)}
        options |= _HOST if whole else {"network_mode": "none"}
        # The output is read from the log, and Docker's own driver can be one without a log to read.
        kept = docker.types.LogConfig(type="json-file")
        words = ["sh", "-ec", script]
        with (
            self._made(image, words, stack, log_config=kept, **options) as container,
            self.errors(),
        ):
            container.start()
            code = container.wait()["StatusCode"]
            out = container.logs().decode(errors="replace")
        if code:
            last = (out.strip().splitlines() or [f"exit code {code}"])[-1]
            raise CannotRun(f"A helper container failed: {last}", "faultlab doctor")
        return out

    @contextmanager
    def sidecar(
        self, stack: str, seconds: int, *, whole: bool = False, rights: Sequence[str] = ()
    ) -> Iterator[Machine]:
        """Keep a helper container while the body runs commands in it.

        After `seconds` Docker itself ends and removes it, even if we were killed.
        """
        hidden = {"pid_mode": "host", "read_only": True, "tmpfs": {"/tmp": ""}}
        options = {**_HELPER, **(hidden if whole else {})}
        command = ["sleep", str(seconds)]
        with self._made("machine", command, stack, **options, **_having(rights)) as container:
            with self.errors():
                container.start()
            yield DockerMachine("a helper container", container, self)

    @contextmanager
    def lines(
        self, image: str, command: Sequence[str], inside: Machine, rights: Sequence[str] = ()
    ) -> Iterator[Iterator[str]]:
        """Run a program in a machine's namespaces and yield its lines while the body runs."""
        options = {**_HELPER, "network_mode": f"container:{inside.mark}", "cap_drop": ["ALL"]}
        options |= {"pid_mode": options["network_mode"], "cap_add": list(rights)}
        silent = docker.types.LogConfig(type="none")  # root on the machine could fill the disk
        options |= {"security_opt": _UNCONFINED, "log_config": silent}
        with ExitStack() as after, self._made(image, command, inside.stack, **options) as container:
            with self.errors():
                printed = container.attach(stream=True, stderr=False)
                after.callback(_close, printed)
                container.start()
            yield text.lines(printed)

    @contextmanager
    def process(self, program: Program) -> Iterator[DockerProcess]:
        """Run a foreign program while the body runs; nothing stays on the disk."""
        options: dict[str, Any] = {"network_mode": "none", "working_dir": program.folder}
        if inside := program.inside:
            home = f"container:{inside.mark}"
            files_of = [f"{inside.mark}:ro"]  # sockets in them can still be used
            options = {"network_mode": home, "pid_mode": home, "volumes_from": files_of}
        options |= {"cap_add": list(program.rights), "security_opt": _UNCONFINED, "entrypoint": []}
        options |= {"mem_limit": program.memory or None, "pids_limit": program.processes or None}
        options |= {"cpuset_cpus": program.cpus or None}
        silent = docker.types.LogConfig(type="none")
        made = self._made(
            program.image, program.command, program.stack, log_config=silent, **options
        )
        with ExitStack() as after, made as container:
            with self.errors():
                if program.files is not None:
                    container.put_archive("/", program.files)
                output = container.attach(stream=True, demux=True)
                after.callback(_close, output)
                began = time.monotonic()
                container.start()
            yield DockerProcess(self, container, began, output)

    @contextmanager
    def _made(
        self, image: str, command: Sequence[str], stack: str, **options: Any
    ) -> Iterator[Container]:
        """Create a container without starting it, and remove it when the body has ended."""
        labels = {STACK_LABEL: stack, OWNER_LABEL: naming.owner()}
        with self.errors():
            container = self.client.containers.create(
                images.tag(image), list(command), labels=labels, **options
            )
        try:
            yield container
        finally:
            with self.errors(), uninterrupted():
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
