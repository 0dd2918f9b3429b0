"""The services of a stack, from its compose file and a lab's overlay.

The `stack.yaml` of a collection and a lab's overlay are plain compose files without names, tags or
labels. `Plan.documents` adds those, so an overlay cannot omit the labels that clean-up relies on.
"""

import copy
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import yaml

from faultlab.core import paths
from faultlab.core.errors import BadInput
from faultlab.lab import compose_policy, daemon, images, release
from faultlab.lab.collection import Collection

CLIENT = "client"
USER = "-user"  # the end of the name of a container that looks from a machine's network
# For a machine that several people share: limits of each container, and of a whole stack.
LIMITS, LIMITS_IN_ALL = "FAULTLAB_LIMITS", "FAULTLAB_LIMITS_IN_ALL"
# What a machine can write, for an engine that can say that in advance.
DISK = "FAULTLAB_DISK"
_JOIN = "service:"
_LOG = {"max-size": "5m", "max-file": "2"}
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the parser in C, if it is installed
_PAIRS = ("environment", "sysctls")  # can be a table, or a list of `key=value`
_REPLACED = ("command", "entrypoint")
# The keys of a service for each limit, and the format of the value. Swap is not more than memory.
_LIMITS = {
    "cpus": (("cpus",), r"[0-9]+(\.[0-9]+)?"),
    "memory": (("mem_limit", "memswap_limit"), r"[0-9]+[kmg]"),
    "pids": (("pids_limit",), r"[0-9]+"),
}


@dataclass(frozen=True)
class Plan:
    """The services that the stack.yaml of a collection and an overlay describe."""

    collection: Collection
    parts: tuple[dict[str, Any], ...]

    @cached_property
    def services(self) -> dict[str, dict[str, Any]]:
        """Return every service; if an overlay extends one, it has what Compose makes of both."""
        merged: dict[str, dict[str, Any]] = {}
        for part in self.parts:
            for name, service in (part.get("services") or {}).items():
                merged[name] = merge(merged.get(name, {}), service or {})
        return merged

    @cached_property
    def daemons(self) -> dict[str, str]:
        """Return each daemon with the machine that it joins."""
        return {
            name: str(service["network_mode"]).removeprefix(_JOIN)
            for name, service in self.services.items()
            if str(service.get("network_mode", "")).startswith(_JOIN) and not name.endswith(USER)
        }

    def facts(self, name: str) -> daemon.Daemon:
        """Return the facts of a daemon, from the folder of its image. Raises BadInput."""
        return daemon.read(self.folder(name))

    def folder(self, name: str) -> Path:
        """Return the folder with the image of a service."""
        return self.collection.image_folder(str(self.services[name]["image"]))

    def image(self, name: str) -> str:
        """Return the image of a service, by its full name."""
        return self.collection.image(str(self.services[name]["image"]))

    @property
    def added(self) -> list[str]:
        """Return the machines that an overlay adds; its lab needs them even without a daemon."""
        stack, *overlays = self.parts
        old = {*(stack.get("services") or {}), *self.daemons}
        every = [name for part in overlays for name in part.get("services") or {}]
        return [name for name in every if name not in old and not name.endswith(USER)]

    def needed(self, daemons: Iterable[str]) -> list[str]:
        """Return the client, the machines of these daemons and of an overlay, then the daemons."""
        wanted = list(daemons)
        homes = [self.daemons[name] for name in wanted]
        machines = dict.fromkeys([self.collection.client, *homes, *self.added])
        return [*machines, *wanted]

    def images(self, daemons: Iterable[str]) -> list[str]:
        """Return the images of these daemons and their machines."""
        return list(dict.fromkeys(map(self.image, self.needed(daemons))))

    def used(self, daemons: Iterable[str]) -> list[dict[str, Any]]:
        """Return the compose files, each with the services and volumes that these daemons need."""
        needed = self.needed(daemons)
        needed += [name + USER for name in needed]
        mounts = [each for name in needed for each in self._mounts(name)]
        parts = [
            copy.deepcopy({key: value for key, value in part.items() if not key.startswith("x-")})
            for part in self.parts
        ]
        for part in parts:
            services = part.get("services") or {}
            part["services"] = {name: services[name] or {} for name in needed if name in services}
            volumes = part.get("volumes") or {}
            part["volumes"] = {name: volumes[name] for name in volumes if name in mounts}
        return parts

    def _mounts(self, name: str) -> list[str]:
        """Return the volumes of a service; it may not exist."""
        mounts = self.services.get(name, {}).get("volumes") or []
        return [str(each).partition(":")[0] for each in mounts]

    def documents(
        self,
        stack: str,
        daemons: Iterable[str],
        subnet: str,
        labels: dict[str, str],
        *,
        parent: str = "",
        cpus: str = "",
        named: str = "",
    ) -> list[dict[str, Any]]:
        """Return the compose files of the needed services, with names, tags, labels, subnet.

        `parent`: the cgroup of all containers; `cpus`: those that they can use. Empty: Docker's.
        `named`: with what the names of containers, volumes and networks begin, which a program in
        them can read; empty: the stack's name.
        """
        most = limits(os.environ.get(LIMITS, ""))
        most |= {k: v for k, v in (("cgroup_parent", parent), ("cpuset", cpus)) if v}
        documents = self.used(daemons)
        for document in documents:
            for name, service in document["services"].items():
                service["labels"] = labels
                service["container_name"] = f"{named or stack}-{name}"
                # Docker stores what the first process prints, and a learner can write there.
                service["logging"] = {"driver": "json-file", "options": dict(_LOG)}
                if "image" in service:
                    service["image"] = images.tag(self.image(name))
                own = {*self.services[name]}
                own |= {"memswap_limit"} if "mem_limit" in own else set()
                service.update({key: most[key] for key in most.keys() - own})
            document["volumes"] = {name: {"labels": labels} for name in document["volumes"]}
            networks = document.get("networks") or {}
            for name, thing in (*document["volumes"].items(), *networks.items()):
                thing.update({"labels": labels}, **({"name": f"{named}-{name}"} if named else {}))
        documents[0]["networks"]["default"]["ipam"] = {"config": [{"subnet": subnet}]}
        return documents


