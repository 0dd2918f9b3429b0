"""Container: a machine or daemon of a stack, as a Docker container."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from faultlab.core.errors import CannotRun
from faultlab.core.naming import LAB_LABEL, OWNER_LABEL, RUN_LABEL, SLOT_LABEL, STACK_LABEL
from faultlab.engine.contract import Machine, State
from faultlab.engine.docker.attach import DockerTerminal
from faultlab.engine.docker.connection import DockerEngine
from faultlab.engine.docker.exec import DockerTalk, answer, both, cut_off_after
from faultlab.engine.shell import GRACE, Done, late
from faultlab.lab.model import bytes_of

if TYPE_CHECKING:
    from docker.models.containers import Container

ROLE = "com.docker.compose.service"  # Compose's label: the name of a machine or daemon


class DockerMachine(Machine):
    """One container; a daemon's has joined the namespaces of its machine's."""

    engine: DockerEngine

    def __init__(self, name: str, container: Container, engine: DockerEngine) -> None:
        self.name = name
        self.engine = engine
        self.joins = ""
        self.container = container
        self.stack = str(container.labels.get(STACK_LABEL, ""))
        self.lab_id = str(container.labels.get(LAB_LABEL, ""))
        self.run_id = str(container.labels.get(RUN_LABEL, ""))
        self.owner = str(container.labels.get(OWNER_LABEL, ""))
        self.slot = str(container.labels.get(SLOT_LABEL, ""))
        self.created = str(container.attrs.get("Created", ""))[:19]
        self.mark = str(container.id)

    def run(self, command: str, timeout: float = 30) -> Done:
        """Run a shell command as root in the container, and wait for its end."""
        timeout *= self.engine.patience
        api = self.container.client.api  # type: ignore[union-attr]
        argv = ["timeout", "-k", "1", str(timeout), "sh", "-c", command]
        started = time.monotonic()
        try:
            with self.engine.errors():
                exec_id = api.exec_create(self.container.id, argv)["Id"]
                line = api.exec_start(exec_id, socket=True)
                with cut_off_after(line, timeout + GRACE):
                    out, err = both(answer(line))
                code = api.exec_inspect(exec_id)["ExitCode"]
        except CannotRun as problem:
            if "is not running" in problem.message or "is gone" in problem.message:
                gone = f"{self.name} is not running any more ({self.container_name})."
                raise CannotRun(gone, "faultlab status") from problem
            raise
        seconds = time.monotonic() - started
        # None: cut off. Docker 20.10 never ends the response for a container that restarts.
        if code in (124, 137, None) and seconds >= timeout:
            raise late(f"On {self.name}", timeout, command)
        texts = out.decode(errors="replace"), err.decode(errors="replace")
        return Done(command, -1 if code is None else int(code), *texts, seconds)

    @property
    def state(self) -> State:
        """Return its state now; Docker learns of an end a moment later."""
        with self.engine.errors():
            self.container.reload()
        facts: dict[str, Any] = self.container.attrs["State"]
        return State(
            running=facts["Running"],
            exit_code=facts["ExitCode"],
            oom_killed=facts["OOMKilled"],
            started=str(facts["StartedAt"]),
        )

    @property
    def link(self) -> tuple[str, str]:
        """Return its IPv4 address and its hardware address; empty for one that joins another's."""
        networks: dict[str, Any] = self.container.attrs["NetworkSettings"]["Networks"] or {}
        its: dict[str, Any] = next(iter(networks.values()), {})
        return str(its.get("IPAddress", "")), str(its.get("MacAddress", ""))

    @property
    def pid(self) -> str:
        """Return the id of its first process; "0" while it does not run."""
        if not self.container.attrs["State"]["Pid"]:
            with self.engine.errors():
                self.container.reload()
        return str(self.container.attrs["State"]["Pid"])

    @property
    def health(self) -> str:
        """Return the command of its image's HEALTHCHECK, or an empty text."""
        health: dict[str, Any] = self.container.attrs["Config"].get("Healthcheck") or {}
        match health.get("Test"):
            case ["CMD", *words]:
                return shlex.join(words)
            case ["CMD-SHELL", str(command)]:
                return command
        return ""

    def last_log_line(self) -> str:
        """Return the last line of its log, as `docker logs` prints it."""
        with self.engine.errors():
            return bytes(self.container.logs(tail=1)).decode(errors="replace").strip()

    def restart(self) -> None:
        """Stop and start the container; the machine that it joined keeps its settings."""
        with self.engine.errors():
            self.container.restart(timeout=5)

    def limit(self, cpus: float | None, memory: str | None, pids: int | None = None) -> None:
        """Change the limits of the running container, as `docker update` does."""
        change: dict[str, Any] = {}
        if cpus is not None:
            change["NanoCpus"] = int(cpus * 1e9)
        if memory is not None:
            change["Memory"] = change["MemorySwap"] = bytes_of(memory)
        if pids is not None:
            change["PidsLimit"] = pids
        # The SDK would set quota and period instead, and then `docker update --cpus` is refused.
        api: Any = self.container.client.api  # type: ignore[union-attr]
        with self.engine.errors():
            url = api._url("/containers/{0}/update", self.container.id)
            api._raise_for_status(api._post_json(url, data=change))

    def put(self, folder: str, archive: bytes) -> None:
        """Unpack a tar archive into a folder of the container."""
        with self.engine.errors():
            self.container.put_archive(folder, archive)

    @contextmanager
    def talk(self, command: Sequence[str]) -> Iterator[DockerTalk]:
        """Run a program in the container while the body runs."""
        api = self.container.client.api  # type: ignore[union-attr]
        with self.engine.errors():
            exec_id = api.exec_create(self.container.id, list(command), stdin=True)["Id"]
            talk = DockerTalk(api.exec_start(exec_id, socket=True))
        try:
            yield talk
        finally:
            talk.close()

    def terminal(self) -> DockerTerminal:
        """Return a terminal in it that is not open yet."""
        return DockerTerminal(self.container_name, self.engine.env["DOCKER_HOST"], self.prompt)

    def log_in(self) -> NoReturn:
        """Replace this process by a shell in it, by `docker exec`.

        A script on standard input ends with its own exit code. A person who leaves the shell has
        made no mistake, whatever their last command returned.
        """
        person = sys.stdin.isatty()
        shell = ["-it", "-e", self.prompt, self.container_name, "sh", "-c", "bash || true"]
        sys.stdout.flush()
        command = ["docker", "exec", *(shell if person else ["-i", self.container_name, "bash"])]
        os.execvpe(command[0], command, {**os.environ, **self.engine.env})

    def typed(self, action: str) -> str:
        """Return the `docker` command that an engineer types for an action on it."""
        return f"docker {action} {self.container_name}"

    @property
    def container_name(self) -> str:
        """Return the name for `docker exec` and `docker restart`."""
        return str(self.container.name)
