"""Engine: where stacks run. `local` is the Docker Engine that this user's `docker` talks to.

Verbs: containers, exec (through Machine.run), restart, limit, remove. Everything above works with
a Machine and does not know which engine it is on.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from faultlab.core.command import uninterrupted
from faultlab.core.errors import BadInput, CannotRun
from faultlab.core.later import Later
from faultlab.engine.exec import answer, both, cut_off_after
from faultlab.engine.shell import Done, Shell

if TYPE_CHECKING:
    import docker
    import requests
    from docker.models.containers import Container
else:  # they take 0.1 s, and much that knows an Engine never talks to one
    docker = Later("docker")
    requests = Later("requests")

STACK_LABEL = "faultlab.stack"
LAB_LABEL = "faultlab.lab"
RUN_LABEL = "faultlab.run"

_SOCKET = "unix:///var/run/docker.sock"
_GRACE = 5.0  # seconds beyond its time in which a command must have ended
# Times that a command may take in the VM: without KVM to open and close 200 connections takes 20 s.
_SLOWER = 2.0


@contextmanager
def docker_errors(unreachable: Callable[[BaseException], CannotRun]) -> Iterator[None]:
    """Turn what the Docker SDK raises into one line with the next command to type."""
    try:
        yield
    except docker.errors.NotFound as error:
        raise CannotRun(
            f"It is gone from Docker: {error.explanation or error}", "faultlab status"
        ) from error
    except docker.errors.APIError as error:
        text = str(error.explanation or error).strip().splitlines()[0]
        hint = "df -h" if "no space left" in text else "faultlab doctor"
        raise CannotRun(f"Docker refused: {text}", hint) from error
    except (docker.errors.DockerException, requests.exceptions.RequestException, OSError) as error:
        raise unreachable(error) from error


def _unreachable(error: BaseException) -> CannotRun:
    try:
        where = docker_url()
    except docker.errors.DockerException as broken:
        return CannotRun(f"Docker's configuration is broken: {broken}", "docker context ls")
    text = repr(error)
    if "PermissionError" in text or "Permission denied" in text:
        return CannotRun(
            f"No permission on Docker's socket ({where}).",
            'sudo usermod -aG docker "$USER", then log in again',
        )
    if "No space left" in text:
        return CannotRun("The disk is full.", "df -h")
    if "Read timed out" in text:
        return CannotRun(f"Docker did not answer in time on {where}.", "docker ps")
    return CannotRun(f"Docker does not answer on {where}.", "make setup")


def docker_url() -> str:
    """The Engine that the `docker` command talks to: DOCKER_HOST, else its current context."""
    if os.environ.get("DOCKER_HOST"):
        return os.environ["DOCKER_HOST"]
    from docker.context import ContextAPI

    context = ContextAPI.get_current_context()
    return (context and context.Host) or _SOCKET


class Machine(Shell):
    """A container of a stack: a machine, or a daemon that has joined one. Probes run in it."""

    def __init__(self, name: str, container: Container, engine: Engine) -> None:
        self.name = name
        self.container = container
        self.engine = engine

    @property
    def container_name(self) -> str:
        """The name that `docker exec` and `docker restart` take."""
        return str(self.container.name)

    def run(self, command: str, timeout: float = 30) -> Done:
        """Run a shell command as root in the container, and wait for its end."""
        if self.engine.kernel is not None:
            timeout *= _SLOWER
        api = self.container.client.api  # type: ignore[union-attr]
        argv = ["timeout", "-k", "1", str(timeout), "sh", "-c", command]
        started = time.monotonic()
        try:
            with self.engine.errors():
                exec_id = api.exec_create(self.container.id, argv)["Id"]
                line = api.exec_start(exec_id, socket=True)
                with cut_off_after(line, timeout + _GRACE):
                    out, err = both(answer(line))
                code = api.exec_inspect(exec_id)["ExitCode"]
        except CannotRun as problem:
            if "is not running" in problem.message or "is gone" in problem.message:
                raise CannotRun(
                    f"{self.name} is not running any more ({self.container_name}).",
                    "faultlab status",
                ) from problem
            raise
        seconds = time.monotonic() - started
        # None: cut off. Docker 20.10 never ends the answer of a command whose container restarts.
        if code in (124, 137, None) and seconds >= timeout:
            raise CannotRun(
                f"On {self.name} this did not end within {timeout:g} s: {command}",
                "faultlab status",
            )
        return Done(
            command,
            -1 if code is None else int(code),
            out.decode(errors="replace"),
            err.decode(errors="replace"),
            seconds,
        )

    @property
    def state(self) -> dict[str, Any]:
        """Docker's State of the container, read now (Running, ExitCode, OOMKilled, …)."""
        with self.engine.errors():
            self.container.reload()
        state: dict[str, Any] = self.container.attrs["State"]
        return state

    def last_log_line(self) -> str:
        """What the daemon said last, as `docker logs` shows it."""
        with self.engine.errors():
            return bytes(self.container.logs(tail=1)).decode(errors="replace").strip()

    def restart(self) -> None:
        """Stop and start the container; the machine it has joined keeps its settings."""
        with self.engine.errors():
            self.container.restart(timeout=5)

    def limit(self, cpus: float | None, memory: str | None) -> None:
        """Change the limits of the running container, as `docker update` does."""
        from docker.utils import parse_bytes

        change: dict[str, Any] = {}
        if cpus is not None:
            change["NanoCpus"] = int(cpus * 1e9)
        if memory is not None:
            change["Memory"] = change["MemorySwap"] = parse_bytes(memory)
        # The SDK sets a quota and a period instead, after which `docker update --cpus` is refused.
        api: Any = self.container.client.api  # type: ignore[union-attr]
        with self.engine.errors():
            url = api._url("/containers/{0}/update", self.container.id)
            api._raise_for_status(api._post_json(url, data=change))


