"""Tasks as Jobs on a cluster: what is created, collected, continued and removed."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from faultlab.core import archive, git, paths
from faultlab.core.errors import CannotRun
from faultlab.core.naming import BATCH_LABEL
from faultlab.engine.batch import Ended, Task
from faultlab.engine.kubernetes import cluster, jobspec, podhelpers, podjobs, program
from faultlab.engine.kubernetes.podjobs import PodJobs
from faultlab.run import job_result
from faultlab.verify import task
from faultlab.verify.case import Case

TASKS = [
    Task("verify.task mtu 1 kubernetes", alone=False),
    Task("verify.task gzip 1 kubernetes", alone=True),
]


def namespace(**its: Any) -> SimpleNamespace:
    return SimpleNamespace(**its)


@dataclass
class Api:
    """A cluster in memory. At each look the pods of all Jobs make progress."""

    account: bool = True
    refused: bool = False  # it makes no pods
    image: str = "faultlab/program:1"
    jobs: dict[str, Any] = field(default_factory=dict)
    tasks: dict[str, list[str]] = field(default_factory=dict)
    pods: dict[str, Any] = field(default_factory=dict)
    spaces: list[str] = field(default_factory=list)
    started: list[str] = field(default_factory=list)
    logs: Callable[[str], str] = lambda words: "\n".join(jobspec.lines(words.encode()))
    phase: str = "Succeeded"

    def read_namespaced_service_account(self, *_: Any) -> None:
        if not self.account:
            raise cluster.client.ApiException(status=404)

    def create_namespaced_config_map(self, _space: str, body: Any) -> None:
        self.tasks[body["metadata"]["name"]] = body["data"]["tasks"].split("\n")

    def create_namespaced_job(self, _space: str, body: Any) -> None:
        name = body["metadata"]["name"]
        self.jobs[name] = body
        for index, words in enumerate(self.tasks[name]):
            self.started.append(words)
            labels = {jobspec.JOB: name, jobspec.INDEX: str(index)}
            self.pods[f"{name}-{index}"] = namespace(
                metadata=namespace(name=f"{name}-{index}", labels=labels),
                status=namespace(phase="Running", container_statuses=[]),
                words=words,
            )

    def list_namespaced_job(self, *_: Any, **__: Any) -> Any:
        return namespace(items=[self._job(name) for name in self.jobs])

    def _job(self, name: str) -> Any:
        mine = [pod for pod in self.pods.values() if pod.metadata.labels[jobspec.JOB] == name]
        over = all(pod.status.phase != "Running" for pod in mine)
        ended = [namespace(type="Complete", status="True")] if over else []
        its = self.jobs[name]["spec"]["template"]["spec"]["containers"][0]
        container = namespace(image=its["image"])
        template = namespace(spec=namespace(containers=[container]))
        return namespace(
            metadata=namespace(name=name),
            spec=namespace(template=template),
            status=namespace(conditions=ended, active=0 if over or self.refused else 1),
        )

    def list_namespaced_config_map(self, *_: Any, **__: Any) -> Any:
        maps = [
            namespace(metadata=namespace(name=name), data={"tasks": "\n".join(its)})
            for name, its in self.tasks.items()
        ]
        return namespace(items=maps)

    def list_namespaced_pod(self, *_: Any, **__: Any) -> Any:
        now = [namespace(**vars(pod)) for pod in self.pods.values()]
        running = [pod for pod in self.pods.values() if pod.status.phase == "Running"]
        for pod in running[:1]:
            pod.status = namespace(phase=self.phase, container_statuses=[])
        return namespace(items=now)

    def read_namespaced_pod_log(self, pod: str, *_: Any, **__: Any) -> Any:
        return namespace(data=self.logs(self.pods[pod].words).encode())

    def delete_namespaced_pod(self, name: str, *_: Any) -> None:
        del self.pods[name]

    def delete_collection_namespaced_job(self, *_: Any, **__: Any) -> None:
        self.jobs.clear()
        self.pods.clear()

    def delete_collection_namespaced_config_map(self, *_: Any, **__: Any) -> None:
        self.tasks.clear()

    def list_namespace(self, **_: Any) -> Any:
        return namespace(items=[namespace(metadata=namespace(name=its)) for its in self.spaces])

    def delete_namespace(self, name: str, *_: Any) -> None:
        self.spaces.remove(name)


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Api:
    pytest.importorskip("kubernetes")
    made = Api()
    monkeypatch.setattr(podjobs, "_PAUSE", 0.0)
    monkeypatch.setattr(podjobs, "_GONE_WITHIN", 0.1)
    monkeypatch.setattr(program, "its_tag", lambda: made.image)
    monkeypatch.setattr(cluster.client, "BatchV1Api", lambda _: made)
    return made


def jobs(api: Api) -> PodJobs:
    its = cluster.Cluster.__new__(cluster.Cluster)
    its.client, its.core = None, api
    return PodJobs(its, "abcd1234")


def run(api: Api, tasks: list[Task] = TASKS) -> list[Ended]:
    return list(jobs(api).run(tasks, 2, lambda _: None))


def test_each_task_ends_once_and_nothing_is_left(api: Api) -> None:
    assert sorted(run(api), key=lambda its: its.words) == [
        Ended(each.words, each.words.encode()) for each in reversed(TASKS)
    ]
    assert api.started == [each.words for each in TASKS]
    assert not (api.jobs or api.pods or api.tasks)


def test_tasks_that_change_a_kernel_run_one_at_a_time(api: Api) -> None:
    """They need no node alone: their stacks have one of another kind."""
    single = [Task(f"verify.task swap {n} node", alone=True, single=True) for n in (1, 2)]
    running = jobs(api).run([*TASKS, *single], 5, lambda _: None)
    next(running)
    specs = {tuple(api.tasks[name]): job["spec"] for name, job in api.jobs.items()}
    its = specs[tuple(task.words for task in single)]
    assert its["parallelism"] == 1 and "affinity" not in its["template"]["spec"]
    running.close()


def test_a_command_that_was_killed_is_continued(api: Api) -> None:
    """A result that was taken is not taken again, and no task is started twice."""
    killed = jobs(api).run(TASKS, 2, lambda _: None)  # from here on it does nothing more
    taken = next(killed)
    left = [each for each in TASKS if each.words != taken.words]
    more = Task("verify.task mtu 2 kubernetes", alone=False)
    assert {ended.words for ended in run(api, [*left, more])} == {left[0].words, more.words}
    assert sorted(api.started) == sorted([*(each.words for each in TASKS), more.words])


def test_the_jobs_of_another_program_are_not_continued(api: Api) -> None:
    killed = jobs(api).run(TASKS[:1], 2, lambda _: None)
    next(killed)
    api.image = "faultlab/program:2"
    assert [ended.words for ended in run(api, TASKS[:1])] == [TASKS[0].words]
    assert api.started == [TASKS[0].words] * 2


def test_a_task_without_a_result(api: Api) -> None:
    api.phase, api.logs = "Failed", lambda _: "Traceback\nMemoryError\n"
    assert run(api, TASKS[:1]) == [
        Ended(TASKS[0].words, problem="its pod failed: MemoryError"),
    ]


def test_jobs_that_get_no_pods(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quota, or an admission webhook, can refuse them all."""
    monkeypatch.setattr(podhelpers, "STARTED_WITHIN", 0.0)
    batch = jobs(api).run(TASKS, 2, lambda _: None)
    monkeypatch.setattr(podjobs, "_over", lambda _: False)
    api.list_namespaced_pod = lambda *_, **__: namespace(items=[])  # type: ignore[method-assign]
    api.refused = True
    with pytest.raises(CannotRun, match="makes no pods") as raised:
        next(batch)
    assert raised.value.hint == "kubectl describe jobs -n faultlab"


