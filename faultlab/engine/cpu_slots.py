"""CPU slots: the CPUs of this machine in equal parts, of which each stack has one.

So a load look needs its slot alone and not the machine, and a stack sees as many CPUs on a large
machine as on a small one. A slot has whole cores of one NUMA node. Where all CPUs are one slot,
nothing is pinned and there is nothing to choose.

Which stack has which slot is in the labels of its containers. Until they are there, the command
that starts them keeps a claim: the lock of a file, which the kernel releases when it dies.
Sources: the kernel's cputopology page, and sysfs-devices-node of its ABI.
"""

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path

from faultlab.core import cpus, lock
from faultlab.core.errors import BadInput

SIZE = "FAULTLAB_SLOT_CPUS"
_USUAL = 2
_CLAIM = ".claim"
_SYS = Path("/sys/devices/system")


@cache
def usable() -> frozenset[int]:
    """Return the CPUs that this command could use when it first asked; `inside` narrows them."""
    return frozenset(os.sched_getaffinity(0))


def cores(sys: Path, allowed: Collection[int]) -> list[list[frozenset[int]]]:
    """Return the CPUs of each core, by NUMA node. `sys`: as /sys/devices/system.

    Only CPUs that are online and allowed count. What /sys does not tell is one node, or a core of
    one CPU.
    """
    here = frozenset(allowed)
    if online := _read(sys / "cpu/online"):
        here &= online
    nodes = [_read(file) for file in sorted(sys.glob("node/node[0-9]*/cpulist"), key=_number)]
    found = []
    for node in [*nodes, here - frozenset().union(*nodes)]:
        threads = {n: _read(sys / f"cpu/cpu{n}/topology/thread_siblings_list") for n in node & here}
        its = {(told | {n}) & node & here for n, told in threads.items()}
        found.append(sorted(its, key=min))
    return [node for node in found if node]


def _read(file: Path) -> frozenset[int]:
    try:
        return cpus.parse(file.read_text())
    except (OSError, ValueError):  # a kernel without it
        return frozenset()


def _number(cpulist: Path) -> int:
    return int(cpulist.parent.name.removeprefix("node"))


def divide(nodes: Sequence[Sequence[frozenset[int]]], size: int) -> list[str]:
    """Return the CPUs of each slot, of `size` or more: whole cores, and no more than a node has.

    Cores that are left over are in no slot.
    """
    every = frozenset(n for node in nodes for core in node for n in core)
    if size >= len(every):
        return [cpus.show(every)]
    size = min(size, max(len(frozenset().union(*node)) for node in nodes))
    found = []
    for node in nodes:
        slot: frozenset[int] = frozenset()
        for core in node:
            slot |= core
            if len(slot) >= size:
                found.append(cpus.show(slot))
                slot = frozenset()
    return found


def wanted(most: int) -> int:
    """Return the CPUs that a slot is to have on a machine of so many. Raises BadInput."""
    said = os.environ.get(SIZE, "")
    if not said:
        return min(_USUAL, most)
    if not (said.isascii() and said.isdigit() and 1 <= int(said) <= most):
        raise BadInput(
            f"{SIZE}: expected 1 to {most}, the CPUs of this machine, got {said!r}.",
            f"export {SIZE}={min(_USUAL, most)}",
        )
    return int(said)


def of_machine() -> list[str]:
    """Return the CPUs of each slot of this machine. Raises BadInput for a size that it has not."""
    return divide(cores(_SYS, usable()), wanted(len(usable())))


def width() -> int:
    """Return how many CPUs a stack has. Raises BadInput."""
    return len(cpus.parse(of_machine()[0]))


def fewest(slots: Sequence[str], taken: Collection[str]) -> str:
    """Return the slot that overlaps with the fewest of the taken ones, the first of several.

    Those of a command with another FAULTLAB_SLOT_CPUS overlap in a part.
    """
    sets = [cpus.parse(each) for each in taken]
    return min(slots, key=lambda slot: sum(bool(cpus.parse(slot) & each) for each in sets))


@contextmanager
def claim(stack: str, slots: Sequence[str], up: Callable[[], Mapping[str, str]]) -> Iterator[str]:
    """Choose a slot for a stack that will start, and count it as taken while the body runs.

    `up`: returns the slots of the stacks that are up, by name, of all users of this machine.
    """
    with ExitStack() as held:
        with lock.shared("slots.lock"):
            others = {**_claims(), **up()}
            before = others.pop(stack, "")  # it is replaced, and stays if it can
            chosen = fewest(sorted(slots, key=lambda each: each != before), others.values())
            name = f"{stack}={chosen}{_CLAIM}"
            held.enter_context(lock.shared(name, alone=False, stays=False))
        yield chosen


def _claims() -> dict[str, str]:
    """Return the slots of stacks that are just being started, by name."""
    names = (file.name for file in lock.folder_of_all().glob(f"*{_CLAIM}"))
    held = [name.removesuffix(_CLAIM).partition("=") for name in names if lock.is_held(name)]
    return {stack: slot for stack, _, slot in held}


@contextmanager
def inside(slot: str) -> Iterator[None]:
    """Run this command on the CPUs of a slot while the body runs; on all where it is empty.

    Then it takes no time from other slots, as the stack does not.
    """
    if not slot:
        yield
        return
    before = usable()
    _run_on(cpus.parse(slot))
    try:
        yield
    finally:
        _run_on(before)


def _run_on(chosen: Collection[int]) -> None:
    """Move every thread; one that starts later is where its starter is."""
    for task in Path("/proc/self/task").iterdir():
        try:
            os.sched_setaffinity(int(task.name), chosen)
        except OSError:  # it has ended, or these CPUs are not ours to use
            continue
