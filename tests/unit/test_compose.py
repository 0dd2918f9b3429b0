"""Compose plans: what is run of stack.yaml and an overlay, and what an overlay may not say."""

from __future__ import annotations

import copy
import re
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from faultlab.core import naming
from faultlab.core.errors import CannotRun
from faultlab.engine.docker import compose, launch, subnet
from faultlab.lab import collection, images, services
from faultlab.lab import loader as labs
from faultlab.lab.services import Plan
from tests.unit.conftest import Project, Run, said

OVERLAY = "labs/mtu/compose.yaml"
LABELS = {"faultlab.stack": "faultlab-x", "faultlab.lab": "mtu", "faultlab.run": "r1"}
OURS = collection.ours()
SUBNET = "198.18.7.0/24"


def documents(project: Project, overlay: str = "", *daemons: str) -> list[dict[str, Any]]:
    """Return what Compose would get for these daemons, as it comes out of the files."""
    files = [project.root / OVERLAY] if overlay else []
    for file in files:
        file.write_text(overlay)
    plan = services.read(collection.ours(), *files)
    made = plan.documents("faultlab-x", daemons or ("nginx",), SUBNET, LABELS)
    return [yaml.safe_load(yaml.safe_dump(document, sort_keys=False)) for document in made]


def plan(**services: dict[str, Any]) -> Plan:
    return Plan(OURS, ({"services": services},))


def test_only_what_a_lab_needs_is_started(project: Project) -> None:
    (stack,) = documents(project)
    assert list(stack["services"]) == ["client", "web", "nginx", "client-user"]
    (stack,) = documents(project, "", "php-fpm", "nginx")
    assert list(stack["services"]) == ["client", "web", "php-fpm", "nginx", "client-user"]


def test_everything_carries_our_labels(project: Project) -> None:
    overlay = """
services:
  nginx: {volumes: [extra:/extra]}
volumes: {extra: {}}
networks: {default: {internal: true}}
"""
    for document in documents(project, overlay):
        for kind in ("services", "volumes", "networks"):
            for name, thing in (document.get(kind) or {}).items():
                assert thing["labels"] == LABELS, f"{kind}.{name}"


def test_where_a_program_is_examined_no_name_is_ours(project: Project) -> None:
    """It reads the names of volumes in mountinfo, and the others from the resolver."""
    lab = labs.load("idle-drop")  # its overlay adds a machine
    named = naming.neutral("faultlab-x-exam")
    made = lab.services.documents("faultlab-x-exam", lab.daemons, SUBNET, LABELS, named=named)
    names = {service["container_name"] for each in made for service in each["services"].values()}
    for each in made:
        for kind in ("volumes", "networks"):
            names |= {thing["name"] for thing in (each.get(kind) or {}).values()}
    assert names and all(re.fullmatch(r"n[0-9a-f]{8}-[a-z0-9-]+", name) for name in names), names
    assert named != naming.neutral("faultlab-y-exam")


