"""The Kubernetes engine, as far as it needs no cluster: its pods, policies, errors and commands."""

from __future__ import annotations

import json
import platform
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from faultlab.core import lock, naming, paths
from faultlab.core.defaults import AUTO
from faultlab.core.errors import BadInput, CannotRun
from faultlab.engine import own_pod
from faultlab.engine.contract import Program
from faultlab.engine.docker.local import LocalEngine
from faultlab.engine.kubernetes import (
    cluster,
    jobspec,
    manifest,
    namespace,
    node,
    pod_exec,
    podhelpers,
    podtrial,
    registry,
)
from faultlab.engine.kubernetes.cluster import MACHINE, ROLE_LABEL
from faultlab.engine.kubernetes.engine import KubernetesEngine
from faultlab.engine.kubernetes.helper import Helpers
from faultlab.engine.kubernetes.node_pod import NodePod
from faultlab.engine.kubernetes.pods import PodMachine
from faultlab.engine.kubernetes.quantity import amount
from faultlab.engine.measure import procfs
from faultlab.lab import dockerfile, services
from faultlab.lab import loader as labs
from faultlab.lab.images import tag
from faultlab.run import placement

PLAN = manifest.Plan("faultlab-mtu", "mtu", "r1")
DOCKERS = {"NET_ADMIN", "NET_RAW", "SYS_PTRACE"}
ROOM = Path(cluster.__file__).parent


def pods_of(lab_id: str) -> dict[str, dict[str, Any]]:
    made = manifest.pods(PLAN, manifest.services(labs.load(lab_id)))
    return {pod["metadata"]["name"]: pod["spec"] for pod in made}


def test_a_machine_is_a_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAULTLAB_REGISTRY", "registry.example.org")
    pods = pods_of("mtu")
    names = {name: [c["name"] for c in spec["containers"]] for name, spec in pods.items()}
    apart = {"client": ["client"], "client-user": ["client-user"]}
    assert names == {**apart, "web": ["web", "nginx", "php-fpm"]}
    assert pods["web"]["shareProcessNamespace"] and not pods["client-user"]["shareProcessNamespace"]
    assert [c["name"] for c in pods["web"]["initContainers"]] == [
        "names",
        "fill-nginx",
        "fill-php-fpm",
    ]
    images = [c["image"] for c in pods["web"]["containers"]]
    assert images == [
        f"registry.example.org/{tag(name)}" for name in ("machine", "nginx", "php-fpm")
    ]
    user = pods["client-user"]["containers"][0]
    assert user["securityContext"]["readOnlyRootFilesystem"]
    hosts = {"mountPath": "/etc/hosts", "name": "names", "subPath": "hosts-user"}
    assert hosts in user["volumeMounts"]


def test_no_pod_has_more_rights_than_a_container() -> None:
    for lab_id in labs.ids():
        lab = labs.load(lab_id)
        if manifest.obstacle(manifest.services(lab)) or lab.scope == "kernel":
            continue
        for spec in pods_of(lab_id).values():
            for key in ("hostNetwork", "hostPID", "hostIPC"):
                assert key not in spec
            assert not spec["automountServiceAccountToken"]
            for container in [*spec["containers"], *spec["initContainers"]]:
                rights = container["securityContext"]
                assert "privileged" not in rights
                assert rights["seccompProfile"] == {"type": "RuntimeDefault"}
                assert set(rights.get("capabilities", {}).get("add", [])) <= DOCKERS
            for volume in spec["volumes"]:
                assert volume.keys() <= {"name", "emptyDir", "configMap"}


def test_what_pods_cannot_do() -> None:
    why = {
        lab_id: manifest.obstacle(manifest.services(labs.load(lab_id)))
        for lab_id in ("certificate", "dead-resolver", "mtu")
    }
    assert why["certificate"].endswith("web share the volume trusted, and pods share none")
    assert why["dead-resolver"] == "web asks Docker's own resolver, 127.0.0.11"
    assert why["mtu"] == ""
    with pytest.raises(CannotRun, match="certificate cannot run on Kubernetes"):
        manifest.pods(
            manifest.Plan("s", "certificate", "r"), manifest.services(labs.load("certificate"))
        )


