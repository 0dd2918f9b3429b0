"""Probe: processor and memory of one container, from its cgroup, version 1 or 2.

In a container /proc/stat and /proc/meminfo are the whole host's; the cgroup is its own. Sources:
the kernel's admin-guide/cgroup-v2, cgroup-v1/memory, scheduler/sched-bwc, accounting/psi.
"""

from __future__ import annotations

from dataclasses import dataclass

from faultlab.engine.shell import Shell

_V1 = "cpu/cpu.stat cpu/cpu.cfs_quota_us cpu/cpu.cfs_period_us cpuacct/cpuacct.usage " + " ".join(
    f"memory/memory.{name}"
    for name in ("usage_in_bytes", "limit_in_bytes", "failcnt", "oom_control", "stat")
)
_V2 = (
    "cpu.stat cpu.max cpu.pressure memory.current memory.max memory.events memory.stat"
    " memory.pressure"
)
# Without -s a file that this kernel lacks would fail the others; what is lacking is None.
COMMAND = f"cd /sys/fs/cgroup && {{ grep -sH . {_V1} {_V2}; nproc; }}"

_UNLIMITED = 1 << 60  # version 1 says "no limit" with the largest number of whole pages


@dataclass(frozen=True)
class Cgroup:
    """Counters since the container started; None is what this kernel does not tell.

    `cpu`: seconds of processor time; `cpus`: what it may use, in processors (`quota`: by a limit of
    its own, else all of the host); `throttled` of `periods`: in which the quota was used up.
    `memory` and `limit`: bytes, without file cache that can be dropped at once; `at_limit`: how
    often the limit stopped an allocation; `killed`: by the OOM killer. `*_wait`: seconds in which
    some task waited for it (PSI, version 2).
    """

    version: int
    cpu: float
    cpus: float
    quota: bool
    periods: int | None
    throttled: int | None
    memory: int
    limit: int | None
    at_limit: int | None
    killed: int | None
    cpu_wait: float | None
    memory_wait: float | None

    def throttled_percent_since(self, before: Cgroup) -> float:
        """Percent of the periods of 100 ms since then in which the quota was used up."""
        periods = (self.periods or 0) - (before.periods or 0)
        return 100 * ((self.throttled or 0) - (before.throttled or 0)) / periods if periods else 0.0


def read(machine: Shell) -> Cgroup:
    """Read the counters of the container's control group now."""
    return parse(machine.must(COMMAND))


def parse(out: str) -> Cgroup:
    """Read the lines `file:words`, then the number of processors."""
    *lines, processors = out.strip().splitlines()
    facts = {}
    for line in lines:
        file, _, text = line.partition(":")
        *key, value = text.split()
        facts[" ".join([file.rpartition("/")[2], *key])] = value
        if file.endswith(("cpu.max", ".pressure")):
            facts[f"{file} {text.split()[0]}" if "pressure" in file else file] = text
    return _v2(facts, int(processors)) if "memory.current" in facts else _v1(facts, int(processors))


def _v1(facts: dict[str, str], processors: int) -> Cgroup:
    quota = int(facts["cpu.cfs_quota_us"])
    limit = int(facts["memory.limit_in_bytes"])
    return Cgroup(
        version=1,
        cpu=int(facts["cpuacct.usage"]) / 1e9,
        cpus=quota / int(facts["cpu.cfs_period_us"]) if quota > 0 else processors,
        quota=quota > 0,
        periods=_number(facts, "cpu.stat nr_periods"),
        throttled=_number(facts, "cpu.stat nr_throttled"),
        memory=int(facts["memory.usage_in_bytes"]) - int(facts["memory.stat total_inactive_file"]),
        limit=limit if limit < _UNLIMITED else None,
        at_limit=_number(facts, "memory.failcnt"),
        killed=_number(facts, "memory.oom_control oom_kill"),
        cpu_wait=None,
        memory_wait=None,
    )


def _v2(facts: dict[str, str], processors: int) -> Cgroup:
    quota, period = facts.get("cpu.max", "max 100000").split()
    limit = facts["memory.max"]
    return Cgroup(
        version=2,
        cpu=int(facts["cpu.stat usage_usec"]) / 1e6,
        cpus=processors if quota == "max" else int(quota) / int(period),
        quota=quota != "max",
        periods=_number(facts, "cpu.stat nr_periods"),
        throttled=_number(facts, "cpu.stat nr_throttled"),
        memory=int(facts["memory.current"]) - int(facts["memory.stat inactive_file"]),
        limit=None if limit == "max" else int(limit),
        at_limit=_number(facts, "memory.events max"),
        killed=_number(facts, "memory.events oom_kill"),
        cpu_wait=waited(facts.get("cpu.pressure some")),
        memory_wait=waited(facts.get("memory.pressure some")),
    )


def _number(facts: dict[str, str], key: str) -> int | None:
    return int(facts[key]) if key in facts else None


def waited(line: str | None) -> float | None:
    """Seconds in which some task waited, from a line `some avg10=0.00 … total=123` of PSI."""
    return int(line.rpartition("total=")[2]) / 1e6 if line else None
