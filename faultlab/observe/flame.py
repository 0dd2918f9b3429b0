"""Flame: the CPU time of a running lab as a flame graph, one SVG that any browser opens.

flamegraph.pl draws the picture; it is the original, which Debian ships with Devel::NYTProf. A
picture looks complete, so we print what is missing from it, with the reason.
"""

import hashlib
import shlex
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from faultlab.core import archive, lock, paths
from faultlab.core.errors import BadInput, CannotRun
from faultlab.core.events import MAY_LACK
from faultlab.core.terminal import Terminal
from faultlab.observe import profiler
from faultlab.observe.profiler import LONGEST, Recording
from faultlab.probes.perf import COMPILED, KERNEL, PREEMPTED, Mode, Share, Stacks
from faultlab.run import placement
from faultlab.run.attached import attached
from faultlab.run.run import Run

_ALONE = 10  # seconds for a user who makes the load
_TOP = 10
_NOTABLE = 0.01
_FEW = 200  # samples: 10% of them are still 20
_FOLDER = "/tmp"
_UNITS: dict[Mode, str] = {"on": "samples", "off": "microseconds"}
_TITLES: dict[Mode, str] = {"on": "processor time", "off": "waiting time"}
_FILES: dict[Mode, str] = {"on": "flame", "off": "flame-off"}
_NOTHING: dict[Mode, str] = {"on": "used no processor time", "off": "waited for nothing"}
_DRAW = (
    "cd {folder} && perl /usr/share/perl5/Devel/NYTProf/flamegraph.pl"
    " --cp --title {title} --countname {unit} stacks"
)


@dataclass(frozen=True)
class Function:
    """A function: its own share of the total, and its share including callees."""

    function: str
    own: int
    total: int
    own_share: float
    total_share: float


@dataclass(frozen=True, kw_only=True)
class Flame:
    """A recording and its picture: the largest functions, and what is missing."""

    lab: str
    run: str
    engine: str
    file: str
    folded: str
    seconds: float
    machines: list[str]
    samples: int | None = field(default=None, metadata=MAY_LACK)
    microseconds: int | None = field(default=None, metadata=MAY_LACK)
    lost: int
    kernel_share: float
    functions: list[Function]
    missing: list[str]


def flame(term: Terminal, lab_id: str, seconds: int | None, load: bool, mode: Mode) -> Flame:
    """Record the machines of a lab that is up while its own load runs, and draw the result.

    Raises CannotRun if the lab is not up, if perf is not permitted, or if nothing ran.
    """
    if seconds is not None and not 1 <= seconds <= LONGEST:
        raise BadInput(
            f"--seconds takes 1 to {LONGEST}, not {seconds}.", f"faultlab flame {lab_id}"
        )
    with attached(lab_id, "flame") as run:
        recording = _record(term, run, seconds, load, mode)
        if not recording.stacks.total:
            raise CannotRun(
                f"{_names(recording.machines)} {_NOTHING[mode]} in {recording.seconds:.0f} s, "
                "so there is nothing to draw.",
                f"faultlab flame {lab_id} --seconds {_longer(recording.seconds)}",
            )
        file = _free(run.record.folder, _FILES[mode])
        with term.step("draw", "drawing the flame graph") as step:
            title = f"{lab_id}: {_TITLES[mode]} of {_names(recording.machines)}"
            file.write_text(draw(run.stack.name, recording, title, step.note))
            file.with_suffix(".folded").write_text(recording.stacks.folded())
            step.done(paths.show(file))
        run.record.event("flame", file=file.name, **{_UNITS[mode]: recording.stacks.total})
    return _show(term, run, recording, file)


def _record(term: Terminal, run: Run, seconds: int | None, load: bool, mode: Mode) -> Recording:
    def look() -> None:
        """Repeat looks of the lab's check until the seconds are over; complete each one."""
        end = time.monotonic() + (seconds or 0)
        run.check.look(run.stack)
        while time.monotonic() < end:
            run.check.look(run.stack)

    alone = seconds or _ALONE
    if not load:
        term.say(f"Make the load now, for {alone} s: make shell-{run.lab.alias}")
    with (
        term.step("record", "while the lab makes its load" if load else "your load") as step,
        # Another load on these CPUs would be in the picture.
        lock.turn(alone=True, slot=run.stack.slot) if load else nullcontext(),
    ):
        act = look if load else lambda: time.sleep(alone)
        recording = profiler.during(run.stack, act, mode, alone)
        step.done(f"{_amount(recording)} in {recording.seconds:.1f} s")
    return recording


def _amount(recording: Recording) -> str:
    total = recording.stacks.total
    return f"{total} samples" if recording.mode == "on" else f"{total / 1e6:.3g} s of waiting"


