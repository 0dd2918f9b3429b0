"""Bounds: one cgroup around all containers of a stack, with limits for the whole stack.

A stack without limits of its own gets those that the size of the machine allows, so that no program
in it takes the host. Docker creates the cgroup but cannot limit it, so a helper does that. Its only
right is that its user owns the files of cgroups. Sources: the kernel's cgroup-v1 and cgroup-v2
pages, systemd.slice(5).
"""

import math
import os
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from faultlab.engine.docker.connection import DockerEngine
from faultlab.engine.docker.untracked import GROUP
from faultlab.lab import services
from faultlab.lab.model import bytes_of

_TOP = f"stacks{GROUP}"  # a program in a container can read it, so it does not name us
_OURS = "faultlab-"  # before the name of each stack of a learner
_TOPS = (_TOP, f"{_TOP}.slice")
_PERIOD = 100_000  # microseconds; the quota is a part of it
_MOST_TASKS = 8192  # of a stack: the largest repair of a lab makes four thousand threads
# In version 1 each controller has a folder of its own with the same tree in it. `may`: a kernel
# without the file has no such limit.
_PUT = """
may() {{
  for file in /cgroup/{path}/$1 /cgroup/*/{path}/$1 /cgroup/{path}/$2 /cgroup/*/{path}/$2; do
    if [ -e "$file" ]; then echo "$3" >"$file"; done=1; fi
  done
}}
put() {{
  done=
  may "$@"
  [ "$done" ] || {{ echo "the cgroup {path} has neither $1 nor $2" >&2; exit 1; }}
}}
"""
_REMOVE = """
gone=
for folder in /cgroup/{path} /cgroup/*/{path}; do
  if [ -d $folder ] && rmdir $folder 2>/dev/null; then gone=1; fi
done
[ -z "$gone" ] || echo "cgroup {path}"
"""


class StackBounds:
    """The limits of each stack of a Docker engine as a whole.

    `cgroups` and `tasks`: the folders of the cgroups, and of the limits of processes and threads.
    """

    def __init__(
        self,
        engine: DockerEngine,
        cgroups: Path = Path("/sys/fs/cgroup"),
        tasks: Path = Path("/proc/sys/kernel"),
    ) -> None:
        self._engine = engine
        self.cgroups = cgroups
        self._tasks = tasks

    @cached_property
    def _info(self) -> Mapping[str, Any]:
        return self._engine.info()

    @property
    def cpus(self) -> int:
        """Return how many CPUs Docker has."""
        return int(self._info.get("NCPU", 0))

    def most(self) -> Mapping[str, Any]:
        """Return the limits of a stack as a whole: those that are chosen, else a share."""
        chosen = services.limits(os.environ.get(services.LIMITS_IN_ALL, ""))
        return {**self._share(3 / 4, 1 / 4, _MOST_TASKS), **chosen}

    def _share(self, memory: float, tasks: float, most_tasks: float = math.inf) -> dict[str, Any]:
        """Return a share of the machine as limits, of what its Docker can limit."""
        found: dict[str, Any] = {}
        if self._engine.owns_kernel or self._info.get("CgroupDriver", "none") == "none":
            return found  # a stack that takes a disposable machine takes nothing else
        if self._info.get("MemoryLimit"):
            share = f"{int(self._info['MemTotal'] * memory) >> 20}m"
            found |= {"mem_limit": share, "memswap_limit": share}
        if self._info.get("PidsLimit"):
            most = min(int((self._tasks / file).read_text()) for file in ("pid_max", "threads-max"))
            found["pids_limit"] = int(min(most * tasks, most_tasks))
        return found

    def parent(self, stack: str) -> str:
        """Return the cgroup of a stack as Compose takes it, which depends on Docker's driver."""
        driver = self._info.get("CgroupDriver")
        return _slice(stack) if driver == "systemd" else _plain(stack)

    def binding(self, parent: str, limits: Mapping[str, Any]) -> str:
        """Return the script that limits the cgroup of a stack that is up, and all stacks together.

        `limits` has the form of services.limits. The script needs the cgroups in /cgroup.
        """
        path = _path(parent)
        return _limiting(path, limits) + _limiting(path.split("/")[0], self._share(7 / 8, 3 / 4))

    def unbinding(self, stack: str) -> str:
        """Return the script that removes the cgroup of a stack without containers; empty if none.

        It prints what it has removed, and needs the cgroups in /cgroup.
        """
        paths = (_path(_plain(stack)), _path(_slice(stack)))
        return "".join(_REMOVE.format(path=path) for path in paths if self._folders(path))

    def unbinding_all(self, but: Iterable[str]) -> str:
        """Return the script that removes the cgroups of all stacks but of these, that are up."""
        kept = {_path(parent) for stack in but for parent in (_plain(stack), _slice(stack))}
        found = [f"{top}/{its.name}" for top in _TOPS for its in self._folders(f"{top}/*")]
        gone = sorted({*found} - kept)
        tops = [] if kept else [top for top in _TOPS if self._folders(top)]
        return "".join(_REMOVE.format(path=path) for path in (*gone, *tops))

    def _folders(self, path: str) -> list[Path]:
        """Return the folders of a cgroup, of which version 1 has one for each controller."""
        every = (*self.cgroups.glob(path), *self.cgroups.glob(f"*/{path}"))
        return [each for each in every if each.is_dir()]


def _limiting(path: str, limits: Mapping[str, Any]) -> str:
    """Return the script that writes these limits into the files of a cgroup."""
    lines = []
    if "cpus" in limits:
        lines.append(f"put cpu.max cpu.cfs_quota_us {int(limits['cpus'] * _PERIOD)}\n")
    if "mem_limit" in limits:
        memory = bytes_of(limits["mem_limit"])
        lines.append(f"put memory.max memory.limit_in_bytes {memory}\n")
        # Of version 1 it is the sum of both, and version 2 counts the swap alone.
        lines.append(f"may memory.memsw.limit_in_bytes memory.memsw.limit_in_bytes {memory}\n")
        lines.append("may memory.swap.max memory.swap.max 0\n")
    if "pids_limit" in limits:
        lines.append(f"put pids.max pids.max {limits['pids_limit']}\n")
    return _PUT.format(path=path) + "".join(lines) if lines else ""


def _plain(stack: str) -> str:
    return f"/{_TOP}/{stack.removeprefix(_OURS)}"


def _slice(stack: str) -> str:
    """Return the name of a slice of systemd. A minus sign would begin another level."""
    return f"{_TOP}-{stack.removeprefix(_OURS).replace('-', '_')}.slice"


def _path(parent: str) -> str:
    """Return the path of a cgroup below the folder of all cgroups."""
    return f"{_TOP}.slice/{parent}" if parent.endswith(".slice") else parent.strip("/")