def test_an_address_that_no_pod_has() -> None:
    engine = KubernetesEngine.__new__(KubernetesEngine)
    assert "an address that no pod has" in engine.cannot(labs.load("stale-upstream"))
    assert engine.cannot(labs.load("mtu")) == ""


def test_a_compose_file_is_merged_as_compose_does() -> None:
    gzip = manifest.services(labs.load("gzip"))
    assert ("list", "/var/www/html/list") in gzip["web"].volumes
    assert ("nginx-etc", "/etc/nginx") in gzip["web"].volumes
    inodes = pods_of("inodes")["web"]
    memory = next(v for v in inodes["volumes"] if v["name"] == "tmpfs-php-fpm-0")
    assert memory["emptyDir"] == {"medium": "Memory", "sizeLimit": "16Mi"}
    command = next(c for c in inodes["containers"] if c["name"] == "php-fpm")["command"]
    assert command[:4] == ["/usr/local/sbin/supervisor", "daemon", "QUIT", "/srv/php"]
    assert "$(seq 10 29)" in command[-1] and "$$" not in command[-1]
    stampede = pods_of("stampede")
    limited = [
        c for spec in stampede.values() for c in spec["containers"] if "limits" in c["resources"]
    ]
    assert [c["resources"]["limits"] for c in limited] == [{"cpu": "500m"}]


def test_recipes_of_images() -> None:
    nginx = dockerfile.read("nginx")
    assert nginx.command == ("nginx", "-g", "daemon off;") and nginx.stop == "QUIT"
    assert nginx.health == "curl -fsSo /dev/null http://127.0.0.1/health"
    assert (
        dockerfile.read("tomcat").health.startswith("curl -fsS -m 3")
        and not dockerfile.read("machine").health
    )