def test_a_pod_that_cannot_start_ends_the_batch(api: Api) -> None:
    waiting = namespace(reason="ErrImagePull", message="not found")
    status = namespace(state=namespace(waiting=waiting))
    batch = jobs(api).run(TASKS, 2, lambda _: None)
    api.list_namespaced_pod = lambda *_, **__: namespace(  # type: ignore[method-assign]
        items=[namespace(status=namespace(phase="Pending", container_statuses=[status]))]
        if api.jobs
        else []
    )
    with pytest.raises(CannotRun, match="no image for a task: not found"):
        next(batch)
    assert not (api.jobs or api.tasks)


def test_a_batch_that_is_stopped_leaves_no_stack(api: Api) -> None:
    batch = jobs(api).run(TASKS, 2, lambda _: None)
    next(batch)
    api.spaces = ["faultlab-abcd1234-ef00-1-verify-mtu"]
    batch.close()
    assert not (api.jobs or api.pods or api.tasks or api.spaces)


def test_what_cannot_be_removed_is_named(api: Api) -> None:
    api.spaces = ["faultlab-x"]
    api.delete_namespace = lambda *_: None  # type: ignore[method-assign]
    with pytest.raises(CannotRun, match="Could not remove faultlab-x") as raised:
        jobs(api).remove()
    assert raised.value.hint == f"kubectl get all,namespaces -A -l {BATCH_LABEL}=abcd1234"


