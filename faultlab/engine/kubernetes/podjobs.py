"""Podjobs: tasks of faultlab in pods of indexed Jobs.

Kubernetes places the pods and limits how many run at a time. A Job goes on when the command that
created it is killed, and the next command of the same name collects its results.
"""

import secrets
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from faultlab.core import paths
from faultlab.core.command import uninterrupted
from faultlab.core.errors import CannotRun
from faultlab.core.naming import BATCH_LABEL
from faultlab.engine.batch import Ended, Task
from faultlab.engine.contract import Say
from faultlab.engine.kubernetes import jobspec, podhelpers, program
from faultlab.engine.kubernetes.cluster import Cluster, client, gone
from faultlab.engine.kubernetes.jobspec import HOME

_GONE_WITHIN = 240  # seconds; a task that is told to stop removes its stack
_PAUSE = 1.0  # seconds between two looks at the pods


class PodJobs:
    """The tasks of one batch, with a Job for each kind.

    The kinds are those that need a node alone, those of which one runs at a time, and the others.
    """

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster = cluster
        self._jobs = client.BatchV1Api(cluster.client)
        self._label = {"label_selector": f"{BATCH_LABEL}={name}"}
        self._name = name

    def run(self, tasks: Sequence[Task], at_once: int, note: Say) -> Generator[Ended]:
        """Yield each task as it ends, also one that an earlier command has started."""
        self._refuse_without_account()
        left = {task.words: task for task in tasks}
        try:
            while left:
                self._start([*left.values()], at_once)
                for ended in self._until_all_ended(left, note):
                    del left[ended.words]
                    yield ended
                self.remove()
        except BaseException:
            with uninterrupted():
                self.remove()
            raise

    def _refuse_without_account(self) -> None:
        """Raise CannotRun if an administrator has not made the account of the pods."""
        try:
            with self._cluster.errors():
                self._cluster.core.read_namespaced_service_account(HOME, HOME)
        except CannotRun as problem:
            if gone(problem.__cause__):
                what = f"The cluster has no account {HOME} in a namespace {HOME}."
                setup = paths.show(paths.root() / "deploy/kubernetes")
                raise CannotRun(what, f"kubectl apply -k {setup}") from problem
            raise

    def _start(self, tasks: Sequence[Task], at_once: int) -> None:
        """Create Jobs for the tasks that are in none. Jobs of another program are removed first."""
        if any(program.its_tag() not in _image(found) for found in self._found()):
            self.remove()
        begun = {words for its in self._tasks().values() for words in its}
        kinds: dict[tuple[bool, bool], list[str]] = {}
        for task in tasks:
            if task.words not in begun:
                kinds.setdefault((task.single, task.alone), []).append(task.words)
        for (single, alone), some in sorted(kinds.items()):
            # Its stack has a node of its own kind, which no other task has meanwhile.
            self._create(some, 1 if single else at_once, alone and not single)

    def _create(self, tasks: Sequence[str], at_once: int, alone: bool) -> None:
        name = f"{self._name}-{secrets.token_hex(2)}"
        body = jobspec.job(self._name, name, len(tasks), at_once, alone)
        lines = {jobspec.TASKS: "\n".join(tasks)}
        with self._cluster.errors():
            self._cluster.core.create_namespaced_config_map(
                HOME, {"metadata": body["metadata"], "data": lines}
            )
            self._jobs.create_namespaced_job(HOME, body)

    def _found(self) -> list[Any]:
        with self._cluster.errors():
            return list(self._jobs.list_namespaced_job(HOME, **self._label).items)

    def _tasks(self) -> Mapping[str, list[str]]:
        """Return the tasks of each Job."""
        with self._cluster.errors():
            maps = self._cluster.core.list_namespaced_config_map(HOME, **self._label).items
        return {its.metadata.name: its.data[jobspec.TASKS].split("\n") for its in maps}

    def _pods(self, **which: str) -> list[Any]:
        with self._cluster.errors():
            return list(self._cluster.core.list_namespaced_pod(HOME, **self._label, **which).items)

    def _until_all_ended(self, left: Mapping[str, Task], note: Say) -> Iterator[Ended]:
        """Yield the tasks as they end, until all Jobs have ended.

        A pod is removed when its result was taken. So a look stays short, and a later command
        finds only results that no command has taken. Those that run are only counted: hundreds of
        them, read each second, would take most of our CPU time.
        """
        tasks = self._tasks()
        patience = time.monotonic() + podhelpers.STARTED_WITHIN
        while True:
            jobs = self._found()
            over, active = all(map(_over, jobs)), sum(job.status.active or 0 for job in jobs)
            pods = self._pods(field_selector="status.phase!=Running")
            self._tell(pods, active, len(left), note)
            if not (pods or active or over) and time.monotonic() > patience:
                raise CannotRun(
                    "The cluster makes no pods for the tasks.", f"kubectl describe jobs -n {HOME}"
                )
            for pod in pods:
                words = tasks[pod.metadata.labels[jobspec.JOB]][
                    int(pod.metadata.labels[jobspec.INDEX])
                ]
                if pod.status.phase == "Succeeded" or (over and pod.status.phase == "Failed"):
                    if words in left:
                        yield self._ended(words, pod.metadata.name)
                    self._remove_pod(pod.metadata.name)
            if over:
                return
            time.sleep(_PAUSE)

    def _tell(self, pods: Sequence[Any], active: int, left: int, note: Say) -> None:
        """Say how many tasks run. Raises CannotRun for a pod that can never start.

        `active`: the pods that wait or run.
        """
        for pod in pods:
            for status in pod.status.container_statuses or []:
                podhelpers.refuse_to_wait("a task", status.state.waiting if status.state else None)
        pending = sum(pod.status.phase == "Pending" for pod in pods)
        waiting = f", {pending} wait for a node" if pending else ""
        note(f"{max(0, active - pending)} on the cluster{waiting}, {left} to go")

    def _ended(self, words: str, pod: str) -> Ended:
        """Return the end of a task, from the log of its pod."""
        read = self._cluster.core.read_namespaced_pod_log
        with self._cluster.errors():
            log = read(pod, HOME, _preload_content=False).data.decode(errors="replace")
        if result := jobspec.result_of(log):
            return Ended(words, result)
        last = log.strip().splitlines()[-1:] or ["it printed nothing"]
        return Ended(words, problem=f"its pod failed: {last[0][:200]}")

    def _remove_pod(self, name: str) -> None:
        self._cluster.tolerant(partial(self._cluster.core.delete_namespaced_pod, name, HOME))

    def remove(self) -> None:
        """Remove the Jobs, and the stacks of tasks that were cut off. Raises CannotRun."""
        core = self._cluster.core
        jobs = partial(
            self._jobs.delete_collection_namespaced_job, HOME, propagation_policy="Foreground"
        )
        for remove in (jobs, partial(core.delete_collection_namespaced_config_map, HOME)):
            self._cluster.tolerant(partial(remove, **self._label))
        self._until_gone(lambda: [*self._found(), *self._pods()])
        for space in self._stacks():
            self._cluster.tolerant(partial(core.delete_namespace, space.metadata.name))
        self._until_gone(self._stacks)

    def _stacks(self) -> list[Any]:
        with self._cluster.errors():
            return list(self._cluster.core.list_namespace(**self._label).items)

    def _until_gone(self, look: Callable[[], list[Any]]) -> None:
        deadline = time.monotonic() + _GONE_WITHIN
        while found := look():
            if time.monotonic() > deadline:
                raise CannotRun(
                    f"Could not remove {found[0].metadata.name} of the cluster.",
                    f"kubectl get all,namespaces -A -l {self._label['label_selector']}",
                )
            time.sleep(_PAUSE / 4)


def _over(job: Any) -> bool:
    """Return whether a Job has ended and all of its pods are counted."""
    conditions = job.status.conditions or []
    return any(each.type in ("Complete", "Failed") and each.status == "True" for each in conditions)


def _image(job: Any) -> str:
    return str(job.spec.template.spec.containers[0].image)
