"""A cluster: walks and looks as Jobs, and a class whose seats, and whose server, are pods."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from playwright.sync_api import Browser

from faultlab.core import git, naming, paths
from faultlab.core.errors import CannotRun
from faultlab.engine.contract import Machine
from faultlab.engine.kubernetes import program, registry
from faultlab.engine.kubernetes.engine import KubernetesEngine
from faultlab.engine.stack import Stack
from tests.live import clusters
from tests.live.classes import REPAIRED, Class, opened, type_into
from tests.live.clusters import kubectl
from tests.live.commandline import finish, spawn
from tests.waiting import until

pytestmark = clusters.needs_time

SEATS = ("Ada", "Grace", "Linus", "Barbara", "Ken", "Radia")
CLASS = f"""
title = "A class of six"
engine = "kubernetes"
seats = {json.dumps(SEATS)}
labs  = ["mtu"]
limits = "cpus=1 memory=512m pids=200"
later  = 0
"""
NODE, API = "198.19.0.1", "198.19.32.1"  # what cluster.sh gives the node, and the API


@pytest.fixture(scope="module")
def cluster() -> Iterator[KubernetesEngine]:
    with clusters.up() as found:
        clusters.prepare()
        before = clusters.things()
        yield found
        until(lambda: clusters.things() == before, 60, "all that the tests made is gone")


def told(file: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(file.read_text())["cases"] if file.exists() else []
    return found


def test_walks_go_on_when_their_command_is_killed(
    cluster: KubernetesEngine, tmp_path: Path
) -> None:
    """The same command collects what has ended meanwhile, and makes no walk twice."""
    file = tmp_path / "campaign.json"
    how = "--quick", "--repeat", "2", "--engine", cluster.name, "--jobs", "2", "--json", str(file)
    killed = spawn("verify", "mtu", "iptables-drop", *how)
    until(lambda: bool(told(file)), 300, "the first walk has ended")
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    first = told(file)
    until(
        lambda: "Succeeded" in kubectl("get", "pods", "-n", "faultlab", "-o", "json"), 300, "more"
    )
    code, said = finish(spawn("verify", "mtu", "iptables-drop", *how))
    assert code == 0, said
    cases = told(file)
    assert len(cases) == 4 and {case["verdict"] for case in cases} == {"pass"}
    assert len({case["run"] for case in cases}) == 4
    assert {case["commit"] for case in cases} == {git.commit()}
    assert [case["run"] for case in cases if case["kept"]] == [case["run"] for case in first]
    for case in cases:
        assert (paths.runs() / case["run"] / "run.json").exists()


def test_walks_that_are_stopped_leave_nothing(cluster: KubernetesEngine, tmp_path: Path) -> None:
    before = clusters.things()
    how = "--engine", cluster.name, "--json", str(tmp_path / "campaign.json")
    stopped = spawn("verify", "mtu", *how)
    until(lambda: "verify-mtu" in kubectl("get", "pods", "-A"), 120, "its stack is there")
    stopped.send_signal(signal.SIGINT)
    assert finish(stopped)[0] == 3
    assert clusters.things() == before


def test_looks_of_a_score_go_on_when_its_command_is_killed(
    cluster: KubernetesEngine, tmp_path: Path
) -> None:
    """The same command collects them. Alone the two floors are looked at as well."""
    file = tmp_path / "score.json"
    words = ("score", "always-alarm", "--labs", "mtu", "--engine", cluster.name, "--json")
    killed = spawn(*words, str(file))
    until(file.exists, 300, "the first look has ended")
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    first = {(t["tool"], t["phase"]): t["run"] for t in json.loads(file.read_text())["trials"]}
    code, said = finish(spawn(*words, str(file)))
    assert code == 0, said
    trials = json.loads(file.read_text())["trials"]
    now = {(t["tool"], t["phase"]): t["run"] for t in trials}
    assert len(now) == len(trials) == 10 and 0 < len(first) < 10
    assert {key: now[key] for key in first} == first
    for trial in trials:
        assert trial["diagnosis"]["alarm"] == (trial["tool"] == "always-alarm")
        assert (paths.runs() / trial["run"] / "run.json").exists()


@pytest.fixture
def served(cluster: KubernetesEngine, tmp_path: Path) -> Iterator[Path]:
    """A class of two whose server is a Deployment, made as deploy/kubernetes/class says."""
    assert cluster.name == "kubernetes"
    folder = tmp_path / "class"
    shutil.copytree(paths.root() / "deploy/kubernetes/class", folder)
    (folder / "class.toml").write_text(CLASS.replace(json.dumps(SEATS), '["Ada", "Grace"]'))
    file = folder / "kustomization.yaml"
    its = yaml.safe_load(file.read_text())
    name, _, tag = program.its_tag().rpartition(":")
    its["images"][0] |= {"newName": f"{registry.chosen()}/{name}", "newTag": tag}
    (patch,) = its["patches"]
    patch["patch"] = patch["patch"].replace("registry.example.org/labs", registry.chosen())
    file.write_text(yaml.safe_dump(its))
    key = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    named = ["-subj", "/CN=class.example.org", "-keyout", "tls.key", "-out", "tls.crt"]
    subprocess.run([*key, *named], cwd=tmp_path, capture_output=True, check=True)
    pair = f"--cert={tmp_path}/tls.crt", f"--key={tmp_path}/tls.key"
    kubectl("create", "secret", "tls", "class-tls", "-n", "faultlab", *pair)
    volume = Path(os.environ["KUBECONFIG"]).parents[1] / "data/class"
    volume.mkdir()
    volume.chmod(0o777)  # a volume of a real cluster gets its group from fsGroup
    spec = {"capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOnce"]}
    body = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "class"}}
    text = json.dumps({**body, "spec": {**spec, "hostPath": {"path": str(volume)}}})
    kubectl("apply", "-f", "-", given=text)
    kubectl("apply", "-k", str(folder))
    try:
        yield folder
        assert "its stacks are removed" in in_the_server("end")
    finally:
        kubectl("delete", "-k", str(folder), "--wait")
        kubectl("delete", "secret", "class-tls", "-n", "faultlab")
        kubectl("delete", "persistentvolume", "class")
        shutil.rmtree(volume)


def in_the_server(*words: str) -> str:
    """Run `faultlab class` in the pod of the server."""
    its = ["python3", "-m", "faultlab", "class", words[0], "/class/class.toml", *words[1:]]
    available = "--for=condition=Available", "--timeout=100s"
    kubectl("wait", *available, "deployment/class", "-n", "faultlab")
    return kubectl("exec", "-n", "faultlab", "deployment/class", "--", *its)


def states() -> list[str]:
    return [turn["state"] for turn in json.loads(in_the_server("status", "--json"))["turns"]]


def links() -> list[str]:
    """Return the links that the server printed: the trainer's, and one for each seat."""
    log = kubectl("logs", "-n", "faultlab", "deployment/class")
    return re.findall(r"https://class\.example\.org\S*token=\S+", log)