def test_a_cluster_without_the_account(api: Api) -> None:
    api.account = False
    with pytest.raises(CannotRun, match="no account faultlab") as raised:
        run(api)
    assert raised.value.hint == "kubectl apply -k deploy/kubernetes"


def test_a_task_that_needs_its_node_alone_waits_for_one(api: Api) -> None:
    run(api)
    # The fake keeps no Job, so look at what is made.
    shared, alone = (jobspec.job("b", "n", 3, 2, alone) for alone in (False, True))
    pods = [body["spec"]["template"]["spec"] for body in (shared, alone)]
    assert "affinity" not in pods[0]
    (term,) = pods[1]["affinity"]["podAntiAffinity"].popitem()[1]
    assert term["labelSelector"]["matchExpressions"][0]["key"] == BATCH_LABEL
    assert shared["spec"]["completions"] == 3 and shared["spec"]["parallelism"] == 2


def test_a_task_has_no_rights_on_its_node() -> None:
    """Its namespace enforces the level `restricted`."""
    pod = jobspec.job("b", "n", 1, 1, alone=False)["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    rights = container["securityContext"]
    assert pod["securityContext"]["runAsNonRoot"] and rights["capabilities"] == {"drop": ["ALL"]}
    assert not rights["allowPrivilegeEscalation"] and rights["readOnlyRootFilesystem"]
    assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
    files = (paths.root() / "deploy/kubernetes").glob("*.yaml")
    kinds = [its for file in files for its in yaml.safe_load_all(file.read_text())]
    space = next(its for its in kinds if its["kind"] == "Namespace")
    assert space["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_a_task_knows_its_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no checkout, so a quick walk would take the same parts at each commit."""
    pod = jobspec.job("b", "n", 1, 1, alone=False)["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    told = {each["name"]: each.get("value") for each in container["env"]}
    here = git.commit(), git.commits()
    assert (told["FAULTLAB_COMMIT"], told["FAULTLAB_COMMITS"]) == (here[0], str(here[1]))
    for name in ("FAULTLAB_COMMIT", "FAULTLAB_COMMITS"):
        monkeypatch.setenv(name, str(told[name]))
    monkeypatch.setattr(git, "says", lambda *_: "")
    git.commits.cache_clear()
    assert (git.commit(), git.commits()) == here
    git.commits.cache_clear()


def test_a_result_among_other_lines() -> None:
    result = bytes(range(256)) * 100
    log = "\n".join(["warning: x", *jobspec.lines(result), "bye"])
    assert jobspec.result_of(log) == result
    assert max(map(len, log.splitlines())) < 16384
    assert jobspec.result_of("nothing\n") == b""
    assert jobspec.result_of("faultlab-result abc\n") == b""


def test_words_of_a_walk() -> None:
    for walk in (task.Walk("mtu", 3, "kubernetes"), task.Walk("mtu", 3, "kubernetes", quick=True)):
        module, *words = walk.words.split()
        assert module == "verify.task"
        assert task.read(words) == walk


def test_a_case_arrives_with_its_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case("mtu", 2, "pass", 12.5, run="20261127-100000-mtu-abcd", engine="kubernetes")
    monkeypatch.setenv("FAULTLAB_STATE", str(tmp_path / "there"))
    folder = paths.runs() / case.run
    folder.mkdir(parents=True)
    (folder / "run.json").write_text("{}")
    packed = task.pack(case)
    monkeypatch.setenv("FAULTLAB_STATE", str(tmp_path / "here"))
    assert job_result.opened(Case, Ended("x", packed)) == case
    assert (paths.runs() / case.run / "run.json").read_text() == "{}"
    assert [file.name for file in paths.runs().iterdir()] == [case.run]
    assert job_result.opened(Case, Ended("x", packed)) == case


def test_an_archive_that_leaves_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAULTLAB_STATE", str(tmp_path))
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as tar:
        tar.addfile(tarfile.TarInfo("../../out"), io.BytesIO())
    for packed in (made.getvalue(), b"no archive"):
        with pytest.raises(CannotRun, match="result of its task cannot be read"):
            job_result.opened(Case, Ended("x", packed))
    assert not (tmp_path.parent / "out").exists()


def test_the_image_has_all_that_a_walk_reads() -> None:
    """The Dockerfiles of the images are read, too: they tell a pod the command of a daemon."""
    files = {name for name, _ in program._sources()}
    assert {
        *("Dockerfile", "lock.txt", "project/faultlab/verify/task.py", "project/labs/stack.yaml"),
        *("project/labs/mtu/lab.toml", "project/checks/conftest.py", "project/tools/use/tool.toml"),
        *("project/images/nginx/Dockerfile", "project/images/nginx/daemon.toml"),
    } <= files
    assert not [name for name in files if "__pycache__" in name]


def test_each_change_makes_another_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a"
    monkeypatch.setattr(program, "_sources", lambda: iter([("a", file)]))
    tags = set()
    for text in ("one", "two", "one"):
        file.write_text(text)
        program._digest.cache_clear()
        tags.add(program.its_tag())
    program._digest.cache_clear()
    assert len(tags) == 2 and all(tag.startswith("faultlab/program:") for tag in tags)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("[1]", "result.json is damaged: Input should be a dictionary"),
        ('{"lab": "mtu"}', "result.json is damaged: number: Field required."),
        ("{", "Expecting property name enclosed in double quotes"),
        (None, "No such file or directory"),
    ],
)
def test_a_task_whose_result_has_another_shape(said: str | None, why: str) -> None:
    """It is that walk's problem; the campaign goes on, because `verify` records it as unknown."""
    result = io.BytesIO()
    with tarfile.open(fileobj=result, mode="w:gz") as tar:
        if said is not None:
            archive.put(tar, "result.json", said.encode())
    with pytest.raises(CannotRun, match=f"cannot be read: .*{why}"):
        job_result.opened(Case, Ended("x", result.getvalue()))


def test_a_task_names_a_folder_that_is_not_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing outside the archive moves, whatever the case of a task says."""
    runs, ours = tmp_path / "runs", tmp_path / "ours"
    ours.mkdir()
    monkeypatch.setenv("FAULTLAB_STATE", str(tmp_path))
    for name in ("../ours", str(ours)):
        case = Case("mtu", 1, "pass", 1.5, run=name)
        result = io.BytesIO()
        with tarfile.open(fileobj=result, mode="w:gz") as tar:
            archive.put(tar, "result.json", json.dumps(asdict(case)).encode())
        job_result.opened(Case, Ended("x", result.getvalue()))
    assert ours.is_dir()
    assert not list(runs.iterdir())
