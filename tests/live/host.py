"""The state of the host that no run may change, read the way an administrator would read it."""

from __future__ import annotations

import os
import re
import subprocess
from collections import Counter

import docker
import pytest

from faultlab.core.naming import STACK_LABEL
from faultlab.engine.docker import docker_url
from faultlab.engine.kernel import MOVING

_TIMERS = re.compile(r"[a-z_]+timer +[\d.]+")  # of a bridge
_COUNTERS = re.compile(r"\[\d+:\d+\]|^#.*")
# Docker keeps this mount from the first container on that is in the host's network.
_DOCKERS = " /run/docker/netns/default "
# The lab VM comes and goes during the checks, and with it the network that libvirt made for it.
_LIBVIRT = re.compile(r"\b(vnet|virbr)\d+\b|\bLIBVIRT_")


def snapshot() -> dict[str, list[str]]:
    """Sysctls, packet filter, interfaces, qdiscs, mounts, swap, Docker objects that are not ours.

    All of it apart from libvirt's own network.
    """
    if os.geteuid() != 0:
        pytest.skip("reading the packet filter needs root")
    sysctls = _lines("sysctl", "-a", "--ignore")
    return {
        "sysctls": [line for line in sysctls if not MOVING.match(line)],
        "packet filter": [_COUNTERS.sub("", line) for line in _lines("iptables-save")],
        "packet filter, IPv6": [_COUNTERS.sub("", line) for line in _lines("ip6tables-save")],
        "interfaces": [_TIMERS.sub("", line) for line in _lines("ip", "-d", "-o", "link")],
        "addresses": _lines("ip", "-o", "address"),
        "routes": _lines("ip", "route", "show", "table", "all"),
        "qdiscs": _lines("tc", "qdisc"),
        "mounts": sorted(line for line in _lines("cat", "/proc/mounts") if _DOCKERS not in line),
        "swap": _lines("cat", "/proc/swaps"),
        "docker": _docker_objects(),
    }


def differences(before: dict[str, list[str]], after: dict[str, list[str]]) -> list[str]:
    """Lines that went or came, as `- sysctls: …` and `+ mounts: …`."""
    found = []
    for part, lines in before.items():
        old, new = Counter(lines), Counter(after[part])
        found += [f"- {part}: {line}" for line in (old - new).elements()]
        found += [f"+ {part}: {line}" for line in (new - old).elements()]
    return found


def _lines(*command: str) -> list[str]:
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [line for line in done.stdout.splitlines() if not _LIBVIRT.search(line)]


def _docker_objects() -> list[str]:
    client = docker.DockerClient(base_url=docker_url())
    found = [
        f"container {container.name} {container.status}"
        for container in client.containers.list(all=True, ignore_removed=True)
        if STACK_LABEL not in container.labels
    ]
    for kind, things in (("network", client.networks.list()), ("volume", client.volumes.list())):
        found += [
            f"{kind} {thing.name}"
            for thing in things
            if STACK_LABEL not in (thing.attrs.get("Labels") or {})
        ]
    client.close()
    return sorted(found)