def test_the_server_of_a_class_is_deleted(served: Path, outside: Browser) -> None:
    """The next pod has the roster, the links and the stacks. The Ingress leads to it."""
    assert served.exists()
    until(lambda: states() == ["red", "red"], 300, "both labs are there")
    before = links()
    kubectl("delete", "pod", "-n", "faultlab", "-l", "app=class")
    assert states() == ["red", "red"]
    assert links() == before and len(before) == 3
    until(lambda: "no endpoints" not in through_the_ingress(), 60, "the controller knows the pod")
    said: list[str] = []
    trainer, ada = opened(outside, before[0], said), opened(outside, before[1], said)
    trainer.locator("#seat-2").get_by_text("open").wait_for()
    type_into(ada, "web", "ip link set dev eth0 mtu 1500 && echo do''ne", r"^done$")
    ada.click("[data-act=check]")
    trainer.locator("#seat-1").get_by_text(REPAIRED).wait_for()
    assert said == []
    with forwarded() as port:
        page = outside.new_page()
        page.goto(before[0].replace("class.example.org:443", f"127.0.0.1:{port}"))
        page.locator("#seat-1").get_by_text(REPAIRED).wait_for()
        page.close()


def through_the_ingress() -> str:
    """Return what somebody without a link gets."""
    name = "class.example.org"
    with httpx.Client(verify=False) as client:  # the certificate is of this test
        response = client.get(
            f"https://{clusters.INGRESS}/",
            headers={"host": name},
            extensions={"sni_hostname": name},
        )
    return response.text


@pytest.fixture
def outside(browser: Browser) -> Iterator[Browser]:
    """A browser for which the name of the class is that of the Ingress controller."""
    found = browser.browser_type.launch(
        executable_path=shutil.which("chromium"),
        args=[
            "--no-sandbox",
            "--ignore-certificate-errors",
            f"--host-resolver-rules=MAP class.example.org:443 {clusters.INGRESS}",
        ],
    )
    yield found
    found.close()


