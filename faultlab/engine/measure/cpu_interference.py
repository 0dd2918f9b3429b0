"""CPU interference: the CPU time that other programs took while a lab was measured.

A look at a busy machine measures its neighbours. Two kinds of neighbours count: other programs on
that machine, and other guests of its hypervisor (stolen time, which Linux charges to a container's
quota as well). Everything is read from /proc of the machine that runs the containers or the VM.
That is this one, or a node of a cluster (node_observer.py).

Other programs are all processes except the containers of the stack, Docker's own processes, this
command and kernel threads. For a lab in the VM, QEMU is the stack. Pressure and the run-queue delay
of the stack are recorded too, but the stack itself causes most of them, so no limit rests on them.

Where the stack has a slot (cpu_slots.py), only the time of its CPUs counts. /proc does not say on
which CPU a program ran. So a program that may not run there is no other one. All others together
used at most the time in which these CPUs ran programs, without that of the stack and this command.
"""

import os
import re
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from faultlab.core import cpus as sets
from faultlab.core.errors import CannotRun
from faultlab.engine.measure.procfs import Folder

MOST_STOLEN = 0.03  # of the time of all CPUs
MOST_OTHERS = 0.2  # a look that is slowed down by this much crosses no gap between two limits
_STEP = 1.0  # seconds
_TICK = 1 / os.sysconf("SC_CLK_TCK")  # seconds
_KERNEL_THREAD = 0x00200000  # PF_KTHREAD in include/linux/sched.h
# Docker's processes work for the stack; how much of it is for others is unknown.
DOCKER = ("dockerd", "containerd", "containerd-shim", "runc", "docker-proxy", "docker-compose")
_QEMU = "qemu-system-x86"


@dataclass(frozen=True)
class Process:
    """One process: its name, its cgroup, and the CPU seconds of it and its ended children."""

    name: str
    parent: int
    cgroup: str
    seconds: float

    def is_in(self, cgroups: Collection[str]) -> bool:
        """Return whether its cgroup has one of these ids in its name."""
        return any(each in self.cgroup for each in cgroups)


@dataclass(frozen=True)
class Moment:
    """The kernel's counters at one time. `delay` and `pressure` are in seconds; None if unknown.

    `processes`: all of them by number. `ours`: the numbers of our own, and of those that may not
    run on these CPUs, which do not count. `cpus`: the number of CPUs. Of a slot, `ran`: the ticks
    in which its CPUs ran a program, and `inside`: the numbers of our own that run nowhere else.
    """

    ticks: int
    stolen: int
    processes: dict[int, Process]
    ours: frozenset[int] = frozenset()
    delay: float | None = None
    pressure: float | None = None
    cpus: int = 1
    ran: int | None = None
    inside: frozenset[int] = frozenset()


@dataclass(frozen=True)
class CpuInterference:
    """The CPU time that others took between two moments, as shares of the time of all CPUs.

    `busiest`: the programs that took most of it. `pressure` and `delay`: seconds of waiting for a
    CPU for each second of time. `pressure` is that of any task on the machine; `delay` is the sum
    over the stack's own threads.
    """

    stolen: float
    others: float
    busiest: str = ""
    pressure: float | None = None
    delay: float | None = None

    @property
    def words(self) -> str:
        """Return who took too much, as text; empty if no program did."""
        if self.others > MOST_OTHERS:
            return f"other programs used {self.others:.0%} of the CPU time ({self.busiest})"
        if self.stolen > MOST_STOLEN:
            return f"the hypervisor gave {self.stolen:.0%} of the CPU time to other machines"
        return ""

    def facts(self) -> dict[str, float | str]:
        """Return the facts for the record."""
        return {
            name: value if isinstance(value, str) else round(value, 3)
            for name, value in vars(self).items()
            if value not in ("", None)
        }