def test_a_seat_has_limits_and_a_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that a lab gives a container itself stay."""
    assert namespace.quota() == {}
    monkeypatch.setenv("FAULTLAB_LIMITS", "cpus=1.5 memory=1g pids=512")
    monkeypatch.setenv("FAULTLAB_LIMITS_IN_ALL", "cpus=1.5 memory=4g")
    pods = pods_of("stampede")
    found = [c["resources"]["limits"] for pod in pods.values() for c in pod["containers"]]
    most = str(1 << 30)
    own = [its for its in found if its != {"cpu": "1500m", "memory": most}]
    assert own == [{"cpu": "500m", "memory": most}] and len(found) > 4
    made = manifest.services(labs.load("mtu"))
    assert {service.keys["pids_limit"] for service in made.values()} == {512}
    quota = namespace.quota()
    assert quota["requests.cpu"] == "1.5" and quota["requests.memory"] == "4Gi"
    assert quota["services"] == "0" and int(quota["pods"]) > len(pods_of("stampede"))


def test_only_machines_reach_machines() -> None:
    nothing, only = (policy["spec"] for policy in namespace.policies())
    machines = {"podSelector": {"matchLabels": {ROLE_LABEL: MACHINE}}}
    assert only["ingress"] == [{"from": [machines]}] and only["egress"] == [{"to": [machines]}]
    assert nothing == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}


def test_helpers_have_their_rights_only() -> None:
    node_pod = podhelpers.pod("node-pod", "s", {}, whole=True, rights=node.RIGHTS)["spec"]
    rights = node_pod["containers"][0]["securityContext"]
    assert node_pod["hostPID"] and "hostNetwork" not in node_pod and "privileged" not in rights
    assert rights["capabilities"]["add"] == list(node.RIGHTS) and rights["readOnlyRootFilesystem"]
    assert (
        "capabilities"
        not in podhelpers.pod("h", "s", {})["spec"]["containers"][0]["securityContext"]
    )


def test_scripts_of_the_node_are_shell() -> None:
    scripts = [
        node.pid("abc"),
        node.opening(["abc"]),
        node.closing({"abc": {"net.ipv4.ip_local_port_range": "1024 65535"}}, ["198.18.0.2"]),
        node.sizing("abc", "/faultlab/volumes/x", {"size": "16m", "nr_inodes": "512"}),
        node.bounding([("abc", "pids.max", "120")]),
        procfs.counters(["abc", "def"]),
    ]
    for script in scripts:
        done = subprocess.run(
            ["sh", "-n", "-c", script], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr


def test_auto_never_chooses_a_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert KubernetesEngine not in placement.allowed(AUTO)
    assert placement.allowed("kubernetes")[0] is KubernetesEngine
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    assert "kube" in KubernetesEngine.absent()


def error(status: int, message: str) -> Any:
    return SimpleNamespace(status=status, body=json.dumps({"message": message}), reason="")


def test_errors_name_the_next_command() -> None:
    forbidden = 'pods is forbidden: User "ann" cannot create resource "pods" in API group ""'
    assert cluster.refused(error(403, forbidden)).hint == "kubectl auth can-i create pods"
    assert cluster.refused(error(404, "no pod")).message.startswith("It is gone")
    at = pod_exec.Place("s", "web", "nginx")
    unreachable = 'error sending request: Post "https://node:10250/exec": dial tcp: no route'
    assert pod_exec.failed(at, unreachable).message.endswith("kubelet: dial tcp: no route")
    assert "is not running any more" in pod_exec.failed(at, "container not found").message
    waiting = SimpleNamespace(reason="ErrImagePull", message="not found")
    with pytest.raises(CannotRun, match="no image for nginx: not found") as raised:
        podhelpers.refuse_to_wait("nginx", waiting)
    assert raised.value.hint == "faultlab images push REGISTRY"
    with pytest.raises(BadInput, match="no address of a registry"):
        registry.checked("https://example.org/")


def machine(name: str) -> PodMachine:
    meta = SimpleNamespace(
        labels={}, annotations={}, namespace="faultlab-mtu", name="web", creation_timestamp=MOMENT
    )
    status = SimpleNamespace(
        container_statuses=[], ephemeral_container_statuses=[], init_container_statuses=[]
    )
    spec = SimpleNamespace(containers=[], ephemeral_containers=[])
    pod = SimpleNamespace(metadata=meta, status=status, spec=spec)
    nothing: Any = None
    return PodMachine(name, pod, nothing, nothing, lambda _: "")


MOMENT = SimpleNamespace(strftime=lambda _: "2026-01-01T00:00:00")


def test_what_an_engineer_types() -> None:
    nginx = machine("nginx")
    assert nginx.joins == "web" and machine("web").joins == ""
    where = "-n faultlab-mtu web -c nginx"
    assert nginx.typed("restart") == f"kubectl exec {where} -- restart nginx"
    assert nginx.typed("logs --tail 5") == f"kubectl logs {where} --tail 5"
    patch = nginx.typed("update --cpus 0.5 --memory 256m").partition("-p ")[2].strip("'")
    container = {"name": "nginx", "resources": {"limits": {"cpu": "500m", "memory": "268435456"}}}
    assert json.loads(patch) == {"spec": {"containers": [container]}}
    with pytest.raises(CannotRun, match="cannot be restarted"):
        machine("web").restart()
    with pytest.raises(CannotRun, match="no limit of processes of its own"):
        nginx.limit(None, None, 300)


def test_a_command_that_was_cut_off_is_no_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that came in part is neither a page nor a missing one."""
    cut_off = pod_exec.Ended(None, b"200 0\n", b"", 1.0)
    monkeypatch.setattr(pod_exec, "run", lambda *_, **__: cut_off)
    with pytest.raises(CannotRun, match="connection to nginx was cut off"):
        machine("nginx").run("curl x", 30)