class Engine:
    """The Docker Engine that runs the stacks.

    `kernel`: a shell on the kernel below it where that kernel may be changed, in a VM; else None.
    """

    name = "local"
    kernel: Shell | None = None
    guest = ""  # the name of the VM that it runs in

    def __init__(self, url: str | None = None) -> None:
        with self.errors():
            url = url or docker_url()
            # The SDK keeps connections by URL and closes those of the oldest when there are too
            # many, also under a thread that is using them.
            self.client = docker.DockerClient(
                base_url=url, timeout=120, num_pools=200, max_pool_size=64
            )
            self.client.ping()
        self.env = {"DOCKER_HOST": url}  # for docker's and Compose's own command lines

    def errors(self) -> AbstractContextManager[None]:
        """Around every use of the client: what it raises becomes one line."""
        return docker_errors(self.unreachable)

    def unreachable(self, error: BaseException) -> CannotRun:
        """What to say when this Docker does not answer."""
        return _unreachable(error)

    def info(self) -> dict[str, Any]:
        """What Docker says of itself: versions, kernel, cgroup version, storage driver."""
        with self.errors():
            info: dict[str, Any] = self.client.info()
        return info

    def containers(self, **labels: str) -> list[Container]:
        """Our containers, running or not, that carry these labels (`stack=…`, `lab=…`)."""
        with self.errors():
            found: list[Container] = self.client.containers.list(
                all=True, filters={"label": _filters(labels)}, ignore_removed=True
            )
        return found

    def networks(self, **labels: str) -> list[Any]:
        """Our networks with these labels."""
        with self.errors():
            return list(self.client.networks.list(filters={"label": _filters(labels)}))

    def volumes(self, **labels: str) -> list[Any]:
        """Our volumes with these labels."""
        with self.errors():
            return list(self.client.volumes.list(filters={"label": _filters(labels)}))

    def helper(self, image: str, script: str, stack: str, **options: Any) -> str:
        """Run a one-shot container without a network, labelled as ours, and return its output."""
        with self.errors():
            try:
                out: bytes = self.client.containers.run(
                    image,
                    ["sh", "-ec", script],
                    network_mode="none",
                    labels={STACK_LABEL: stack},
                    remove=True,
                    stderr=True,
                    **options,
                )
            except docker.errors.ContainerError as error:
                text = str(error).splitlines()[-1]
                raise CannotRun(
                    f"A helper container failed: {text or error}", "faultlab doctor"
                ) from error
        return out.decode(errors="replace")

    @contextmanager
    def companion(self, image: str, stack: str, seconds: int, **options: Any) -> Iterator[Machine]:
        """A helper container that stays while the body runs commands in it.

        Docker itself ends and removes it after so many seconds, should we be killed before.
        """
        with self._beside(image, ["sleep", str(seconds)], stack, **options) as container:
            yield Machine("a helper container", container, self)

    @contextmanager
    def speaker(
        self, image: str, command: list[str], stack: str, **options: Any
    ) -> Iterator[Iterator[str]]:
        """A helper container that says something line by line while the body runs."""
        with self._beside(image, command, stack, **options) as container:
            with self.errors():
                said = container.attach(stream=True, logs=True, stderr=False)
            yield _lines(said)

    @contextmanager
    def _beside(
        self, image: str, command: list[str], stack: str, **options: Any
    ) -> Iterator[Container]:
        with self.errors():
            container = self.client.containers.run(
                image,
                command,
                labels={STACK_LABEL: stack},
                auto_remove=True,
                detach=True,
                **{"network_mode": "none", **options},
            )
        try:
            yield container
        finally:
            with self.errors(), uninterrupted(), suppress(docker.errors.APIError):
                container.remove(force=True)


def _lines(chunks: Iterable[bytes]) -> Iterator[str]:
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (line.decode(errors="replace") for line in whole)


def _filters(labels: dict[str, str]) -> list[str]:
    unknown = set(labels) - {"stack", "lab", "run"}
    if unknown:
        raise BadInput(f"No such label: {', '.join(sorted(unknown))}")
    return [STACK_LABEL, *(f"faultlab.{key}={value}" for key, value in labels.items())]