@dataclass(frozen=True)
class Observer:
    """Reads the counters of a machine, and knows which processes belong to the stack.

    `containers`: ids that are in the names of the stack's cgroups. `guest`: the name of the VM, if
    they run there. `runtime`: the programs that run containers. `node`: reads /proc of another
    machine. `own`: ids of other cgroups of ours there. `cpus`: those of the stack's slot; empty if
    it has the whole machine.
    """

    containers: Collection[str] = ()
    guest: str = ""
    proc: Path = Path("/proc")
    runtime: tuple[str, ...] = DOCKER
    node: Callable[[], Folder] | None = None
    own: Collection[str] = ()
    cpus: frozenset[int] = frozenset()

    def read(self) -> Moment:
        """Read the counters now. If they cannot be read they are unknown and do not count."""
        try:
            proc: Folder = self.node() if self.node else self.proc
            stat = (proc / "stat").read_text()
            ran = None
            if self.cpus:
                stat, ran = of_slot(stat, self.cpus)
            busy, idle, stolen = parse_stat(stat)
        except (CannotRun, OSError, ValueError, IndexError):
            return Moment(0, 0, {})
        everything = dict(_processes(proc))
        stack = {pid for pid, process in everything.items() if self._in_stack(pid, process)}
        if not stack and (self.containers or self.guest):
            return Moment(0, 0, {})  # it runs on another machine
        ours = frozenset(stack | self._beside(proc, everything))
        pressure = None
        with suppress(OSError):  # kernels can be built without it
            pressure = waited((proc / "pressure" / "cpu").read_text())
        ticks, cpus, delay = busy + idle, count_cpus(stat), _delay(proc, stack)
        whole = Moment(ticks, stolen, everything, ours, delay, pressure, cpus)
        if ran is None:
            return whole
        may = {pid: _allowed(proc, pid) for pid in everything}
        elsewhere = {pid for pid, allowed in may.items() if allowed and not allowed & self.cpus}
        inside = {pid for pid in ours if may[pid] and may[pid] <= self.cpus}
        # A shim has the time of what was run in its container by `docker exec` and has ended.
        inside |= {everything[pid].parent for pid in stack & inside} & ours
        return replace(whole, ours=ours | elsewhere, ran=ran, inside=frozenset(inside))

    def since(self, before: Moment) -> CpuInterference:
        """Return what others took between an earlier moment and now."""
        return between(before, self.read())

    def wait_for_calm(self, seconds: float) -> None:
        """Return once others took little for a second, at the latest after `seconds`."""
        began = time.monotonic()
        while (left := began + seconds - time.monotonic()) > 0:
            before = self.read()
            time.sleep(min(_STEP, left))
            if not self.since(before).words:
                return

    def _in_stack(self, pid: int, process: Process) -> bool:
        if self.guest:
            return process.name == _QEMU and self._runs_guest(pid)
        return process.is_in(self.containers)

    def _beside(self, proc: Folder, everything: dict[int, Process]) -> set[int]:
        """Return the processes that run containers, and those of this command."""
        named = {pid for pid, its in everything.items() if its.name.startswith(self.runtime)}
        found = {pid for pid in named if not _in_a_container(proc, pid)}
        if self.node is None:
            return found | _family(os.getpid(), everything)
        # There, another process has our number.
        return found | {pid for pid, process in everything.items() if process.is_in(self.own)}

    def _runs_guest(self, pid: int) -> bool:
        with suppress(OSError):
            line = (self.proc / str(pid) / "cmdline").read_bytes()
            return f"guest={self.guest}".encode() in line.replace(b",", b"\0").split(b"\0")
        return False


def _processes(proc: Folder) -> Iterator[tuple[int, Process]]:
    for folder in proc.iterdir():
        if folder.name.isdigit():
            with suppress(OSError, ValueError, IndexError):  # it has ended meanwhile
                stat = (folder / "stat").read_text()
                process = parse_process(stat, (folder / "cgroup").read_text())
                if process is not None:
                    yield int(folder.name), process


def _allowed(proc: Folder, pid: int) -> frozenset[int]:
    """Return the CPUs on which a process may run; empty if it has ended."""
    with suppress(OSError, ValueError):
        for line in (proc / str(pid) / "status").read_text().splitlines():
            if line.startswith("Cpus_allowed_list:"):
                return sets.parse(line.partition(":")[2])
    return frozenset()


def _in_a_container(proc: Folder, pid: int) -> bool:
    """Return whether a process has a PID namespace below; there it can have any name."""
    with suppress(OSError):
        status = (proc / str(pid) / "status").read_text()
        return any(
            line.startswith("NSpid:") and len(line.split()) > 2 for line in status.splitlines()
        )
    return False


def _delay(proc: Folder, stack: Collection[int]) -> float | None:
    """Return how long the stack's threads have waited for a CPU: proc_pid_schedstat(5)."""
    total, known = 0.0, False
    for pid in stack:
        with suppress(OSError, ValueError, IndexError):
            for task in (proc / str(pid) / "task").iterdir():
                total += int((task / "schedstat").read_text().split()[1]) / 1e9
                known = True
    return total if known else None


def between(before: Moment, now: Moment) -> CpuInterference:
    """Return what others took between two moments."""
    ticks = now.ticks - before.ticks
    if before.ticks == 0 or ticks <= 0:
        return CpuInterference(0.0, 0.0)
    seconds = ticks * _TICK
    elapsed = seconds / now.cpus
    spent = _spent(before.processes, now)
    used = _used(spent, now)
    if before.ran is not None and now.ran is not None:
        ours = sum(max(0.0, spent.get(pid, 0.0)) for pid in now.inside)
        used = _at_most(max(0.0, (now.ran - before.ran) * _TICK - ours), used)
    most = sorted(used.items(), key=lambda item: -item[1])[:3]
    names = [f"{name} {spent / elapsed:.1f} CPUs" for name, spent in most if spent > 0.05 * elapsed]
    return CpuInterference(
        stolen=(now.stolen - before.stolen) / ticks,
        others=min(1.0, sum(used.values()) / seconds),
        busiest=", ".join(names),
        pressure=_rate(before.pressure, now.pressure, elapsed),
        delay=_rate(before.delay, now.delay, elapsed),
    )