def test_files_that_do_not_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program on an empty folder would find nothing, and that would be judged."""
    its: Any = cluster.Cluster.__new__(cluster.Cluster)
    helpers = Helpers(KubernetesEngine.__new__(KubernetesEngine), NodePod(its))
    place = pod_exec.Place("s", "helper", "helper")
    monkeypatch.setattr(helpers, "_pod", lambda *_, **__: nullcontext(place))
    monkeypatch.setattr(podhelpers, "running", lambda *_: "id")
    lost = pod_exec.Ended(2, b"", b"tar: not found", 0.1)
    monkeypatch.setattr(pod_exec, "run", lambda *_, **__: lost)
    with (
        pytest.raises(CannotRun, match="did not arrive: tar: not found"),
        helpers.process(Program("machine", ["x"], "s", files=b"x")),
    ):
        pass


def test_a_container_without_an_id_is_no_container(tmp_path: Path) -> None:
    """An empty pattern would fit each process of the node."""
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "cgroup").write_text("0::/kubepods/abc")
    for pid, its in (("1", "node"), ("7", "pod"), ("8", "")):
        (tmp_path / pid / "ns").mkdir(parents=True)
        for kind in ("net", "mnt") if its else ():
            (tmp_path / pid / "ns" / kind).symlink_to(f"{kind}:{its}")
    (tmp_path / "8" / "cgroup").write_text("0::/kubepods/ended")

    def found(container: str) -> tuple[int, str]:
        script = node.pid(container).replace("/proc", str(tmp_path))
        done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout.strip()

    assert found("abc") == (0, "7")
    assert found("") == (1, "")
    assert found("ended") == (1, "")


def test_the_rights_are_those_of_the_cluster_role() -> None:
    file = paths.root() / "deploy/kubernetes/rights.yaml"
    role = next(its for its in yaml.safe_load_all(file.read_text()) if its["kind"] == "ClusterRole")
    named = [
        (verb, *f"{resource}/".split("/")[:2], group)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    ]
    assert sorted(named) == sorted(podtrial.RIGHTS)


def manifests() -> list[dict[str, Any]]:
    """Return all objects that an administrator and a teacher give to a cluster."""
    folder = paths.root() / "deploy/kubernetes"
    listed = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
    files = [*(folder / name for name in listed), *(folder / "class").glob("*.yaml")]
    return [its for file in files for its in yaml.safe_load_all(file.read_text())]


def accounts(kind: str) -> set[str]:
    """Return the accounts that have a ClusterRole or a Role, by its kind."""
    bound = [its for its in manifests() if its["kind"] in ("ClusterRoleBinding", "RoleBinding")]
    return {
        who["name"] for its in bound if its["roleRef"]["kind"] == kind for who in its["subjects"]
    }


def test_the_server_of_a_class_has_an_account_of_its_own() -> None:
    """Strangers reach it, so it cannot become a task: it has no right in the tasks' namespace."""
    (server,) = [its for its in manifests() if its["kind"] == "Deployment"]
    its = server["spec"]["template"]["spec"]["serviceAccountName"]
    made = {a["metadata"]["name"] for a in manifests() if a["kind"] == "ServiceAccount"}
    assert its == "class" and its != jobspec.HOME and {its, jobspec.HOME} <= made
    assert accounts("ClusterRole") == {its, jobspec.HOME} and its not in accounts("Role")


def test_no_account_can_ask_a_kubelet() -> None:
    """`nodes/proxy` is the right to run programs in all pods of a node."""
    roles = [its for its in manifests() if its["kind"] in ("ClusterRole", "Role")]
    named = {name for role in roles for rule in role["rules"] for name in rule["resources"]}
    assert not {"nodes/proxy", "secrets", "*"} & named
    assert "nodes" not in {resource for _, resource, part, _ in podtrial.RIGHTS if part}