@contextmanager
def forwarded() -> Iterator[int]:
    """Yield a port of this machine at which the server is reached."""
    folder = Path(os.environ["KUBECONFIG"]).parents[1]
    words = "port-forward", "-n", "faultlab", "deployment/class", ":443"
    with subprocess.Popen([folder / "bin/kubectl", *words], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        line = process.stdout.readline().decode()
        try:
            yield int(line.split("127.0.0.1:")[1].split()[0])
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def six(cluster: KubernetesEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Class]:
    """A class of six that has begun; ended in the end."""
    found = Class(tmp_path_factory.mktemp("project"), "six", CLASS)
    found.start()
    try:
        found.wait(*["red"] * len(SEATS))
        yield found
    finally:
        found.ended()
        assert not [name for name in cluster.stacks() if "-six-" in name]


def stack(cluster: KubernetesEngine, seat: int) -> Stack:
    return Stack(cluster, f"{naming.prefix()}six-{seat}-mystery")


def test_a_class_of_six(six: Class, browser: Browser, tmp_path: Path) -> None:
    """One repairs the fault in a terminal of the page, and the trainer sees it."""
    said: list[str] = []
    ada = opened(browser, six.told["seats"]["Ada"], said)
    trainer = opened(browser, six.told["trainer"], said)
    ada.locator("#acts").wait_for()
    type_into(ada, "web", "ip link show eth0", r"mtu 100\b")
    type_into(ada, "web", "ip link set dev eth0 mtu 1500 && echo do''ne", r"^done$")
    ada.click("[data-act=check]")
    ada.locator("#state", has_text="repaired").wait_for()
    trainer.locator("#seat-1").get_by_text(REPAIRED).wait_for()
    trainer.locator("#seat-6").get_by_text("open").wait_for()
    shots = Path(os.environ.get("FAULTLAB_SHOTS", tmp_path))
    ada.screenshot(path=shots / "cluster-ada.png", full_page=True)
    trainer.screenshot(path=shots / "cluster-trainer.png", full_page=True)
    assert said == []
    assert six.states() == ["green", *["red"] * 5]


def test_a_seat_reaches_no_other_and_not_the_cluster(six: Class, cluster: KubernetesEngine) -> None:
    """With root in its machines, and with the routes that a learner can set."""
    hers = [machine.must("hostname -I").split()[0] for machine in stack(cluster, 2).machines]
    targets = [*((each, 80) for each in hers), (NODE, 10250), (NODE, 16443), (API, 443)]
    mine = stack(cluster, 1)
    own = mine["web"].must("hostname -I").split()[0]
    assert mine["client"].run(f"nc -z -w 2 {own} 80").code == 0
    for name in ("client", "web"):
        mine[name].run("ip route add default via 198.19.16.1")
        for host, port in targets:
            assert mine[name].run(f"nc -z -w 2 {host} {port}").code != 0, (name, host, port)
    assert six.states()[1] == "red"


def test_a_seat_has_a_quota_and_limits(six: Class, cluster: KubernetesEngine) -> None:
    its = stack(cluster, 3)
    quota = json.loads(kubectl("get", "resourcequota", "-n", its.name, "-o", "json"))["items"]
    assert quota[0]["spec"]["hard"]["services"] == "0"
    bombed = its["web"].run("for i in $(seq 400); do sleep 5 & done; wait", timeout=60)
    assert "fork" in bombed.err
    assert six.states()[2] == "red"


def answers(machine: Machine) -> bool:
    try:
        return machine.run("true").code == 0
    except CannotRun:
        return False


def test_a_kubelet_starts_again(six: Class, cluster: KubernetesEngine) -> None:
    """The pods stay, with all that was changed in them, and the seats are judged as before."""
    before = six.states()
    its = stack(cluster, 5)
    began = {machine.name: machine.state.started for machine in its.machines}
    clusters.kill_kubelet()
    answer = six.press("Ken", "/seat/5/check")
    assert answer.status_code in {200, 503}, answer.text
    assert six.states()[4] in {"red", "unknown"}
    until(lambda: answers(its["web"]), 60, "the kubelet answers again")
    assert six.press("Ken", "/seat/5/check").status_code == 200
    six.wait(*before)
    assert {machine.name: machine.state.started for machine in stack(cluster, 5).machines} == began


def test_a_machine_that_is_gone_is_not_judged(six: Class, cluster: KubernetesEngine) -> None:
    """A pod is evicted, as when its node is drained. Restore gives its seat a new stack."""
    its = stack(cluster, 4)
    evicted = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "web", "namespace": its.name},
        "deleteOptions": {"gracePeriodSeconds": 0},
    }
    to = f"/api/v1/namespaces/{its.name}/pods/web/eviction"
    kubectl("create", "--raw", to, "-f", "-", given=json.dumps(evicted))
    answer = six.press("Barbara", "/seat/4/check")
    assert answer.status_code in {200, 503}, answer.text
    assert six.states()[3] in {"red", "unknown"}
    assert six.press("trainer", "/trainer/seat/4/restore").status_code == 200
    six.wait("green", *["red"] * 5)
    assert stack(cluster, 4)["web"].state.running
