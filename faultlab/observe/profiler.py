"""Profiler: perf beside a running stack, in a helper container that ends by itself.

perf needs rights that no machine has. So no process of the stack can see the helper, because a
process that sees it could change its files. perf samples the processes of the machines with
daemons, and in the VM the whole kernel: interrupts and kernel threads too. What belongs neither to
a machine nor to the kernel (Docker, the load) is left out.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from faultlab.engine.contract import Machine
from faultlab.engine.stack import Stack
from faultlab.probes import perf
from faultlab.probes.perf import Mode, Root, Stacks

LONGEST = 60  # seconds of one recording
_SAMPLES = 2000  # of each busy CPU in one recording, so 1% of them are still 20
_USUAL = 10  # seconds; most looks take less
_FEWEST = 49  # samples a second, not in step with any timer
_LIFE = 600  # seconds after which a helper ends, even if we were killed
_KERNEL = "kernel"
# perf_event_open and other programs' files; kernel addresses; buffers above the user's limit.
_RIGHTS = ["SYS_ADMIN", "SYS_PTRACE", "SYSLOG", "IPC_LOCK"]
_PROCESSES = "ps -eo pid=,ppid=,pidns=,comm="
_COLLECTOR = "collector"  # the name of the program that writes the timeline
_SETTINGS = "cat /proc/sys/kernel/perf_event_paranoid /proc/sys/kernel/kptr_restrict"


@dataclass(frozen=True)
class Recording:
    """Stacks, the seconds of the recording, its machines and its settings.

    `left_out`: machines without daemons, which make the load. `paranoid` and `kptr_restrict` are
    kernel.perf_event_paranoid and kernel.kptr_restrict.
    """

    stacks: Stacks
    mode: Mode
    seconds: float
    machines: tuple[str, ...]
    left_out: tuple[str, ...]
    paranoid: int
    kptr_restrict: int


def during(
    stack: Stack, act: Callable[[], object], mode: Mode = "on", expected: int = _USUAL
) -> Recording:
    """Record the machines of a stack while `act` runs, but at most LONGEST seconds.

    `expected`: seconds that `act` can take. More seconds mean fewer samples a second, so that their
    number stays bounded. Raises CannotRun if perf is not permitted here.
    """
    hertz = max(_FEWEST, round(_SAMPLES / max(expected, _USUAL) * stack.pace.share))
    ours = _machines(stack)
    with stack.engine.sidecar(stack.name, _LIFE, whole=True, rights=_RIGHTS) as helper:
        roots = {machine.pid: name for name, machine in ours.items()}
        target = "-a" if stack.engine.owns_kernel else of_machines(helper.must(_PROCESSES), roots)
        perf.start(helper, target, mode, LONGEST, hertz)
        began = time.monotonic()
        act()
        lasted = min(time.monotonic() - began, LONGEST)
        paranoid, restrict = helper.must(_SETTINGS).split()
        owner = owners(helper.must(_PROCESSES), roots, mode)
        stacks = perf.parse(perf.stop(helper), owner, mode)
    rest = tuple(name for name, machine in stack.items() if name not in ours and not machine.joins)
    return Recording(stacks, mode, lasted, (*ours,), rest, int(paranoid), int(restrict))


def _machines(stack: Stack) -> dict[str, Machine]:
    """Return the machines with daemons; the others make the load."""
    homes = {machine.joins for machine in stack.values()}
    return {name: machine for name, machine in stack.items() if name in homes}


def _spaces(processes: str, machines: dict[str, str]) -> tuple[list[list[str]], dict[str, str]]:
    """Return the rows of the processes, and the machine of each PID namespace that has one."""
    rows = [row.split(None, 3) for row in processes.splitlines()]
    return rows, {row[2]: machines[row[0]] for row in rows if row[0] in machines}


def of_machines(processes: str, machines: dict[str, str]) -> str:
    """Return perf's arguments for the processes of these machines when the recording begins."""
    spaces = "|".join(_spaces(processes, machines)[1])
    wanted = f'$2 ~ /^({spaces})$/ && $3 != "{_COLLECTOR}" {{ print $1 }}'
    return f"-p $(ps -eo pid=,pidns=,comm= | awk '{wanted}' | paste -sd,)"


def owners(processes: str, machines: dict[str, str], mode: Mode) -> Root:
    """Return a function that tells which machine a sample belongs to.

    `processes`: pid, parent, PID namespace and program of every process. `machines`: the name of
    each machine by the pid of its first process. A kernel thread mostly waits for work, not for a
    user, so its waits belong to no machine.
    """
    rows, spaces = _spaces(processes, machines)
    names = {
        int(row[0]): spaces[row[2]] for row in rows if row[2] in spaces and row[3] != _COLLECTOR
    }
    if mode == "on":
        threads = (0, 2, *(int(row[0]) for row in rows if row[1] == "2"))
        names |= dict.fromkeys(threads, _KERNEL)

    def root(pid: int, comm: str) -> str | None:
        name = names.get(pid)
        return f"{name};{comm}" if name else None

    return root
