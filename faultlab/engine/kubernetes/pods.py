"""Pods: a machine or daemon of a stack, as a container of a pod."""

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from faultlab.core.errors import CannotRun
from faultlab.core.naming import LAB_LABEL, RUN_LABEL, STACK_LABEL
from faultlab.engine.contract import Engine, Machine, State
from faultlab.engine.kubernetes import pod_exec
from faultlab.engine.kubernetes.cluster import Cluster, owner_of, pause
from faultlab.engine.kubernetes.podterminal import PodTerminal
from faultlab.engine.kubernetes.quantity import amount, limits
from faultlab.engine.shell import GRACE, Done, late
from faultlab.lab import dockerfile
from faultlab.lab.services import USER

STRATEGIC = "application/strategic-merge-patch+json"
_RESIZED_WITHIN = 20.0  # seconds
_GONE = State(running=False, exit_code=-1, oom_killed=False)


class PodMachine(Machine):
    """One container of a pod. A machine's name is that of its pod."""

    def __init__(
        self, name: str, pod: Any, cluster: Cluster, engine: Engine, find_pid: Callable[[str], str]
    ) -> None:
        labels = pod.metadata.labels or {}
        self.name = name
        self.engine = engine
        self.cluster = cluster
        self.at = pod_exec.Place(pod.metadata.namespace, pod.metadata.name, name)
        self.joins = "" if name == pod.metadata.name else str(pod.metadata.name)
        self.stack = str(labels.get(STACK_LABEL, ""))
        self.lab_id = str(labels.get(LAB_LABEL, ""))
        self.run_id = str(labels.get(RUN_LABEL, ""))
        self.owner = owner_of(pod.metadata)
        self.created = pod.metadata.creation_timestamp.strftime("%Y-%m-%dT%H:%M:%S")
        self.image = image_of(pod, name)
        self._find_pid = find_pid
        self._id = container_id(status_of(pod, name))

    @property
    def mark(self) -> str:  # type: ignore[override]
        """Return the id of its container, which is in the names of its cgroups."""
        self._id = self._id or container_id(self._status())
        return self._id

    @property
    def _is_daemon(self) -> bool:
        return bool(self.joins) and not self.name.endswith(USER)

    def run(self, command: str, timeout: float = 30) -> Done:
        """Run a shell command as root in the container, and wait for its end."""
        argv = ["timeout", "-k", "1", str(timeout), "sh", "-c", command]
        try:
            done = pod_exec.run(self.cluster, self.at, argv, timeout + GRACE)
        except CannotRun as problem:
            if "is not running" in problem.message:
                raise CannotRun(
                    f"{self.name} is not running any more ({self.at.namespace}).", "faultlab status"
                ) from problem
            raise
        if done.code in (124, 137, None) and done.seconds >= timeout:
            raise late(f"On {self.name}", timeout, command)
        if done.code is None:
            raise CannotRun(f"The connection to {self.name} was cut off.", "kubectl cluster-info")
        out, err = done.out.decode(errors="replace"), done.err.decode(errors="replace")
        return Done(command, done.code, out, err, done.seconds)

    @property
    def state(self) -> State:
        """Return its state now. Of a daemon, supervisor.pl notes it; else the kubelet does."""
        status = self._status()
        now = status.state if status else None
        if now is None or now.running is None:
            ended = now.terminated if now else None
            if ended is None:
                return _GONE
            killed = ended.reason == "OOMKilled"
            return State(False, ended.exit_code, killed, _text(ended.started_at))
        if self._is_daemon:
            return self._kept()
        return State(True, 0, False, _text(now.running.started_at))

    def _kept(self) -> State:
        words = self.run("cat /run/supervisor/state", timeout=10).out.split()
        if len(words) != 5:
            return _GONE
        return State(words[0] == "1", int(words[1]), words[2] == "1", words[4])

    def _status(self) -> Any:
        with self.cluster.errors():
            pod = self.cluster.core.read_namespaced_pod(self.at.pod, self.at.namespace)
        return status_of(pod, self.at.container)

    @property
    def pid(self) -> str:
        """Return the id of its first process in the kernel below; "0" while it does not run."""
        return self._find_pid(self.mark) or "0"

    @property
    def health(self) -> str:
        """Return the command of its image's HEALTHCHECK, or an empty text."""
        return dockerfile.read(self.image).health if self.image else ""

    def last_log_line(self) -> str:
        """Return the last line of its log, as `kubectl logs` prints it."""
        with self.cluster.errors():
            text = self.cluster.core.read_namespaced_pod_log(
                self.at.pod, self.at.namespace, container=self.at.container, tail_lines=1
            )
        return str(text or "").strip()

    def restart(self) -> None:
        """Stop and start it in its container; the machine that it joined keeps its settings."""
        if not self._is_daemon:
            raise CannotRun(f"The pod {self.name} cannot be restarted.", "faultlab status")
        done = self.run(f"restart {self.name}", timeout=30)
        if done.code != 0:
            raise CannotRun(f"{self.name} did not restart: {done.err.strip()}", self.typed("logs"))

    def limit(self, cpus: float | None, memory: str | None, pids: int | None = None) -> None:
        """Change its limits in place, and wait until the node has done it. Raises CannotRun.

        The limit of processes is one of the node and not of a container.
        """
        if pids is not None:
            raise CannotRun("A pod has no limit of processes of its own.", self.typed("describe"))
        wanted = limits(cpus, memory)
        change = {"containers": [{"name": self.name, "resources": {"limits": wanted}}]}
        with self.cluster.errors():
            self.cluster.core.patch_namespaced_pod_resize(
                self.at.pod, self.at.namespace, {"spec": change}, _content_type=STRATEGIC
            )
        began = time.monotonic()
        while not self._has(wanted):
            if time.monotonic() > began + _RESIZED_WITHIN:
                raise CannotRun(
                    f"The node did not change the limits of {self.name}.", self.typed("describe")
                )
            pause(began)

    def _has(self, wanted: dict[str, str]) -> bool:
        status = self._status()
        has = (status.resources.limits or {}) if status and status.resources else {}
        return all(amount(has.get(key, "")) == amount(value) for key, value in wanted.items())

    def put(self, folder: str, archive: bytes) -> None:
        """Unpack a tar archive into a folder of the container."""
        pod_exec.unpack(self.cluster, self.at, folder, archive)

    @contextmanager
    def talk(self, command: Sequence[str]) -> Iterator[pod_exec.PodTalk]:
        """Run a program in the container while the body runs."""
        line = pod_exec.connect(self.cluster, self.at, command, stdin=True)
        try:
            yield pod_exec.PodTalk(line)
        finally:
            line.close()

    def terminal(self) -> PodTerminal:
        """Return a terminal in it that is not open yet."""
        return PodTerminal(self.cluster, self.at, self.prompt)

    def log_in(self) -> NoReturn:
        """Replace this process by a shell in it, by `kubectl exec`."""
        if shutil.which("kubectl") is None:
            raise CannotRun("kubectl is not installed.", "less docs/kubernetes.md")
        person = sys.stdin.isatty()
        shell = ["-it", *self._where, "--", "env", self.prompt, "sh", "-c", "bash || true"]
        sys.stdout.flush()
        command = ["kubectl", "exec", *(shell if person else ["-i", *self._where, "--", "bash"])]
        os.execvp(command[0], command)

    @property
    def _where(self) -> list[str]:
        return ["-n", self.at.namespace, self.at.pod, "-c", self.at.container]

    def typed(self, action: str) -> str:
        """Return the `kubectl` command that an engineer types for an action on it."""
        verb, *options = action.split()
        where = " ".join(self._where)
        match verb:
            case "restart" | "start":
                return f"kubectl exec {where} -- {verb} {self.name}"
            case "logs":
                return " ".join(["kubectl logs", where, *options])
            case "update":
                return f"kubectl patch -n {self.at.namespace} pod {self.at.pod} " + _resize(
                    self.name, options
                )
        return f"kubectl {verb} -n {self.at.namespace} pod {self.at.pod}"


