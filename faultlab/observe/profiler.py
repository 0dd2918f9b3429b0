"""Profiler: perf beside a running stack, in helper containers that end by themselves.

Locally each machine with daemons gets a helper in its PID namespace, and only what runs there is
sampled. In the VM one helper sees the whole kernel: interrupts and kernel threads are sampled too,
and what belongs neither to a machine nor to the kernel (Docker, the load) is left out.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass

from faultlab.engine.contract import Machine
from faultlab.engine.shell import Shell
from faultlab.engine.stack import Stack
from faultlab.probes import perf
from faultlab.probes.perf import Mode, Root, Stacks

LONGEST = 60  # seconds of one recording
_SAMPLES = 2000  # of each busy processor in one recording: 1% of them is still 20
_USUAL = 10  # seconds: most looks take fewer
_FEWEST = 49  # samples a second, not in step with anything that ticks
_LIFE = 600  # seconds after which a helper is gone whatever became of us
_KERNEL = "kernel"
# perf_event_open and other programs' files; kernel addresses; buffers beyond the user's share.
_RIGHTS = ["SYS_ADMIN", "SYS_PTRACE", "SYSLOG", "IPC_LOCK"]
# Processes of the machine: those whose mount namespace is not the helper's own.
# Neither the one that writes the timeline, which calls itself meter.
_OTHERS = """-p $(ps -eo pid=,mntns=,comm= | awk -v own="$(stat -Lc %i /proc/self/ns/mnt)" \
'$2 != own && $2 != "-" && $3 != "meter" { print $1 }' | paste -sd,)"""
_PROCESSES = "ps -eo pid=,ppid=,pidns="
_SETTINGS = "cat /proc/sys/kernel/perf_event_paranoid /proc/sys/kernel/kptr_restrict"


@dataclass(frozen=True)
class Recording:
    """Stacks, how many seconds they were recorded, on which machines and with which settings.

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
    """Record the machines of a stack while `act` runs, but not longer than LONGEST.

    `expected`: seconds that `act` may take; many mean fewer samples a second, so that their number
    stays bounded. Raises CannotRun when perf may not record here.
    """
    hertz = max(_FEWEST, round(_SAMPLES / max(expected, _USUAL) * stack.pace.share))
    with ExitStack() as clean:
        clocks = [clean.enter_context(clock) for clock in _clocks(stack)]
        for clock in clocks:
            perf.start(clock.at, clock.target, mode, LONGEST, hertz)
        began = time.monotonic()
        act()
        lasted = min(time.monotonic() - began, LONGEST)
        paranoid, restrict = clocks[0].at.must(_SETTINGS).split()
        parts = [perf.parse(perf.stop(clock.at), clock.root(mode), mode) for clock in clocks]
    ours = tuple(_machines(stack))
    rest = tuple(name for name, machine in stack.items() if name not in ours and not machine.joins)
    return Recording(_merged(parts), mode, lasted, ours, rest, int(paranoid), int(restrict))


def _merged(parts: list[Stacks]) -> Stacks:
    counts: Counter[str] = Counter()
    for part in parts:
        counts.update(part.counts)
    return Stacks(dict(counts), sum(p.lost for p in parts), any(p.full for p in parts))


def _machines(stack: Stack) -> dict[str, Machine]:
    """Return the machines with daemons; the others make the load."""
    homes = {machine.joins for machine in stack.values()}
    return {name: machine for name, machine in stack.items() if name in homes}


@dataclass(frozen=True)
class _Clock:
    """A helper with its perf, what that samples, and how to read whose samples they are."""

    at: Shell
    target: str
    root: Callable[[Mode], Root]


def _clocks(stack: Stack) -> list[AbstractContextManager[_Clock]]:
    if not stack.engine.owns_kernel:
        return [_of_machine(stack, name, machine) for name, machine in _machines(stack).items()]
    return [_of_kernel(stack)]


@contextmanager
def _of_machine(stack: Stack, name: str, machine: Machine) -> Iterator[_Clock]:
    with _helper(stack, machine) as helper:
        yield _Clock(helper, _OTHERS, lambda _mode: lambda _pid, comm: f"{name};{comm}")


@contextmanager
def _of_kernel(stack: Stack) -> Iterator[_Clock]:
    with _helper(stack) as helper:
        roots = {m.pid: name for name, m in _machines(stack).items()}
        yield _Clock(helper, "-a", lambda mode: owners(helper.must(_PROCESSES), roots, mode))


def owners(processes: str, machines: dict[str, str], mode: Mode) -> Root:
    """Return a function that tells whose a sample is.

    `processes`: pid, parent and PID namespace of every process; `machines`: the name of each
    machine by the pid of its first process. A kernel thread waits most of the time, for work and
    for no user, so its waits are nobody's.
    """
    rows = [row.split() for row in processes.splitlines()]
    spaces = {space: machines[pid] for pid, _, space in rows if pid in machines}
    names = {int(pid): spaces[space] for pid, _, space in rows if space in spaces}
    if mode == "on":
        threads = (0, 2, *(int(pid) for pid, parent, _ in rows if parent == "2"))
        names |= dict.fromkeys(threads, _KERNEL)

    def root(pid: int, comm: str) -> str | None:
        name = names.get(pid)
        return f"{name};{comm}" if name else None

    return root


def _helper(stack: Stack, inside: Machine | None = None) -> AbstractContextManager[Machine]:
    return stack.engine.beside("machine", stack.name, _LIFE, inside=inside, rights=_RIGHTS)
