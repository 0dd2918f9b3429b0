"""Probe: CPU and memory of one container, from its cgroup, version 1 or 2.

In a container /proc/stat and /proc/meminfo show the whole host; the cgroup is its own. Sources: the
kernel's admin-guide/cgroup-v2, cgroup-v1/memory, scheduler/sched-bwc, accounting/psi.
"""

from __future__ import annotations

from dataclasses import dataclass

from faultlab.engine.measure.cpu_interference import waited
from faultlab.engine.shell import Shell

_V1 = "cpu/cpu.stat cpu/cpu.cfs_quota_us cpu/cpu.cfs_period_us cpuacct/cpuacct.usage " + " ".join(
    f"memory/memory.{name}"
    for name in ("usage_in_bytes", "limit_in_bytes", "failcnt", "oom_control", "stat")
)
_V2 = (
    "cpu.stat cpu.max cpu.pressure memory.current memory.max memory.events memory.stat"
    " memory.pressure"
)
# -s hides files that this kernel lacks; their values are None.
_FILES = f"/sys/fs/cgroup && {{ grep -sH . {_V1} {_V2}; nproc; }}"
COMMAND = f"cd {_FILES}"

# What a container has used when it ends. Kernels before 5.19 have no memory.peak.
SPENT = (
    "cd /sys/fs/cgroup &&"
    " grep -sH . cpuacct/cpuacct.usage memory/memory.max_usage_in_bytes cpu.stat memory.peak"
)

_UNLIMITED = 1 << 60  # version 1 means "no limit" by the largest number of whole pages


@dataclass(frozen=True)
class Cpu:
    """`used`: seconds of CPU time; `processors`: the CPUs that it can use."""

    used: float
    processors: float

    def busy_percent_since(self, before: Cpu, seconds: float) -> float:
        """Return the CPU time since then, in percent of what it could use in these seconds."""
        return 100 * (self.used - before.used) / seconds / self.processors


@dataclass(frozen=True)
class Cgroup:
    """Counters since the container started; None if this kernel does not have them.

    `cpu`: seconds of CPU time. `cpus`: the CPUs that it can use (`quota`: by a limit of its own,
    else all of the host). `throttled` of `periods`: those in which the quota was used up. `memory`
    and `limit`: bytes, without file cache that the kernel can drop at once. `at_limit`: how often
    the limit stopped an allocation. `killed`: by the OOM killer. `*_wait`: seconds in which some
    task waited for it (PSI, version 2).
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

    @property
    def time(self) -> Cpu:
        """Return its CPU time, and the CPUs that it can use."""
        return Cpu(self.cpu, self.cpus)

    def throttled_percent_since(self, before: Cgroup) -> float:
        """Return the percent of the 100 ms periods since then in which the quota was used up."""
        periods = (self.periods or 0) - (before.periods or 0)
        return 100 * ((self.throttled or 0) - (before.throttled or 0)) / periods if periods else 0.0


@dataclass(frozen=True)
class Spent:
    """All that a container used: seconds of CPU time, and its largest memory in bytes.

    The memory includes cached files. None if this kernel does not have the number.
    """

    cpu: float | None = None
    memory: int | None = None


def spent(out: str) -> Spent:
    """Parse the lines `file:words` of SPENT."""
    pairs = (line.strip().partition(":")[::2] for line in out.splitlines())
    facts = {
        f"{file} {words.split()[0]}" if " " in words else file: words.split()[-1]
        for file, words in pairs
        if words
    }
    old, new = facts.get("cpuacct/cpuacct.usage"), facts.get("cpu.stat usage_usec")
    memory = facts.get("memory/memory.max_usage_in_bytes", facts.get("memory.peak"))
    seconds = int(old) / 1e9 if old else int(new) / 1e6 if new else None
    return Spent(seconds, int(memory) if memory else None)


def read(machine: Shell) -> Cgroup:
    """Read the counters of the container's control group now."""
    return parse(machine.must(f"cd {machine.root}{_FILES}"))


def parse(out: str) -> Cgroup:
    """Parse the lines `file:words`, then the number of CPUs."""
    *lines, processors = out.strip().splitlines()
    facts = {}
    for line in lines:
        file, _, text = line.partition(":")
        *key, value = [text] if file == "cpu.max" else text.split()
        name = " ".join([file.rpartition("/")[2], *key[:1]])
        facts[name] = text if file.endswith(".pressure") else value
    old = "memory.current" not in facts

    def number(*names: str) -> int | None:
        return next((int(facts[name]) for name in names if name in facts), None)

    quota, period = facts.get("cpu.max", "max 100000").split()
    limit = facts["memory.limit_in_bytes" if old else "memory.max"]
    if old:
        quota, period = facts["cpu.cfs_quota_us"], facts["cpu.cfs_period_us"]
    used = int(facts["memory.usage_in_bytes" if old else "memory.current"])
    limited = quota not in ("max", "-1")
    return Cgroup(
        version=1 if old else 2,
        cpu=int(facts["cpuacct.usage"]) / 1e9 if old else int(facts["cpu.stat usage_usec"]) / 1e6,
        cpus=min(int(quota) / int(period), int(processors)) if limited else int(processors),
        quota=limited,
        periods=number("cpu.stat nr_periods"),
        throttled=number("cpu.stat nr_throttled"),
        memory=used - int(facts[f"memory.stat {'total_' if old else ''}inactive_file"]),
        limit=int(limit) if limit != "max" and int(limit) < _UNLIMITED else None,
        at_limit=number("memory.failcnt", "memory.events max"),
        killed=number("memory.oom_control oom_kill", "memory.events oom_kill"),
        cpu_wait=waited(facts.get("cpu.pressure some", "")),
        memory_wait=waited(facts.get("memory.pressure some", "")),
    )