def _resize(container: str, options: list[str]) -> str:
    """Return the rest of `kubectl patch` for the options of `docker update`."""
    pairs = dict(zip(options[::2], options[1::2], strict=False))
    wanted = limits(pairs.get("--cpus"), pairs.get("--memory"))
    text = ",".join(f'"{key}":"{value}"' for key, value in wanted.items())
    part = f'{{"name":"{container}","resources":{{"limits":{{{text}}}}}}}'
    return f'--subresource resize -p \'{{"spec":{{"containers":[{part}]}}}}\''


def status_of(pod: Any, name: str) -> Any:
    """Return the status of a container of a pod; None if it has none yet."""
    status = pod.status
    every = [
        *(status.container_statuses or []),
        *(status.ephemeral_container_statuses or []),
        *(status.init_container_statuses or []),
    ]
    return next((each for each in every if each.name == name), None)


def container_id(status: Any) -> str:
    """Return the id of a container without the name of its runtime; empty before it has started."""
    return str((status.container_id if status else "") or "").rpartition("/")[2]


def image_of(pod: Any, name: str) -> str:
    """Return the name of an image of ours, without registry and tag; empty for another."""
    every = [*pod.spec.containers, *(pod.spec.ephemeral_containers or [])]
    tag = next((each.image for each in every if each.name == name), "")
    found = tag.rpartition("faultlab/")[2].partition(":")[0]
    return "" if found.startswith("tool-") else found


def _text(moment: Any) -> str:
    return moment.isoformat() if moment else ""
