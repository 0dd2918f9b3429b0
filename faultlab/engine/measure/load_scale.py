"""Load scale: the speed of an engine, measured so that a load fits it.

Checks name the loads for a machine of pace 1. A slower engine (a VM without KVM is 20 to 50 times
slower) gets fewer users at a time, so that waiting times stay the same, and more seconds, so that
enough requests are sent. Limits never change, because they are ratios.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from faultlab.core import cpus, lock
from faultlab.engine.shell import Shell

_PROGRAMS = 1500  # that a machine of pace 1 starts in a second
_SECONDS = 0.4
_FEWEST = 400  # users; with 100, half found one of 51 ports and port-range hardly showed
_LONGEST = 3  # times the seconds that a check names
_TRY = f'timeout {_SECONDS} sh -c "while :; do /bin/true; echo; done" | wc -l'
_KERNEL = "cat /proc/sys/kernel/random/boot_id"
_VALID = 600.0  # seconds: after that, the machine can have become slower


@dataclass(frozen=True)
class LoadScale:
    """The speed relative to the machine for which the loads were chosen, at most 1."""

    share: float = 1.0

    def connections(self, count: int) -> int:
        """Return the number of users at a time."""
        return max(min(count, _FEWEST), round(count * self.share))

    def seconds(self, seconds: int) -> int:
        """Return the seconds of a load; a machine that is only slightly slower gets no more."""
        return seconds if self.share > 0.5 else round(seconds * min(_LONGEST, 1 / self.share))


def find(machine: Shell, slot: str = "") -> LoadScale:
    """Return the highest pace of a machine's kernel that was measured in the last minutes.

    Stacks that start meanwhile can only lower what is measured. So the first measurement waits
    until it is alone, and stacks that need it too wait for its result. The next ones share their
    turn with such stacks. `slot`: the CPUs of the stack, if it has only these. Slots of one size
    have one pace.
    """
    size = f"-{len(cpus.parse(slot))}" if slot else ""
    file = lock.folder() / f"pace-{UUID(machine.must(_KERNEL).strip())}{size}"
    if _known(file) is None:
        with lock.hold(f"first-{file.name}", "start", wait=True):
            if _known(file) is None:
                with lock.turn(alone=True, slot=slot):
                    return _keep(file, measure(machine))
    with lock.turn(alone=False, slot=slot):
        return _keep(file, measure(machine))


def _keep(file: Path, found: LoadScale) -> LoadScale:
    """Return the higher of a measured pace and the known one, and keep it if it is new."""
    known = _known(file)
    if known is None or found.share > known:
        file.write_text(str(found.share))
        return found
    return LoadScale(known)


def _known(file: Path) -> float | None:
    """Return the share that was measured in the last minutes."""
    try:
        valid = file.stat().st_mtime + _VALID > time.time()
        return float(file.read_text()) if valid else None
    except (OSError, ValueError):  # no file, or another command is writing it
        return None


def measure(machine: Shell) -> LoadScale:
    """Start programs for a moment: like a load, that costs system calls and new pages."""
    return parse(machine.must(_TRY), _SECONDS)


def parse(out: str, seconds: float) -> LoadScale:
    """Parse the number of programs that were started in this many seconds."""
    return LoadScale(min(1.0, max(1, int(out)) / seconds / _PROGRAMS))
