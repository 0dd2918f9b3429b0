"""Docker: a connection to a Docker Engine, and our objects on it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from faultlab.core.errors import CannotRun
from faultlab.core.later import Later
from faultlab.core.naming import SLOT_LABEL, STACK_LABEL
from faultlab.engine.contract import Engine

if TYPE_CHECKING:
    import docker
    import requests
    from docker.models.containers import Container
else:  # importing takes 0.1 s, and many users of an Engine never talk to it
    docker = Later("docker")
    requests = Later("requests")

_SOCKET = "unix:///var/run/docker.sock"


_ID = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{52}\b")


def _brief(error: docker.errors.APIError) -> str:
    """Return an error of Docker in one line, with ids as short as in `docker ps`."""
    return _ID.sub(r"\1", str(error.explanation or error).strip().splitlines()[0])


def docker_url() -> str:
    """Return the Engine that the `docker` command uses: DOCKER_HOST, else its current context.

    Raises CannotRun for a context that does not exist.
    """
    if os.environ.get("DOCKER_HOST"):
        return os.environ["DOCKER_HOST"]
    from docker.context import ContextAPI

    if chosen := os.environ.get("DOCKER_CONTEXT"):  # the SDK does not read it
        context = ContextAPI.get_context(chosen)
        if context is None:
            raise CannotRun(f"Docker has no context {chosen}.", "docker context ls")
    else:
        context = ContextAPI.get_current_context()
    return (context and context.Host) or _SOCKET


def here(url: str) -> str:
    """Return the address of an Engine on this machine. Raises CannotRun for another machine.

    A verdict also needs readings from /proc of this machine.
    """
    if url.startswith(("tcp://", "http://", "https://", "ssh://")):
        raise CannotRun(
            f"This Docker may be on another machine ({url}). Labs run on this one only.",
            "docker context use default; unset DOCKER_HOST DOCKER_CONTEXT",
        )
    return url


class Docker:
    """A connection to one Docker Engine."""

    def __init__(self, url: str | None = None) -> None:
        self._named = url or ""
        with self.errors():
            url = url or docker_url()
            # The SDK keeps connections by URL. If there are too many it closes those of the oldest
            # URL, even while a thread is using them.
            self.client = docker.DockerClient(
                base_url=url, timeout=120, num_pools=200, max_pool_size=64
            )
            self.client.ping()
        self.env = {"DOCKER_HOST": url}  # for the command lines of Docker and Compose

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Turn the errors of the client into one line and the next command to type."""
        try:
            yield
        except docker.errors.NotFound as error:
            raise CannotRun(
                f"It is gone from Docker: {_brief(error)}", "faultlab status"
            ) from error
        except docker.errors.APIError as error:
            text = _brief(error)
            hint = "df -h" if "no space left" in text else "faultlab doctor"
            raise CannotRun(f"Docker refused: {text}", hint) from error
        except (
            docker.errors.DockerException,
            requests.exceptions.RequestException,
            OSError,
        ) as error:
            raise self.unreachable(error) from error

    def unreachable(self, error: BaseException) -> CannotRun:
        """Return the error for a user if this Docker does not respond."""
        try:
            where = self._named or docker_url()
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

    def containers(self, stack: str = "") -> list[Container]:
        """Return our containers (of one stack), running or not."""
        return self._ours(self.client.containers.list, stack, all=True, ignore_removed=True)

    def slots_up(self) -> dict[str, str]:
        """Return the slots of the stacks of all users that have one, by name: in one request."""
        with self.errors():
            found = self.client.api.containers(all=True, filters={"label": SLOT_LABEL})
        return {its["Labels"][STACK_LABEL]: its["Labels"][SLOT_LABEL] for its in found}

    def networks(self, stack: str = "") -> list[Any]:
        """Return our networks (of one stack)."""
        return self._ours(self.client.networks.list, stack)

    def volumes(self, stack: str = "") -> list[Any]:
        """Return our volumes (of one stack)."""
        return self._ours(self.client.volumes.list, stack)

    def leftovers(self, stack: str) -> list[str]:
        """Return the containers, networks and volumes that still carry this stack's label."""
        return [
            *(f"container {container.name}" for container in self.containers(stack)),
            *(f"network {network.name}" for network in self.networks(stack)),
            *(f"volume {volume.name}" for volume in self.volumes(stack)),
        ]

    def bridges(self, stack: str) -> list[str]:
        """Return the interfaces of Docker's machine to the networks of a stack."""
        return [f"br-{network.id[:12]}" for network in self.networks(stack)]

    def info(self) -> dict[str, Any]:
        """Return what `docker info` reports."""
        with self.errors():
            info: dict[str, Any] = self.client.info()
        return info

    def _ours(self, listed: Callable[..., list[Any]], stack: str, **options: Any) -> list[Any]:
        label = f"{STACK_LABEL}={stack}" if stack else STACK_LABEL
        with self.errors():
            return list(listed(filters={"label": label}, **options))


class DockerEngine(Docker, Engine):
    """An engine that is a Docker Engine.

    `patience`: the factor by which a command can take longer than its caller expects.
    """

    patience: ClassVar[float] = 1.0