def _spent(before: dict[int, Process], now: Moment) -> dict[int, float]:
    """Return the CPU seconds of all processes between two readings, by their numbers."""
    spent: dict[int, float] = {}
    for pid, process in now.processes.items():
        was = before.get(pid)
        # Without an earlier reading it is new; with another name its number was used again.
        spent[pid] = process.seconds - (was.seconds if was and was.name == process.name else 0.0)
    for pid, process in before.items():
        if pid in now.processes:
            continue
        heir = process.parent
        while heir not in spent and heir in before:
            heir = before[heir].parent
        if heir in spent:
            # It has ended, and its nearest living parent got all its time, also that from before.
            spent[heir] -= process.seconds
    return spent


def _used(spent: dict[int, float], now: Moment) -> dict[str, float]:
    """Return the CPU seconds of others, by the name of the program."""
    used: dict[str, float] = {}
    for pid, seconds in spent.items():
        name = now.processes[pid].name
        if pid not in now.ours:
            used[name] = used.get(name, 0.0) + max(0.0, seconds)
    return used


def _at_most(seconds: float, used: dict[str, float]) -> dict[str, float]:
    """Return what was used, all reduced by one factor if it is more than these seconds."""
    total = sum(used.values())
    factor = seconds / total if total > seconds else 1.0
    return {name: spent * factor for name, spent in used.items()}


def _rate(before: float | None, now: float | None, seconds: float) -> float | None:
    """Return the seconds of waiting per second; threads that ended take their counts with them."""
    return None if before is None or now is None else max(0.0, now - before) / seconds


def _family(pid: int, everything: dict[int, Process]) -> set[int]:
    """Return this process and all its descendants."""
    found = {pid}
    while more := {p for p, process in everything.items() if process.parent in found} - found:
        found |= more
    return found


def parse_stat(stat: str) -> tuple[int, int, int]:
    """Return the busy, idle and stolen ticks of `cpu  user nice system idle iowait irq …`.

    Source: proc_stat(5). `user` already includes guest time. Stolen time is busy; waiting for a
    disk is idle.
    """
    fields = [int(field) for field in stat.split("\n", 1)[0].split()[1:9]]
    idle = fields[3] + fields[4]
    return sum(fields) - idle, idle, fields[7]


def of_slot(stat: str, cpus: Collection[int]) -> tuple[str, int]:
    """Return the lines of some CPUs with their sum first, and the ticks in which they ran programs.

    A kernel either charges interrupts to the program that was interrupted, or counts them apart
    (CONFIG_IRQ_TIME_ACCOUNTING). Only the second one measures hard interrupts, in the column `irq`.
    Raises ValueError if none of the CPUs is there.
    """
    lines = [m for m in re.finditer(r"^cpu(\d+) (.*)$", stat, re.MULTILINE) if int(m[1]) in cpus]
    every = [[int(field) for field in line[2].split()[:8]] for line in lines]
    if not every:
        raise ValueError(f"no line for the CPUs {sets.show(cpus)}")
    total = [sum(column) for column in zip(*every, strict=True)]
    user, nice, system, _, _, irq, softirq, _ = total
    whole = ["cpu  " + " ".join(map(str, total)), *(line[0] for line in lines)]
    return "\n".join(whole), user + nice + system + (0 if irq else softirq)


def count_cpus(stat: str) -> int:
    """Return the number of CPUs, from the lines `cpu0 …` of proc_stat(5)."""
    return len(re.findall(r"^cpu\d", stat, re.MULTILINE))


def waited(pressure: str) -> float | None:
    """Return the seconds in which some task waited, from PSI: `some avg10=0.00 … total=123`."""
    some = re.search(r"^some .*total=(\d+)", pressure, re.MULTILINE)
    return int(some[1]) / 1e6 if some else None


def parse_process(stat: str, cgroup: str) -> Process | None:
    """Parse /proc/PID/stat and /proc/PID/cgroup; None for a kernel thread. See proc_pid_stat(5).

    The name is in parentheses and can contain spaces and parentheses.
    """
    name, _, rest = stat.partition("(")[2].rpartition(")")
    fields = rest.split()
    if int(fields[6]) & _KERNEL_THREAD:
        return None
    ticks = sum(int(field) for field in fields[11:15])  # utime stime cutime cstime
    return Process(name, int(fields[1]), cgroup, ticks * _TICK)
