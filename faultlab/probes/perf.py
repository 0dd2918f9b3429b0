"""Probe: where programs spend their time, as stacks of functions. Source: perf-record(1).

On the CPU a clock samples what runs. Off the CPU every switch away from it is recorded with its
stack, and the time until the thread runs again. A stack goes from a program's first function to the
one that ran. The kernel walks kernel frames. User frames are walked with the unwind tables that
Debian keeps in its programs, which have no frame pointers. Names come from `.dynsym`, because
Debian strips the rest; code without a name gets that of its file, as `[nginx]`. Kernel functions
end in `_[k]`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import dropwhile
from typing import Literal

from faultlab.core.errors import CannotRun
from faultlab.engine.shell import Shell

KERNEL = "_[k]"
COMPILED = "[compiled]"  # by a just-in-time compiler
PREEMPTED = "(waits for a processor)"
Mode = Literal["on", "off"]
Root = Callable[[int, str], str | None]  # takes pid and program, returns the root of its stacks

_STACK_BYTES = 8192  # of user stack kept for a sample: main() of PHP alone takes more than 4096
_TRIES = 5  # perf fails if a process in its arguments has just ended
_EVENTS = {
    "on": "-e cpu-clock -F {hertz} --max-size 400M",
    "off": "-e context-switches -c 1 --switch-events -m 8M --max-size 100M",  # stops a flood
}
# The recording runs until the sleep ends or is killed; the file `on` tells that it has begun.
_START = """
mkdir -p /tmp/flame && cd /tmp/flame && rm -f on
perf record -B -N {events} --call-graph dwarf,{bytes} -o data {target} -- \
  sh -c 'echo $$ >on; exec sleep {seconds}' >said 2>&1 </dev/null &
echo $! >perf
until [ -s on ]; do kill -0 $(cat perf) 2>/dev/null || {{ cat said >&2; exit 1; }}; sleep 0.05; done
"""
_STOP = """
cd /tmp/flame && kill $(cat on) 2>/dev/null
while kill -0 $(cat perf) 2>/dev/null; do sleep 0.05; done
perf script -i data --no-inline --show-lost-events --show-switch-events \
  -F comm,pid,tid,time,ip,sym,dso 2>errors || {{ cat said errors >&2; exit 1; }}
! grep -q 'size limit' said || echo 'perf 0/0 0.0: {full}'
"""
_FULL = "PERF_RECORD_FULL"  # our own word
_HEAD = re.compile(r"(?P<comm>\S.*?) +(?P<pid>\d+)/(?P<tid>\d+) +(?P<time>[\d.]+): *(?P<event>.*)")
_FRAME = re.compile(r"\s+(?P<address>[0-9a-f]+) (?P<name>.+) \((?P<file>.*)\)")
_LOST = re.compile(r"PERF_RECORD_LOST.*\blost\D*(\d+)")
_SWITCH = re.compile(r"PERF_RECORD_SWITCH(?:_CPU_WIDE)? +(IN|OUT preempt|OUT)\b")
_KERNEL_HALF = 1 << 63  # of the addresses
_END = (1 << 64) - 1  # the unwinder's address at the end of the stored part of a stack
_NO_FILE = re.compile(r"/tmp/perf-\d+\.map|//anon")  # where a just-in-time compiler's code is
_SCHEDULER = ("schedule", "__schedule", "preempt_schedule")  # on top of every wait
_IDLE = re.compile(r"halt|idle")  # native_safe_halt, default_idle, acpi_idle_do_entry


@dataclass(frozen=True)
class Share:
    """The time in which a function is on the stack, and in which it is the top itself."""

    function: str
    total: int
    own: int


@dataclass(frozen=True)
class Stacks:
    """Time by stack (`web;nginx;main;…;__sys_connect_[k]`), and how many records were lost.

    The unit is a sample on the CPU, and a microsecond off it. `full`: the recording ended early
    because it had become too large.
    """

    counts: Mapping[str, int]
    lost: int
    full: bool = False

    @property
    def total(self) -> int:
        """Return the sum of all samples, or microseconds."""
        return sum(self.counts.values())

    @property
    def kernel_share(self) -> float:
        """Return the share of the time spent in the kernel."""
        return self._share(lambda frames: any(frame.endswith(KERNEL) for frame in frames))

    @property
    def nameless_share(self) -> float:
        """Return the share of the time spent in code without a name."""
        return self._share(lambda frames: frames[-1].startswith("["))

    def share(self, function: str) -> float:
        """Return the time share of a function and its callees; `_[k]` can be omitted."""
        return self._share(lambda frames: function in (f.removesuffix(KERNEL) for f in frames))

    def own_share(self, function: str) -> float:
        """Return the time share of the function itself."""
        return self._share(lambda frames: frames[-1].removesuffix(KERNEL) == function)

    def _share(self, counts: Callable[[list[str]], bool]) -> float:
        hits = sum(n for stack, n in self.counts.items() if counts(stack.split(";")))
        return hits / self.total if self.total else 0.0

    def functions(self) -> list[Share]:
        """Return every function, the one that ran most often first."""
        total: Counter[str] = Counter()
        own: Counter[str] = Counter()
        for stack, count in self.counts.items():
            frames = stack.split(";")
            own[frames[-1]] += count
            for frame in set(frames):
                total[frame] += count
        rows = [Share(name, total[name], own[name]) for name in total]
        return sorted(rows, key=lambda row: (-row.own, -row.total, row.function))

    def folded(self) -> str:
        """Return one line for each stack, in the format of all flame graph tools."""
        return "".join(f"{stack} {count}\n" for stack, count in sorted(self.counts.items()))


def start(at: Shell, target: str, mode: Mode, seconds: int, hertz: int) -> None:
    """Begin to record for `seconds`; `target` is perf's arguments for the processes.

    Raises CannotRun.
    """
    events = _EVENTS[mode].format(hertz=hertz)
    script = _START.format(events=events, bytes=_STACK_BYTES, target=target, seconds=seconds)
    for _ in range(_TRIES):
        done = at.run(script, timeout=60)
        if done.code == 0:
            return
    raise CannotRun(
        f"perf may not record here: {_reason(done.err)}", "sysctl kernel.perf_event_paranoid"
    )


def stop(at: Shell) -> str:
    """End the recording, if it has not ended by itself; return the output of `perf script`."""
    return at.must(_STOP.format(full=_FULL), timeout=120)


def _reason(said: str) -> str:
    """Return the line of perf's long message that says what happened."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return next((line for line in lines if not line.endswith(":")), "it gave no reason")


