"""Probe: the processor time of a machine's processes. Source: proc(5), `/proc/PID/stat`."""

from __future__ import annotations

import shlex

from faultlab.engine import Shell


def cpu(machine: Shell, name: str) -> float:
    """Seconds that the running processes of this name have used, user and system."""
    files = f"pgrep -x {shlex.quote(name)} | sed 's|.*|/proc/&/stat|' | xargs -r cat"
    return parse(machine.must(f"getconf CLK_TCK; {files}"))


def parse(out: str) -> float:
    """Read the ticks a second, then a line for each process: fields 14 and 15 are its ticks."""
    ticks, *lines = out.splitlines()
    fields = [line.rpartition(")")[2].split() for line in lines]  # a name may hold blanks
    return sum(int(field[11]) + int(field[12]) for field in fields) / int(ticks)
