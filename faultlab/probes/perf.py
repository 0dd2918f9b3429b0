"""Probe: where processor time goes, by stacks of functions. Source: perf-record(1), perf-script(1).

A clock samples what runs; each sample is a stack, from the program's first function up to the one
that ran. Kernel frames are walked by the kernel, user frames with the unwind tables that Debian
keeps in its programs (they have no frame pointers). Names come from `.dynsym`: Debian strips the
rest, so code without a name carries that of its file, as `[nginx]`. Kernel functions end in `_[k]`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from faultlab.engine import Shell
from faultlab.errors import CannotRun

KERNEL = "_[k]"
_STACK_BYTES = 8192  # of user stack kept for a sample: main() of PHP alone takes more than 4096
_MEGABYTES = 400  # of samples on the disk, after which perf ends the recording
_FOLDER = "/tmp/flame"

# The clock runs until the sleep ends or is killed; /tmp/flame/on tells that it runs.
_START = """
mkdir -p {folder} && cd {folder} && rm -f on
perf record -B -N -F {hertz} -e cpu-clock --call-graph dwarf,{bytes} --max-size {megabytes}M \
  -o data {target} -- sh -c 'echo $$ >on; exec sleep {seconds}' >said 2>&1 </dev/null &
echo $! >perf
until [ -s on ]; do kill -0 $(cat perf) 2>/dev/null || {{ cat said >&2; exit 1; }}; sleep 0.05; done
"""
_STOP = """
cd {folder} && kill $(cat on) 2>/dev/null
while kill -0 $(cat perf) 2>/dev/null; do sleep 0.05; done
perf script -i data --no-inline --show-lost-events -F comm,pid,ip,sym,dso 2>errors ||
  {{ cat said errors >&2; exit 1; }}
"""
_SAMPLE = re.compile(r"(?P<comm>\S.*?) +(?P<pid>\d+) *")
_FRAME = re.compile(r"\s+(?P<address>[0-9a-f]+) (?P<name>.+) \((?P<file>.*)\)")
_LOST = re.compile(r"PERF_RECORD_LOST.*\blost:? *(\d+)")
_KERNEL_HALF = 1 << 63  # of the addresses
_END = (1 << 64) - 1  # what the unwinder says where the kept piece of a stack ends
_COMPILED = re.compile(r"perf-\d+\.map|//anon")  # code that a just-in-time compiler made
_IDLE = re.compile(r"halt|idle")  # native_safe_halt, default_idle, acpi_idle_do_entry


@dataclass(frozen=True)
class Share:
    """How many samples hold a function, and in how many it is the one that ran."""

    function: str
    total: int
    own: int


@dataclass(frozen=True)
class Stacks:
    """Samples by stack (`nginx;main;…;__sys_connect_[k]`), and how many samples were lost."""

    counts: Mapping[str, int]
    lost: int

    @property
    def samples(self) -> int:
        """All of them."""
        return sum(self.counts.values())

    @property
    def kernel_share(self) -> float:
        """The share of samples that were taken in the kernel."""
        return self._share(lambda frames: frames[-1].endswith(KERNEL))

    @property
    def nameless_share(self) -> float:
        """The share of samples that were taken in code without a name."""
        return self._share(lambda frames: frames[-1].startswith("["))

    def share(self, function: str) -> float:
        """The share of samples in the function or in what it called; `_[k]` may be left out."""
        return self._share(lambda frames: function in (f.removesuffix(KERNEL) for f in frames))

    def own_share(self, function: str) -> float:
        """The share of samples in the function itself."""
        return self._share(lambda frames: frames[-1].removesuffix(KERNEL) == function)

    def _share(self, counts: Callable[[list[str]], bool]) -> float:
        hits = sum(n for stack, n in self.counts.items() if counts(stack.split(";")))
        return hits / self.samples if self.samples else 0.0

    def functions(self) -> list[Share]:
        """Every function, the one that ran most often first."""
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
        """One line a stack, as all flame graph tools read and write them."""
        return "".join(f"{stack} {count}\n" for stack, count in sorted(self.counts.items()))


def start(at: Shell, target: str, seconds: int, hertz: int) -> None:
    """Have the clock run for so many seconds; `target` are perf's words for what is sampled.

    Raises CannotRun.
    """
    done = at.run(
        _START.format(
            folder=_FOLDER,
            hertz=hertz,
            bytes=_STACK_BYTES,
            megabytes=_MEGABYTES,
            target=target,
            seconds=seconds,
        ),
        timeout=60,
    )
    if done.code != 0:
        raise CannotRun(f"perf cannot record here: {_reason(done.err)}", "faultlab doctor")


def stop(at: Shell) -> str:
    """End the recording, if it has not ended by itself; return it as `perf script` prints it."""
    return at.must(_STOP.format(folder=_FOLDER), timeout=120)


def _reason(said: str) -> str:
    """The line of perf's long complaint that says what happened."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return next((line for line in lines if not line.endswith(":")), "it gave no reason")


def parse(out: str, root: Callable[[int, str], str | None]) -> Stacks:
    """Read what `perf script` printed. `root` names the bottom of the stack for pid and program.

    It returns None for a process that does not belong in the picture. An idle processor never does.
    """
    counts: Counter[str] = Counter()
    lost = 0
    for block in out.split("\n\n"):
        lines = block.strip("\n").splitlines()
        while lines and (found := _LOST.search(lines[0])):
            lost += int(found[1])
            lines = lines[1:]
        head = _SAMPLE.fullmatch(lines[0]) if lines else None
        if head is None:
            continue
        frames = [frame for line in lines[1:] if (frame := _frame(line))]
        bottom = root(int(head["pid"]), head["comm"])
        idle = head["pid"] == "0" and frames and _IDLE.search(frames[0])
        if bottom is not None and not idle:
            counts[";".join([bottom, *reversed(frames)])] += 1
    return Stacks(dict(counts), lost)


def _frame(line: str) -> str:
    """`ffffffff8220176b _raw_spin_lock ([kernel.kallsyms])` is `_raw_spin_lock_[k]`."""
    found = _FRAME.fullmatch(line)
    if found is None:
        return ""
    address, name = int(found["address"], 16), found["name"].replace(";", ":")
    kernel = _KERNEL_HALF <= address < _END
    if name == "[unknown]":
        file = found["file"].rsplit("/", 1)[-1].strip("[]")
        if file == "unknown" and not kernel:
            return ""
        name = "[kernel]" if kernel else f"[{_COMPILED.sub('compiled', file)}]"
    return name + KERNEL if kernel else name