def merge(service: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Return a service with the keys of another file, merged as Compose merges its files.

    Tables are merged and lists added up. A command, and what is neither, is replaced. Sources:
    docs.docker.com/reference/compose-file/merge, compose-go's override/merge.go.
    """
    merged = dict(service)
    for key, given in more.items():
        old, value = merged.get(key), given
        if key in _PAIRS:
            old, value = _table(old), _table(value)
        if isinstance(old, dict) and isinstance(value, dict):
            merged[key] = merge(old, value)
        elif key not in _REPLACED and isinstance(old, list) and isinstance(value, list):
            merged[key] = [*old, *(each for each in value if each not in old)]
        else:
            merged[key] = value
    return merged


def _table(value: Any) -> Any:
    """Return a list of `key=value` as the table that it means."""
    if not isinstance(value, list):
        return value
    return {key: text for key, _, text in (str(each).partition("=") for each in value)}


def limits(text: str) -> dict[str, Any]:
    """Translate limits of each container ("cpus=1 memory=1g pids=512") into keys of Compose.

    Raises BadInput.
    """
    found: dict[str, Any] = {}
    for word in text.split():
        name, _, value = word.partition("=")
        if name not in _LIMITS or not re.fullmatch(_LIMITS[name][1], value):
            raise BadInput(f"limits: expected cpus=1 memory=1g pids=512, got {word!r}", "env")
        for key in _LIMITS[name][0]:
            found[key] = int(value) if name == "pids" else float(value) if name == "cpus" else value
    return found


def read(collection: Collection, *overlays: Path) -> Plan:
    """Read stack.yaml and overlays. Raises BadInput for anything that breaks the rules."""
    return _plan(collection, collection.stack, *overlays)


def both_change(one: Iterable[Path], other: Iterable[Path], collection: Collection) -> str:
    """Return what two labs' overlays both say, as `command of nginx`; empty if nothing is."""
    first, second = (
        {
            f"{key} of {name}"
            for file in files
            for name, service in (_read(file, collection).get("services") or {}).items()
            for key in service or {}
        }
        for files in (one, other)
    )
    return min(first & second, default="")


@cache  # most labs have no overlay, so they share a plan
def _plan(collection: Collection, *files: Path) -> Plan:
    plan = Plan(collection, tuple(_read(file, collection) for file in files))
    if collection.client not in plan.services:
        raise _mistake(files[0], f"services.{collection.client}: missing key")
    machines = {name for name in plan.services.keys() - plan.daemons if not name.endswith(USER)}
    for name, machine in plan.daemons.items():
        if machine not in machines:
            wanted = f"expected service:MACHINE of this stack, got {_JOIN + machine!r}"
            raise _mistake(files[-1], f"services.{name}.network_mode: {wanted}")
    for name, service in plan.services.items():
        if "image" not in service:
            raise _mistake(files[-1], f"services.{name}.image: missing key")
        if name in plan.daemons:
            plan.facts(name)
    return plan


@cache
def _read(file: Path, collection: Collection) -> dict[str, Any]:
    try:
        document: dict[str, Any] = _parse(release.text(file.read_text()))
        compose_policy.obey(document, collection.images())
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise _mistake(file, f"not valid YAML: {line}{error.problem}") from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise _mistake(file, "not valid YAML text") from error
    except FileNotFoundError as error:
        raise BadInput(f"{paths.show(file)}: missing file", "git status") from error
    except compose_policy.Broken as problem:
        raise _mistake(file, str(problem)) from problem
    return document


def _mistake(file: Path, text: str) -> BadInput:
    where = paths.show(file)
    return BadInput(f"{where}: {text}", f"edit {where}")


def _parse(text: str) -> Any:
    try:
        return yaml.load(text, Loader=_LOADER)
    except yaml.YAMLError:
        return yaml.safe_load(text)  # its error messages say more