def test_both_accounts_are_kept_in_the_namespaces_of_stacks() -> None:
    """Else the right to create pods and to run programs in them holds for the whole cluster."""
    policies = {
        its["metadata"]["name"]: its["spec"]
        for its in manifests()
        if its["kind"] == "ValidatingAdmissionPolicy"
    }
    bindings = [its for its in manifests() if its["kind"] == "ValidatingAdmissionPolicyBinding"]
    assert {its["spec"]["policyName"] for its in bindings} == {*policies}
    assert all(its["spec"]["validationActions"] == ["Deny"] for its in bindings)
    changed = {
        (verb, f"{resource}/{part}".rstrip("/"))
        for verb, resource, part, _ in podtrial.RIGHTS
        if verb not in ("get", "list") or part == "exec"
    }
    judged = set()
    for its in policies.values():
        assert its["failurePolicy"] == "Fail"
        (rule,) = its["validations"]
        assert "'faultlab.stack' in" in rule["expression"]
        (who,) = its["matchConditions"]
        assert "startsWith('system:serviceaccount:faultlab:')" in who["expression"]
        for each in its["matchConstraints"]["resourceRules"]:
            judged |= {(verb, name) for verb in each["operations"] for name in each["resources"]}
    verbs = {"create": "CREATE", "delete": "DELETE", "deletecollection": "DELETE"}
    for verb, name in changed:
        asked = "CONNECT" if name == "pods/exec" else verbs.get(verb, "UPDATE")
        assert (asked, name) in judged, name


def test_a_pod_of_a_seat_has_a_limit_of_its_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one container, so that it is the limit of the whole pod and not several times as much."""
    monkeypatch.setenv(services.DISK, "2g")
    for spec in pods_of("stampede").values():
        most = [
            c["resources"].get("limits", {}).get("ephemeral-storage") for c in spec["containers"]
        ]
        assert [each for each in most if each] == ["2Gi"]


def evicted(space: str, message: str, **limits: str) -> Any:
    """Return a pod that a kubelet has ended."""
    has = SimpleNamespace(resources=SimpleNamespace(limits=limits or None))
    return SimpleNamespace(
        metadata=SimpleNamespace(namespace=space),
        spec=SimpleNamespace(containers=[has, SimpleNamespace(resources=None)]),
        status=SimpleNamespace(reason="Evicted", message=message),
    )


def test_the_seats_that_have_filled_the_disk_are_known() -> None:
    """Without asking a kubelet: it has ended their pods."""
    most = {"cpu": "1500m", "ephemeral-storage": "2Gi"}
    over = "Pod ephemeral local storage usage exceeds the total limit of containers 2Gi. "
    pods = [
        evicted("faultlab-a-mtu", over, **most),
        evicted("faultlab-b-mtu", "The node was low on resource: memory. ", **most),
        evicted("faultlab-c-mtu", over),
    ]
    engine = KubernetesEngine.__new__(KubernetesEngine)
    asked: dict[str, str] = {}

    def listed(**words: str) -> Any:
        asked.update(words)
        return SimpleNamespace(items=pods)

    core = SimpleNamespace(list_pod_for_all_namespaces=listed)
    engine.cluster = SimpleNamespace(core=core, errors=nullcontext)  # type: ignore[assignment]
    assert engine.on_disk() == {"faultlab-a-mtu": (2 << 30) + 1}
    assert asked["label_selector"] == f"{ROLE_LABEL}={MACHINE}"


def test_a_registry_that_does_not_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the images are not missing."""
    busy = SimpleNamespace(status=503)
    monkeypatch.setattr("urllib3.request", lambda *_, **__: busy)
    with pytest.raises(CannotRun, match=r"example\.org responds with 503"):
        registry._in_registry("example.org", "faultlab/nginx:1")


def test_a_pod_has_a_cluster_and_no_docker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The server of a class finds its stacks there, and can be the first command there."""
    pytest.importorskip("kubernetes")
    (tmp_path / "token").write_text("secret")
    monkeypatch.setattr(own_pod, "_TOKEN", tmp_path / "token")
    monkeypatch.setattr(own_pod, "_SOCKET", tmp_path / "docker.sock")
    for name in ("KUBECONFIG", "DOCKER_HOST"):
        monkeypatch.delenv(name, raising=False)
    assert LocalEngine.absent() == "a pod has no Docker" and not KubernetesEngine.absent()
    for name in ("KUBECONFIG", "DOCKER_HOST"):
        with monkeypatch.context() as patch:
            patch.setenv(name, str(tmp_path / "none"))
            assert not own_pod.in_a_pod() and not LocalEngine.absent()
    (tmp_path / "docker.sock").touch()  # a pod of a CI, with a Docker beside it
    assert not LocalEngine.absent() and not own_pod.in_a_pod()


def test_a_pod_asks_no_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the nodes have to reach it."""
    monkeypatch.setenv("FAULTLAB_REGISTRY", "127.0.0.1:1")
    monkeypatch.setattr(registry, "in_a_pod", lambda: True)
    nothing: Any = None
    assert registry.ClusterImages(nothing).missing() == []


