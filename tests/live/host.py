"""The state of the host that no run may change, read the way an administrator would read it."""

from __future__ import annotations

import os
import re
import socket
import struct
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import docker
import pytest

from faultlab.core import lock
from faultlab.core.naming import STACK_LABEL
from faultlab.engine.docker.connection import docker_url
from faultlab.engine.kernel import MOVING

_TIMERS = re.compile(r"[a-z_]+timer +[\d.]+")  # of a bridge
_NFTABLES, _GET_TABLE, _GET_RULE, _NEW_RULE = 10, 1, 7, 6  # of messages of netlink
_ERROR, _DONE = 2, 3
_COUNTERS = re.compile(r"\[\d+:\d+\]|^#.*")
# Docker keeps this mount from the first container on that is in the host's network.
_DOCKERS = " /run/docker/netns/default "
# The lab VM comes and goes during the checks, and with it the network that libvirt made for it.
_LIBVIRT = re.compile(r"\b(vnet|virbr)\d+\b|\bLIBVIRT_")


State = dict[str, list[str]]  # lines of each part of the host


def snapshot() -> State:
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


def whole(namespace: str, *folders: Path) -> State:
    """The same, and all that is ours: nothing has our label when nothing of ours is up.

    `namespace`: of the commands whose processes are looked for. `folders`: what may hold files that
    a command leaves behind.
    """
    return {
        **snapshot(),
        "ours in docker": _docker_objects(ours=True),
        "nftables": [*_nftables(_GET_TABLE), *_nftables(_GET_RULE)],
        "cgroups": _cgroups(),
        "shared memory": sorted(path.name for path in Path("/dev/shm").iterdir()),
        "loop devices": sorted(map(str, Path("/sys/block").glob("loop*/loop"))),
        "network namespaces": _names(Path("/run/netns")),
        "shims": shims(_commands()),
        "locks": held(_lines("cat", "/proc/locks"), _inodes(lock.folder(), lock.folder_of_all())),
        "files": sorted([*_temporary(), *(str(each) for one in folders for each in _in(one))]),
        "processes": processes(_environments(), namespace),
    }


def held(locks: Iterable[str], files: Mapping[int, str]) -> list[str]:
    """Return which of these files are locked. Source: proc(5), /proc/locks.

    The file of a lock stays when its command has ended: two commands could lock two files of one
    name otherwise.
    """
    found = {int(line.split()[-3].split(":")[2]) for line in locks if "->" not in line}
    return sorted(name for inode, name in files.items() if inode in found)


def processes(environments: Mapping[int, tuple[bytes, str]], namespace: str) -> list[str]:
    """Return the processes that run in this namespace of ours, without their ids.

    Those of a seat or of verify have a namespace that begins with it.
    """
    mark = re.compile(
        rb"(?:^|\0)FAULTLAB_NAMESPACE=" + re.escape(namespace.encode()) + rb"(-|\0|$)"
    )
    return sorted(name for variables, name in environments.values() if mark.search(variables))


def shims(commands: Iterable[str]) -> list[str]:
    """Return the containers that have a process of containerd beside them."""
    found = (re.search(r"containerd-shim\S* .*-id (\w{12})", line) for line in commands)
    return sorted(one[1] for one in found if one)


def tables(answer: bytes) -> tuple[list[str], bool]:
    """Return the tables of nftables in a part of an answer, and if it is the last part.

    A message about a table names it, one about a rule its table and its chain.
    """
    found: list[str] = []
    while len(answer) >= 16:
        length, kind = struct.unpack_from("=IH", answer)
        if kind in (_ERROR, _DONE) or length < 16:
            return found, True
        body, answer = answer[16:length], answer[(length + 3) & ~3 :]
        family, names = body[0], dict(_attributes(body[4:]))
        words = [names[key].rstrip(b"\0").decode() for key in (1, 2) if key in names]
        rule = kind & 0xFF == _NEW_RULE
        found.append(f"{'rule in ' if rule else ''}{family} {' '.join(words[: 1 + rule])}")
    return found, False


def _attributes(body: bytes) -> Iterator[tuple[int, bytes]]:
    while len(body) >= 4:
        length, kind = struct.unpack_from("=HH", body)
        yield kind & 0x3FFF, body[4:length]
        body = body[max(4, length + 3 & ~3) :]


def _nftables(get: int) -> list[str]:
    """Return the tables, or the rules, of nftables, which are there without a program `nft` too.

    Source: the kernel's uapi/linux/netlink.h and uapi/linux/netfilter/nf_tables.h.
    """
    found: list[str] = []
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12) as kernel:  # NETLINK_NETFILTER
        kernel.settimeout(5)
        kernel.send(struct.pack("=IHHIIBBH", 20, _NFTABLES << 8 | get, 0x301, 1, 0, 0, 0, 0))
        over = False
        while not over:
            some, over = tables(kernel.recv(1 << 17))
            found += some
    return found


def _inodes(*folders: Path) -> dict[int, str]:
    every = [path for folder in folders for path in _in(folder) if path.suffix == ".lock"]
    return {path.stat().st_ino: path.name for path in every}


def _temporary() -> list[str]:
    """Return our files in the folders for temporary ones, without those that are to stay.

    These are the files of locks, and the pace of this machine, which holds until it boots again.
    """
    ours = [lock.folder(), lock.folder_of_all()]
    every = [path for folder in ours for path in _in(folder)]
    beside = [path for path in every if path.suffix != ".lock" and path.stem[:5] != "pace-"]
    return [str(path) for path in [*Path("/tmp").glob("faultlab-*"), *beside] if path not in ours]


def _in(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in _in(folder))


def _cgroups() -> list[str]:
    """Return the cgroups of containers. `stacks19818` itself stays, empty, as `docker` does."""
    top = Path("/sys/fs/cgroup")
    found = [str(Path(where).relative_to(top)) for where, _, _ in os.walk(top)]
    return sorted(name for name in found if re.search(r"(^|/)(stacks19818|docker)[-/].", name))


def _commands() -> list[str]:
    return [name for _, name in _environments().values()]


def _environments() -> dict[int, tuple[bytes, str]]:
    """Return the environment and the command line of each process that is not a thread."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            found[int(folder.name)] = ((folder / "environ").read_bytes(), words.strip())
        except OSError:  # it has just ended
            continue
    return found


def differences(before: State, after: State) -> list[str]:
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


def _docker_objects(ours: bool = False) -> list[str]:
    client = docker.DockerClient(base_url=docker_url())
    found = [
        f"container {container.name} {container.status}"
        for container in client.containers.list(all=True, ignore_removed=True)
        if (STACK_LABEL in container.labels) is ours
    ]
    for kind, things in (("network", client.networks.list()), ("volume", client.volumes.list())):
        found += [
            f"{kind} {thing.name}"
            for thing in things
            if (STACK_LABEL in (thing.attrs.get("Labels") or {})) is ours
        ]
    client.close()
    return sorted(found)
