"""Bounds: one cgroup around all containers of a stack, with limits for the whole stack.

Docker creates the cgroup but cannot limit it, so a helper does that. Its only right is that its
user owns the files of cgroups. Sources: the kernel's cgroup-v1 and cgroup-v2 pages,
systemd.slice(5).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from faultlab.core.naming import STACK_LABEL
from faultlab.engine.helper import WithHelpers
from faultlab.lab.model import bytes_of

_TOP = "faultlab"
_PERIOD = 100_000  # microseconds; the quota is a part of it
# In version 1 each controller has a folder of its own with the same tree in it.
_PUT = """
put() {{
  done=
  for file in /cgroup/{path}/$1 /cgroup/*/{path}/$1 /cgroup/{path}/$2 /cgroup/*/{path}/$2; do
    if [ -e "$file" ]; then echo "$3" >"$file"; done=1; fi
  done
  [ "$done" ] || {{ echo "the cgroup {path} has neither $1 nor $2" >&2; exit 1; }}
}}
"""
_REMOVE = "rmdir /cgroup/{path} /cgroup/*/{path} 2>/dev/null || :"


class Bounded(WithHelpers):
    """The part of a Docker engine that limits a stack as a whole."""

    cgroups = Path("/sys/fs/cgroup")

    def parent(self, stack: str) -> str:
        """Return the cgroup of a stack as Compose takes it, which depends on Docker's driver."""
        with self.errors():
            driver = self.client.info().get("CgroupDriver")
        return _slice(stack) if driver == "systemd" else _plain(stack)

    def bind(self, stack: str, parent: str, limits: Mapping[str, Any]) -> None:
        """Limit the cgroup of a stack that is up; `limits` has the form of services.limits.

        Raises CannotRun.
        """
        lines = []
        if "cpus" in limits:
            quota = int(limits["cpus"] * _PERIOD)
            lines.append(f"put cpu.max cpu.cfs_quota_us {quota}")
        if "mem_limit" in limits:
            lines.append(f"put memory.max memory.limit_in_bytes {bytes_of(limits['mem_limit'])}")
        if "pids_limit" in limits:
            lines.append(f"put pids.max pids.max {limits['pids_limit']}")
        script = _PUT.format(path=_path(parent)) + "\n".join(lines)
        self.once("machine", script, stack, cgroups=True)

    def on_disk(self) -> Mapping[str, int]:
        """Return the disk usage of each stack's containers and volumes in bytes."""
        with self.errors():
            found = self.client.df()
        sizes: dict[str, int] = {}
        parts = [(its, its.get("SizeRw")) for its in found.get("Containers") or []]
        parts += [(its, its["UsageData"]["Size"]) for its in found.get("Volumes") or []]
        for its, size in parts:
            if stack := (its.get("Labels") or {}).get(STACK_LABEL):
                sizes[stack] = sizes.get(stack, 0) + (size or 0)
        return sizes

    def unbind(self, stack: str) -> None:
        """Remove the cgroup of a stack that has no containers any more."""
        for parent in (_plain(stack), _slice(stack)):
            path = _path(parent)
            if (self.cgroups / path).is_dir() or any(self.cgroups.glob(f"*/{path}")):
                self.once("machine", _REMOVE.format(path=path), stack, cgroups=True)


def _plain(stack: str) -> str:
    return f"/{_TOP}/{stack.removeprefix(f'{_TOP}-')}"


def _slice(stack: str) -> str:
    """Return the name of a slice of systemd. A minus sign would begin another level."""
    return f"{_TOP}-{stack.removeprefix(f'{_TOP}-').replace('-', '_')}.slice"


def _path(parent: str) -> str:
    """Return the path of a cgroup below the folder of all cgroups."""
    return f"{_TOP}.slice/{parent}" if parent.endswith(".slice") else parent.strip("/")