def test_one_engine_that_is_lost_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    class Lost(KubernetesEngine):
        @classmethod
        def absent(cls) -> str:
            return ""

        @classmethod
        def reach(cls, patient: bool = False) -> KubernetesEngine:
            raise CannotRun("The API does not respond.", "kubectl cluster-info")

    class There(Lost):
        @classmethod
        def reach(cls, patient: bool = False) -> KubernetesEngine:
            return cls.__new__(cls)

    monkeypatch.setattr(placement, "local", There.reach)
    monkeypatch.setattr(placement, "ENGINES", {"local": There, "one": Lost, "two": There})
    found, problem = placement.everywhere()
    assert len(found) == 2 and problem is not None and "does not respond" in problem.message


def test_a_stack_on_a_cluster_outlives_the_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a boot of this machine, `status` and `down` still find it."""
    monkeypatch.setattr(cluster, "absent", lambda: "")
    monkeypatch.setenv("FAULTLAB_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "before"))
    engine = KubernetesEngine
    assert engine.absent() and not engine.might_host("faultlab-mtu")
    engine._marks().mkdir(parents=True)
    (engine._marks() / "faultlab-mtu").touch()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "after"))
    assert not engine.absent() and engine.might_host("faultlab-mtu")


def test_the_same_user_and_folder_on_another_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster has stacks from many machines, and `down` must not remove another one's."""
    meta = SimpleNamespace(annotations=cluster.owner_note())
    assert cluster.owner_of(meta) == naming.owner()
    monkeypatch.setattr(platform, "node", lambda: "another")
    with pytest.raises(lock.Held, match=f"belongs to {naming.owner()} on "):
        lock.refuse_others("faultlab-mtu", [cluster.owner_of(meta)])


@pytest.mark.parametrize(("others", "missing"), [(3, ["nginx"]), (50, [])])
def test_a_node_lists_only_some_of_its_images(others: int, missing: list[str]) -> None:
    listed = [SimpleNamespace(names=[f"example.org/{n}"]) for n in range(others)]
    listed.append(SimpleNamespace(names=[f"docker.io/{tag('mysql')}"]))
    node = SimpleNamespace(status=SimpleNamespace(images=listed))
    images = registry.ClusterImages(SimpleNamespace(nodes=lambda: [node]))  # type: ignore[arg-type]
    assert images.missing(["nginx", "mysql"]) == missing


def test_amounts() -> None:
    assert [amount(text) for text in ("500m", "256Mi", "2", "")] == [0.5, 256 << 20, 2, -1]


class Socket:
    """A WebSocket that has these messages, and then is closed."""

    def __init__(self, *messages: bytes) -> None:
        self.messages = [*messages]

    def recv_data_frame(self, _control: bool) -> tuple[int, Any]:
        if not self.messages:
            raise OSError("closed")
        return 2, SimpleNamespace(data=self.messages.pop(0))


