"""Manifest: the pods of a lab, made from its compose files.

A machine is a pod. Its containers are the machine, its daemons and the user that looks from it.
Files that they share are volumes of the pod, filled from the images as Docker fills its own.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from faultlab.core.errors import CannotRun
from faultlab.core.naming import LAB_LABEL, RUN_LABEL, STACK_LABEL, flat
from faultlab.engine.kubernetes.cluster import DISPOSABLE_LABEL, MACHINE, ROLE_LABEL
from faultlab.engine.kubernetes.quantity import limits, quantity
from faultlab.engine.kubernetes.registry import image_of
from faultlab.lab import dockerfile
from faultlab.lab.model import Lab
from faultlab.lab.services import DISK, LIMITS, USER
from faultlab.lab.services import limits as of_each

NODE = "FAULTLAB_NODE"  # the node of the task that starts a stack
TOOLS = "tools"  # the ConfigMap with supervisor and restart
NAMES = "names"  # the volume with the hosts files, and the container that waits for them
HOSTS = "/faultlab/names"
VOLUMES = "/faultlab/volumes"
OF_ALL_PODS: dict[str, Any] = {  # of machines and of helpers
    "serviceAccountName": MACHINE,
    "automountServiceAccountToken": False,
    "enableServiceLinks": False,
    "terminationGracePeriodSeconds": 0,
    "restartPolicy": "Never",
    "dnsPolicy": "None",
    # No machine has this address (RFC 5737): all names are in /etc/hosts.
    "dnsConfig": {"nameservers": ["192.0.2.1"]},
}
_DOCKERS_RESOLVER = "127.0.0.11"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_SHARE = {"cpu": "50m", "memory": "32Mi"}  # of the node, which a container is sure to get
# Docker fills a volume from the first container whose image has the folder.
_FILL = """
for pair; do
  volume=${pair%%:*} path=${pair#*:}
  done=/faultlab/names/filled-${volume##*/}
  if [ -d "$path" ] && [ ! -e "$done" ]; then
    cp -a "$path/." "$volume/"
    chown --reference="$path" "$volume"
    chmod --reference="$path" "$volume"
    touch "$done"
  fi
done
"""
# The last moment is for the command that wrote the file, which ends with this container.
_WAIT = "until [ -e /faultlab/names/hosts-user ]; do sleep 0.03; done; sleep 0.1\n"


@dataclass(frozen=True)
class Service:
    """A service of all compose files together, and the machine that it is on."""

    name: str
    home: str
    keys: Mapping[str, Any]

    @property
    def volumes(self) -> list[tuple[str, str]]:
        """Return the volumes with their folders."""
        pairs = (entry.split(":")[:2] for entry in self.keys.get("volumes") or [])
        return list({path: (name, path) for name, path in pairs}.values())

    @property
    def tmpfs(self) -> dict[str, Mapping[str, str]]:
        """Return the folders in memory, each with its options."""
        found: dict[str, Mapping[str, str]] = {}
        for entry in self.keys.get("tmpfs") or []:
            path, _, options = str(entry).partition(":")
            found[path] = dict(o.split("=", 1) for o in options.split(",") if "=" in o)
        return found


def services(lab: Lab) -> dict[str, Service]:
    """Return the services that a lab needs."""
    plan = lab.services
    needed = plan.needed(lab.daemons)
    most = of_each(os.environ.get(LIMITS, ""))
    made: dict[str, Service] = {}
    for name in [*needed, *(name + USER for name in needed)]:
        if keys := plan.services.get(name):
            home = plan.daemons.get(name, name)
            if name.endswith(USER) and "network_mode" in keys:
                home = name.removesuffix(USER)
            made[name] = Service(name, home, most | keys)
    return made


def sysctls(service: Service) -> dict[str, str]:
    """Return the sysctls that a machine starts with."""
    return {key: str(value) for key, value in (service.keys.get("sysctls") or {}).items()}


def obstacle(made: Mapping[str, Service]) -> str:
    """Return why these services cannot be pods; empty if they can."""
    homes: dict[str, set[str]] = {}
    for service in made.values():
        for volume, _ in service.volumes:
            homes.setdefault(volume, set()).add(service.home)
        if _DOCKERS_RESOLVER in str(service.keys.get("command")):
            return f"{service.name} asks Docker's own resolver, {_DOCKERS_RESOLVER}"
        if "ulimits" in service.keys:
            return f"Kubernetes has no ulimits, and {service.name} has some"
    shared = [volume for volume, where in homes.items() if len(where) > 1]
    if shared:
        where = " and ".join(sorted(homes[shared[0]]))
        return f"{where} share the volume {shared[0]}, and pods share none"
    users = {service.home for name, service in made.items() if name.endswith(USER)}
    both = [s.home for s in made.values() if s.name != s.home and not s.name.endswith(USER)]
    if mixed := users.intersection(both):
        return f"{min(mixed)} has daemons and a user, who must not see each other"
    return ""


@dataclass(frozen=True)
class Plan:
    """The facts that all pods of a stack have in common."""

    stack: str
    lab_id: str
    run_id: str
    disposable: bool = False  # its node must be

    @property
    def labels(self) -> dict[str, str]:
        """Return the labels by which a stack is found again."""
        return {STACK_LABEL: self.stack, LAB_LABEL: flat(self.lab_id), RUN_LABEL: self.run_id}


def pods(plan: Plan, made: Mapping[str, Service]) -> list[dict[str, Any]]:
    """Return the pods of these services. Raises CannotRun for what pods cannot do."""
    if why := obstacle(made):
        raise CannotRun(f"{plan.lab_id} cannot run on Kubernetes: {why}.", "faultlab list")
    machines = [name for name, service in made.items() if service.home == name]
    return [_pod(plan, [s for s in made.values() if s.home == name]) for name in machines]


def _pod(plan: Plan, here: Sequence[Service]) -> dict[str, Any]:
    """Return the pod of a machine (the first service) with its daemons or its user."""
    machine = here[0]
    users = any(service.name.endswith(USER) for service in here)
    spec = {
        "hostname": machine.keys.get("hostname", machine.name),
        "shareProcessNamespace": not users,
        **OF_ALL_PODS,
        **near(plan.stack, plan.disposable),
        "initContainers": _fillers(here),
        "containers": [_container(service) for service in here],
        "volumes": _volumes(here),
    }
    labels = {**plan.labels, ROLE_LABEL: MACHINE}
    meta = {"name": machine.name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def near(stack: str, disposable: bool = False) -> dict[str, Any]:
    """Return that a pod is on the node of its stack, as machines are on one switch.

    The stack of a task is on the node of the task, which can have it alone, unless it needs a
    disposable node. Such a node can have a taint that keeps all other pods away.
    """
    same: dict[str, Any] = {"labelSelector": {"matchLabels": {STACK_LABEL: stack}}}
    same["topologyKey"] = "kubernetes.io/hostname"
    affinity: dict[str, Any] = {"podAffinity": {_REQUIRED: [same]}}
    if disposable:
        taint = {"key": DISPOSABLE_LABEL, "operator": "Exists"}
        its = {"nodeSelector": {DISPOSABLE_LABEL: "true"}, "tolerations": [taint]}
        return {"affinity": affinity, **its}
    if node := os.environ.get(NODE):
        its = {"key": "metadata.name", "operator": "In", "values": [node]}
        affinity["nodeAffinity"] = {_REQUIRED: {"nodeSelectorTerms": [{"matchFields": [its]}]}}
    return {"affinity": affinity}


def _volumes(here: Sequence[Service]) -> list[dict[str, Any]]:
    names = dict.fromkeys(name for service in here for name, _ in service.volumes)
    found: list[dict[str, Any]] = [{"name": name, "emptyDir": {}} for name in names]
    for service in here:
        for at, options in enumerate(service.tmpfs.values()):
            kind = {"medium": "Memory"}
            if "size" in options:
                kind["sizeLimit"] = quantity(options["size"])
            found.append({"name": tmpfs_name(service, at), "emptyDir": kind})
    found.append({"name": NAMES, "emptyDir": {}})
    found.append({"name": TOOLS, "configMap": {"name": TOOLS, "defaultMode": 0o755}})
    return found


def tmpfs_name(service: Service, at: int) -> str:
    """Return the name of the volume for a folder in memory."""
    return f"tmpfs-{service.name}-{at}"


def _fillers(here: Sequence[Service]) -> list[dict[str, Any]]:
    """Return the containers that fill the volumes; the first also waits for the hosts files."""
    tmpfs = [tmpfs_name(service, at) for service in here for at, _ in enumerate(service.tmpfs)]
    found = []
    for service in here:
        pairs = [f"{VOLUMES}/{name}:{path}" for name, path in service.volumes]
        first = service.name == service.home
        if not (first or (pairs and not service.name.endswith(USER))):
            continue
        names = [name for name, _ in service.volumes] + (tmpfs if first else [])
        mounts = [{"name": name, "mountPath": f"{VOLUMES}/{name}"} for name in names]
        open_to_all = "".join(f"chmod 1777 {VOLUMES}/{name}\n" for name in tmpfs) if first else ""
        script = _FILL + open_to_all + (_WAIT if first else "")
        found.append(
            {
                "name": NAMES if first else f"fill-{service.name}",
                **image_of(str(service.keys["image"])),
                "command": ["sh", "-ec", script, "fill", *pairs],
                "volumeMounts": [*mounts, {"name": NAMES, "mountPath": HOSTS}],
                "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
                "resources": {"requests": _SHARE},
            }
        )
    return found


def _container(service: Service) -> dict[str, Any]:
    keys, said = service.keys, dockerfile.read(str(service.keys["image"]))
    daemon = service.name != service.home and not service.name.endswith(USER)
    command = [*_words(keys.get("entrypoint")), *_words(keys.get("command"))] or [*said.command]
    stop = str(keys.get("stop_signal", said.stop)).removeprefix("SIG")
    mode = "daemon" if daemon else "once"
    supervisor = ["/usr/local/sbin/supervisor", mode, stop, ":".join(service.tmpfs)]
    return {
        "name": service.name,
        **image_of(str(keys["image"])),
        "command": [*supervisor, *command],
        **({"workingDir": keys["working_dir"]} if "working_dir" in keys else {}),
        "env": [{"name": k, "value": v} for k, v in _environment(keys.get("environment")).items()],
        "securityContext": _rights(keys),
        "resources": _resources(keys, alone=service.name == service.home),
        "volumeMounts": _mounts(service, daemon),
    }


def _mounts(service: Service, daemon: bool) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{"name": n, "mountPath": p} for n, p in service.volumes]
    for at, path in enumerate(service.tmpfs):
        found.append({"name": tmpfs_name(service, at), "mountPath": path})
    hosts = "hosts-user" if service.name.endswith(USER) else "hosts"
    found.append({"name": NAMES, "mountPath": "/etc/hosts", "subPath": hosts})
    for tool in ("supervisor", "restart", "start") if daemon else ("supervisor",):
        file = tool if tool == "supervisor" else "restart"
        path = f"/usr/local/sbin/{tool}"
        found.append({"name": TOOLS, "subPath": file, "mountPath": path, "readOnly": True})
    return found


def _rights(keys: Mapping[str, Any]) -> dict[str, Any]:
    free = "apparmor=unconfined" in (keys.get("security_opt") or [])
    rights: dict[str, Any] = {"seccompProfile": {"type": "RuntimeDefault"}}
    rights["capabilities"] = {"add": list(keys.get("cap_add") or [])}
    if keys.get("cap_drop"):
        rights["capabilities"]["drop"] = list(keys["cap_drop"])
    if keys.get("read_only"):
        rights["readOnlyRootFilesystem"] = True
    if keys.get("user"):
        rights["runAsUser"] = int(str(keys["user"]).partition(":")[0])
    return {**rights, "appArmorProfile": {"type": "Unconfined"}} if free else rights


def _resources(keys: Mapping[str, Any], alone: bool) -> dict[str, Any]:
    """Return the limits of a container. `alone`: it has the limit of the disk, for its whole pod.

    The kubelet adds up the limits of the containers, and what all of them and the volumes hold.
    """
    most = limits(keys.get("cpus"), keys.get("mem_limit"))
    if alone and (disk := os.environ.get(DISK)):
        most["ephemeral-storage"] = quantity(disk)
    return {"requests": _SHARE, "limits": most} if most else {"requests": _SHARE}


def _words(value: Any) -> list[str]:
    """Return a command as words; Compose writes a dollar sign twice."""
    words = value if isinstance(value, list) else ["sh", "-c", value] if value else []
    return [str(word).replace("$$", "$") for word in words]


def _environment(value: Any) -> dict[str, str]:
    return {str(key): str(text).replace("$$", "$") for key, text in (value or {}).items()}