def _show(term: Terminal, run: Run, recording: Recording, file: Path) -> Flame:
    stacks = recording.stacks
    rows = [row for row in stacks.functions() if row.own][:_TOP]
    lacking = missing(recording, local=not run.engine.owns_kernel)
    term.say()
    cells = [
        (_percent(row.own, stacks), _percent(row.total, stacks), row.function.removesuffix(KERNEL))
        for row in rows
    ]
    term.table(("itself", "with callees", "function"), cells)
    term.say()
    for line in lacking:
        term.say(f"Not in it: {line}.")
    if recording.mode == "on" and stacks.total < _FEW:
        term.say(f"{stacks.total} samples are few; more: --seconds {_longer(recording.seconds)}")
    term.say("Open it in a browser; click a frame to zoom, Search is at the top right.")
    return Flame(
        lab=run.lab.alias,
        run=run.record.id,
        engine=run.engine.name,
        file=str(file),
        folded=str(file.with_suffix(".folded")),
        seconds=round(recording.seconds, 1),
        machines=list(recording.machines),
        **{_UNITS[recording.mode]: stacks.total},
        lost=stacks.lost,
        kernel_share=round(stacks.kernel_share, 4),
        functions=[_function(row, stacks.total) for row in rows],
        missing=lacking,
    )


def _function(row: Share, of: int) -> Function:
    return Function(
        row.function, row.own, row.total, round(row.own / of, 4), round(row.total / of, 4)
    )


def _percent(count: int, stacks: Stacks) -> str:
    return f"{100 * count / stacks.total:.1f}%"


def _longer(seconds: float) -> int:
    return min(LONGEST, 2 * int(seconds) + 10)


def _names(names: Iterable[str]) -> str:
    return " and ".join(names)


def missing(recording: Recording, local: bool) -> list[str]:
    """Return what the picture does not show, and why, one line each."""
    stacks = recording.stacks
    found = [f"{_names(recording.left_out)}, for the load"]
    if recording.mode == "off":
        found.append("kernel threads, which wait for work")
    elif local:
        found.append("kernel threads (they are in it after faultlab start --engine vm)")
    if not stacks.kernel_share:
        found.append(f"the kernel: kernel.perf_event_paranoid={recording.paranoid}")
    elif stacks.share("[kernel]"):
        found.append(f"names in the kernel: kernel.kptr_restrict={recording.kptr_restrict}")
    compiled = stacks.own_share(COMPILED)
    if (stripped := stacks.nameless_share - compiled) >= _NOTABLE:
        found.append(f"names that Debian strips, in [brackets]: {stripped:.0%} of the time")
    if compiled >= _NOTABLE:
        found.append(f"names of what is compiled at run time: {compiled:.0%} of the time")
    if stacks.full:
        found.append("the end: perf had recorded as much as it may")
    if recording.seconds >= LONGEST:
        found.append(f"what came after {LONGEST} s, the longest recording")
    if stacks.lost:
        found.append(f"{stacks.lost} records that perf could not write in time")
    return found


def _free(folder: Path, stem: str) -> Path:
    """Return the next file name; earlier pictures stay for comparison."""
    names = (folder / f"{stem}{f'-{n}' if n > 1 else ''}.svg" for n in count(1))
    return next(name for name in names if not name.exists())


def draw(stack: str, recording: Recording, title: str, note: Callable[[str], None]) -> str:
    """Return the SVG of a recording, with script and styles in one file. Raises CannotRun."""
    stacks, unit = recording.stacks, _UNITS[recording.mode]
    engine = placement.local()
    engine.images.ensure(note)
    command = _DRAW.format(folder=_FOLDER, title=shlex.quote(title), unit=unit)
    with engine.sidecar(stack, 120) as helper:
        files = {"stacks": stacks.folded().encode(), "palette.map": _palette(stacks).encode()}
        helper.put(_FOLDER, archive.packed(files))
        return helper.must(command, timeout=100)


def _palette(stacks: Stacks) -> str:
    """Return flamegraph.pl's `name->rgb(…)`: kernel orange, code without a name grey, rest red."""
    return "".join(f"{row.function}->{_colour(row.function)}\n" for row in stacks.functions())


def _colour(function: str) -> str:
    """Return a function's own shade, the same in every picture."""
    shade = hashlib.sha256(function.encode()).digest()[0] % 56
    if function.endswith(KERNEL):
        return f"rgb({200 + shade},{130 + shade},40)"
    if function.startswith("[") or function == PREEMPTED:
        return f"rgb({150 + shade},{150 + shade},{150 + shade})"
    return f"rgb({200 + shade},{70 + shade},{70 + shade})"