def test_an_api_that_accepts_and_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a request nor a command waits for it without end."""
    pytest.importorskip("kubernetes")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        its = {"server": f"http://127.0.0.1:{silent.getsockname()[1]}"}
        file = tmp_path / "config"
        chosen = [{"name": "x", "context": {"cluster": "c", "user": "u"}}]
        file.write_text(
            yaml.safe_dump(
                {
                    "clusters": [{"name": "c", "cluster": its}],
                    "users": [{"name": "u", "user": {}}],
                    "contexts": chosen,
                    "current-context": "x",
                }
            )
        )
        monkeypatch.setenv("KUBECONFIG", str(file))
        monkeypatch.setattr(cluster, "_PATIENCE", (0.2, 0.2))
        monkeypatch.setattr(pod_exec, "_PATIENCE", 0.2)
        made = cluster.Cluster()
        with pytest.raises(CannotRun, match="does not respond: Read timed out"):
            _ = made.version
        with pytest.raises(CannotRun, match=r"does not respond: .*timed out"):
            pod_exec.connect(made, pod_exec.Place("s", "web", "nginx"), ["true"])
    file.write_text("a: [b")
    with pytest.raises(CannotRun, match="kubeconfig is broken"):
        cluster.Cluster()


def test_the_end_of_a_command() -> None:
    websocket = pytest.importorskip("websocket")
    assert websocket.ABNF.OPCODE_BINARY == 2
    failed = {"status": "Failure", "details": {"causes": [{"reason": "ExitCode", "message": "3"}]}}
    line = pod_exec.PodExec(Socket(b"\1one", b"\1", b"\2two", b"\3" + json.dumps(failed).encode()))
    assert [*line.read()] == [(1, b"one"), (2, b"two")] and line.code == 3 and not line.problem
    refused = {"status": "Failure", "message": "container not found"}
    line = pod_exec.PodExec(Socket(b"\3" + json.dumps(refused).encode()))
    assert not [*line.read()] and line.problem == "container not found"
    line = pod_exec.PodExec(Socket(b"\1half"))
    assert [*podhelpers.parts(line)] == [(b"half", None)] and line.code is None


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Any]:
    """Keep a daemon here, with its files in a folder of the test."""
    script = (ROOM / "supervisor.pl").read_text().replace("'/run/", f"'{tmp_path}/")
    # The processes of this test are in one cgroup with it, and must not be ended.
    script = script.replace("kill 'KILL', $pid if", "next if")
    file = tmp_path / "supervisor.pl"
    file.write_text(script)
    daemon = ["sh", "-c", f"echo started >>{tmp_path}/starts; exec sleep 60"]
    process = subprocess.Popen(["perl", str(file), "daemon", "TERM", f"{tmp_path}/memory", *daemon])
    yield SimpleNamespace(folder=tmp_path, pid=process.pid)
    process.terminate()
    process.wait(10)


def state(folder: Path, wanted: str) -> list[str]:
    deadline = time.monotonic() + 10
    words: list[str] = []
    while time.monotonic() < deadline:
        file = folder / "supervisor" / "state"
        words = file.read_text().split() if file.exists() else []
        if words and words[0] + words[3] == wanted:
            break
        time.sleep(0.02)
    return words


def test_a_kept_daemon_starts_again(kept: Any) -> None:
    (kept.folder / "memory").mkdir()
    (kept.folder / "memory" / "file").touch()
    first = state(kept.folder, "10")
    restart = (ROOM / "restart.sh").read_text().replace("/run/", f"{kept.folder}/")
    subprocess.run(["sh", "-c", restart], check=True, timeout=20)
    second = state(kept.folder, "11")
    assert (first[:4], second[:4]) == (["1", "0", "0", "0"], ["1", "0", "0", "1"])
    assert first[4] != second[4] and not [*(kept.folder / "memory").iterdir()]
    subprocess.run(["pkill", "-KILL", "-P", str(kept.pid)], check=True)
    assert state(kept.folder, "01")[:2] == ["0", "137"]
    subprocess.run(["sh", "-c", restart], check=True, timeout=20)
    assert state(kept.folder, "12")[0] == "1"


def test_who_waits_for_long_asks_the_api_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stack of six seconds asked 54 times if it was gone."""
    now, asked = [0.0], [0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))

    def look() -> bool:
        asked[0] += 1
        return now[0] > 6

    assert podhelpers.until(look, "It did not end")
    assert asked[0] <= 25 and now[0] < 6.6
    with pytest.raises(CannotRun, match="It did not end within 9 s"):
        podhelpers.until(lambda: None, "It did not end", 9)