@dataclass(frozen=True)
class _Record:
    """A sample, or with `event` something that happened to a thread. Time in seconds."""

    comm: str
    pid: int
    tid: int
    time: float
    event: str
    frames: list[str]

    @property
    def lost(self) -> int:
        """Return how many records were lost here."""
        found = _LOST.match(self.event)
        return int(found[1]) if found else 0

    def waiting(self) -> _Record:
        """Return the record without the scheduler, so that the cause of the wait is on top."""
        frames = list(dropwhile(lambda frame: frame.startswith(_SCHEDULER), self.frames))
        return replace(self, frames=frames)

    def stack(self, root: Root) -> str | None:
        """Return the stack from its bottom up; None if it does not belong in the picture."""
        bottom = root(self.pid, self.comm)
        return None if bottom is None else ";".join([bottom, *reversed(self.frames)])


def _records(out: str) -> Iterator[_Record]:
    """Parse the output of `perf script`: a line for each record, a sample's stack below it."""
    record: _Record | None = None
    for line in out.splitlines():
        if record and line.startswith("\t"):
            record.frames.extend(_frame(line))
        elif found := _HEAD.fullmatch(line):
            if record:
                yield record
            pid, tid, time = int(found["pid"]), int(found["tid"]), float(found["time"])
            record = _Record(found["comm"], pid, tid, time, found["event"], [])
    if record:
        yield record


def parse(out: str, root: Root, mode: Mode) -> Stacks:
    """Parse a recording. An idle CPU is never in it."""
    records = list(_records(out))
    counts = (_parse_samples if mode == "on" else _parse_waits)(records, root)
    full = any(record.event == _FULL for record in records)
    return Stacks(dict(counts), sum(record.lost for record in records), full)


def _parse_samples(records: list[_Record], root: Root) -> Counter[str]:
    counts: Counter[str] = Counter()
    for record in records:
        idle = record.pid == 0 and record.frames and _IDLE.search(record.frames[0])
        if not record.event and not idle and (stack := record.stack(root)):
            counts[stack] += 1
    return counts


def _parse_waits(records: list[_Record], root: Root) -> Counter[str]:
    """Add up waits, each from a sample until its thread is switched in again.

    If records were lost, it is unknown whether a thread has run again, so open waits are dropped.
    """
    counts: Counter[str] = Counter()
    waits: dict[int, tuple[float, str]] = {}
    for record in records:
        if record.lost:
            waits.clear()
        elif not record.event and record.pid and (stack := record.waiting().stack(root)):
            waits[record.tid] = (record.time, stack)
        elif (switch := _SWITCH.match(record.event)) and record.tid in waits:
            began, stack = waits[record.tid]
            if switch[1] == "IN":
                counts[stack] += round(1e6 * (record.time - began))
                del waits[record.tid]
            elif switch[1] == "OUT preempt":
                waits[record.tid] = (began, f"{stack};{PREEMPTED}")
    return counts


def _frame(line: str) -> list[str]:
    """Return `_raw_spin_lock_[k]` for `ffffffff8220176b _raw_spin_lock ([kernel.kallsyms])`."""
    found = _FRAME.fullmatch(line)
    if found is None:
        return []
    address, name, file = int(found["address"], 16), found["name"], found["file"]
    if _KERNEL_HALF <= address < _END:
        return [("[kernel]" if name == "[unknown]" else name) + KERNEL]
    if name != "[unknown]":
        return [name.replace(";", ":")]
    if file == "[unknown]":
        return []
    return [COMPILED if _NO_FILE.fullmatch(file) else f"[{file.rsplit('/', 1)[-1].strip('[]')}]"]