def test_the_names_of_an_examined_lab_are_given_to_compose(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the learner of a mystery types the usual ones."""
    on: Any = SimpleNamespace(
        errors=nullcontext, env={}, client=SimpleNamespace(networks=SimpleNamespace(list=list))
    )
    monkeypatch.setattr(compose, "up", lambda *_: None)
    monkeypatch.setattr(subnet, "host_routes", list)
    for lab, ours in (
        (labs.load("mtu").called("exam", examined=True), False),
        (labs.load("mtu").called("mystery"), True),
    ):
        launch.launch(on, lab, "faultlab-x-exam", "r", tmp_path)
        text = (tmp_path / "compose.yaml").read_text()
        assert ("container_name: faultlab-x-exam-nginx" in text) is ours


def test_services_are_named_and_tagged(project: Project) -> None:
    (stack,) = documents(project)
    for name, service in stack["services"].items():
        assert service["container_name"] == f"faultlab-x-{name}"
    assert stack["services"]["web"]["image"] == images.tag("machine")
    assert stack["services"]["nginx"]["image"] == images.tag("nginx")
    assert not [key for key in stack if key.startswith("x-")]


def test_the_network_is_shut_and_addressed(project: Project) -> None:
    (stack,) = documents(project)
    network = stack["networks"]["default"]
    assert network["internal"] is True
    assert network["ipam"] == {"config": [{"subnet": SUBNET}]}


def test_an_overlay_adds_a_machine_and_its_daemon(project: Project) -> None:
    overlay = """
services:
  queue: {image: machine, hostname: queue}
  broker: {image: nginx, network_mode: "service:queue", pid: "service:queue"}
  unused: {image: nginx, network_mode: "service:queue", pid: "service:queue"}
  nginx: {environment: {A: b}}
"""
    stack, added = documents(project, overlay, "nginx", "broker")
    assert list(stack["services"]) == ["client", "web", "nginx", "client-user"]
    assert list(added["services"]) == ["queue", "nginx", "broker"]
    assert added["services"]["nginx"]["environment"] == {"A": "b"}
    assert "image" not in added["services"]["nginx"]
    assert "container_name" in added["services"]["nginx"]


def test_an_overlay_adds_a_machine_without_a_daemon(project: Project) -> None:
    """A second client runs nothing, so no daemon asks for it; the lab that brings it does."""
    overlay = """
services:
  crowd: {image: machine, hostname: crowd}
  crowd-user: {image: machine, network_mode: "service:crowd", read_only: true}
  web: {cpus: 1}
"""
    stack, added = documents(project, overlay)
    assert list(stack["services"]) == ["client", "web", "nginx", "client-user"]
    assert list(added["services"]) == ["web", "crowd", "crowd-user"]
    assert added["services"]["crowd"]["container_name"] == "faultlab-x-crowd"
    assert added["services"]["crowd"]["labels"] == LABELS


def test_an_overlay_changes_no_file_of_ours(project: Project) -> None:
    """The plan is read once and used for several stacks: documents must not write into it."""
    made = services.read(collection.ours())
    first = made.documents("faultlab-x", ["nginx"], SUBNET, LABELS)
    again = made.documents("faultlab-y", ["nginx"], SUBNET, {"faultlab.stack": "faultlab-y"})
    assert first[0]["services"]["nginx"]["container_name"] == "faultlab-x-nginx"
    assert again[0]["services"]["nginx"]["image"] == images.tag("nginx")
    assert again[0]["services"]["nginx"]["labels"] == {"faultlab.stack": "faultlab-y"}


def test_needed_puts_machines_before_daemons() -> None:
    two = plan(
        client={},
        web={},
        db={},
        nginx={"network_mode": "service:web"},
        mysql={"network_mode": "service:db"},
        fpm={"network_mode": "service:web"},
    )
    assert two.daemons == {"nginx": "web", "mysql": "db", "fpm": "web"}
    assert two.needed(["nginx", "mysql", "fpm"]) == [
        *("client", "web", "db"),
        *("nginx", "mysql", "fpm"),
    ]


MERGED = {
    "a value is replaced": ({"cpus": 1, "init": True}, {"cpus": 2}, {"cpus": 2, "init": True}),
    "tables are merged": (
        {"ulimits": {"nproc": 5}, "networks": {"default": {"aliases": ["a"], "priority": 1}}},
        {"ulimits": {"nofile": 9}, "networks": {"default": {"aliases": ["b"]}}},
        {
            "ulimits": {"nproc": 5, "nofile": 9},
            "networks": {"default": {"aliases": ["a", "b"], "priority": 1}},
        },
    ),
    "a list of pairs is a table": (
        {"environment": ["A=1", "B=x=y"]},
        {"environment": {"A": "2"}},
        {"environment": {"A": "2", "B": "x=y"}},
    ),
    "lists are added up": (
        {"cap_add": ["NET_ADMIN"], "tmpfs": ["/a"]},
        {"cap_add": ["NET_RAW", "NET_ADMIN"], "tmpfs": ["/b"]},
        {"cap_add": ["NET_ADMIN", "NET_RAW"], "tmpfs": ["/a", "/b"]},
    ),
    "commands are replaced": (
        {"command": ["sleep", "1"], "entrypoint": ["a"]},
        {"command": ["sleep", "2"], "entrypoint": ["b"]},
        {"command": ["sleep", "2"], "entrypoint": ["b"]},
    ),
}


@pytest.mark.parametrize(("old", "more", "wanted"), MERGED.values(), ids=MERGED)
def test_files_are_merged_as_compose_does(
    old: dict[str, Any], more: dict[str, Any], wanted: dict[str, Any]
) -> None:
    parts = ({"services": {"web": old}}, {"services": {"web": more, "db": None}})
    before = copy.deepcopy(parts)
    assert Plan(OURS, parts).services == {"web": wanted, "db": {}}
    assert parts == before, "a file is read once and used for several stacks"


ONE_OF = f"services.web.image: expected one of {', '.join(sorted(images.names()))}"
MISTAKES = {
    "services: [a\n": "not valid YAML: line 2: expected ',' or ']', but got '<stream end>'",
    "- a\n": "expected services, got ['a']",
    "": "expected services, got None",
    "services: [a]\n": "services: expected a table, got ['a']",
    "services: {web: fast}\n": "services.web: expected a table, got 'fast'",
    "services: {web: {image: mysqld}}\n": f"{ONE_OF}, got 'mysqld'",
    "services: {web: {image: [nginx]}}\n": f"{ONE_OF}, got ['nginx']",
    "services: {wbe: {cpus: 1}}\n": "services.wbe.image: missing key",
    "services: {x: {image: nginx, network_mode: 'service:nowhere'}}\n": (
        "services.x.network_mode: expected service:MACHINE of this stack, got 'service:nowhere'"
    ),
}
UNSAFE = {  # design, section 3: the host is never touched
    "web.privileged": "services: {web: {privileged: true}}",
    "client.ports": "services: {client: {ports: ['80:80']}}",
    "web.container_name": "services: {web: {container_name: shop}}",
    "web.network_mode": "services: {web: {network_mode: host}}",
    "web.pid": "services: {web: {pid: host}}",
    "web.ipc": "services: {web: {ipc: host}}",
    "web.devices": "services: {web: {devices: [/dev/kvm]}}",
    "web.security_opt": "services: {web: {security_opt: ['systempaths=unconfined']}}",
    "web.cap_add": "services: {web: {cap_add: [SYS_ADMIN]}}",
    "web.volumes": "services: {web: {volumes: ['/:/host']}}",
    "web.extends": "services: {web: {extends: {file: /x.yaml, service: y}}}",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_a_broken_overlay(text: str, project: Project, faultlab: Run) -> None:
    project.write(OVERLAY, text)
    assert faultlab("start", "mtu") == said(f"{OVERLAY}: {MISTAKES[text]}", f"edit {OVERLAY}")


@pytest.mark.parametrize("key", UNSAFE)
def test_an_overlay_cannot_open_the_stack(key: str, project: Project, faultlab: Run) -> None:
    project.write(OVERLAY, UNSAFE[key] + "\n")
    problem = f"{OVERLAY}: services.{key}: not allowed in a lab"
    assert faultlab("start", "mtu") == said(problem, f"edit {OVERLAY}")


@pytest.mark.parametrize(
    ("network", "key"),
    [
        ("default: {internal: false}", "default.internal"),
        ("second: {internal: true}", "second"),  # it would get no subnet of ours
        ("default: {internal: true, driver: macvlan}", "default.driver"),
        (
            "default: {internal: true, driver_opts: {com.docker.network.bridge.name: br0}}",
            "default.driver_opts",
        ),
    ],
)
def test_an_overlay_cannot_let_packets_out(
    network: str, key: str, project: Project, faultlab: Run
) -> None:
    project.write(OVERLAY, f"networks: {{{network}}}\n")
    problem = f"{OVERLAY}: networks.{key}: not allowed in a lab"
    assert faultlab("start", "mtu") == said(problem, f"edit {OVERLAY}")


def test_the_stack_file_is_gone(project: Project, faultlab: Run) -> None:
    (project.root / "labs/stack.yaml").unlink()
    assert faultlab("start", "mtu") == said("labs/stack.yaml: missing file", "git status")


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty plugin of `docker` for Compose, in a folder of the user; not executable."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    file = tmp_path / "cli-plugins/docker-compose"
    file.parent.mkdir()
    file.write_text("")
    return file


def test_the_plugin_of_docker_is_run_by_itself(
    plugin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a child of `docker` it could outlive it, and start containers after a sweep.

    Without a plugin, or with one that cannot be run, it is the program of that name.
    """
    monkeypatch.setattr(compose, "_PLUGINS", (plugin.parent / "nowhere",))
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    assert compose.program() == ("docker-compose",)
    plugin.chmod(0o755)
    compose.program.cache_clear()
    assert compose.program() == (str(plugin),)


def test_no_compose_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compose, "_PLUGINS", ())
    monkeypatch.setattr("shutil.which", lambda _name: None)
    with pytest.raises(CannotRun, match="Docker Compose is not installed"):
        compose.program()


def test_compose_waits_for_the_daemon_as_long_as_we_wait_for_compose(plugin: Path) -> None:
    """Compose v1 gave up after 60 s on a daemon in an emulated VM under load."""
    plugin.write_text('#!/bin/sh\necho "error: waits $COMPOSE_HTTP_TIMEOUT s"\nexit 1\n')
    plugin.chmod(0o755)
    with pytest.raises(CannotRun, match=f"could not start it: error: waits {compose.PATIENCE} s"):
        compose.up("it", [], {})
