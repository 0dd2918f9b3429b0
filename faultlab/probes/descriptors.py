"""Probe: the open files of every process of a machine, with its limit. Source: proc(5).

Daemons share their machine's process ids, so the machine sees theirs. The shell itself expands the
globs, because an `ls` for each process would take longer than all the rest.
"""

from dataclasses import dataclass

from faultlab.engine.shell import Shell

# `timeout`, which runs all our commands, has its own process group, so we can exclude it.
COMMAND = (
    "for p in /proc/[0-9]*; do"
    ' read -r name <"$p"/comm && read -r stat <"$p"/stat || continue;'
    ' set -- ${stat##*) }; [ "$3" != "$PPID" ] || continue;'
    ' set -- "$p"/fd/*; [ -L "$1" ] || continue; n=$#;'
    ' while read -r a b c soft d; do [ "$a $b $c" = "Max open files" ] || continue;'
    ' echo "${p#/proc/} $n $soft $name"; break; done <"$p"/limits; done 2>/dev/null'
)


@dataclass(frozen=True)
class Process:
    """The open descriptors of a process, and its soft limit."""

    pid: int
    name: str
    open: int
    limit: int


def read(machine: Shell) -> list[Process]:
    """Read the open files of all processes now."""
    return parse(machine.must(COMMAND))


def parse(out: str) -> list[Process]:
    """Parse the lines `pid open limit name`; a process that ended meanwhile has none."""
    found = []
    for line in out.strip().splitlines():
        pid, files, limit, name = line.split(maxsplit=3)
        most = 1 << 20 if limit == "unlimited" else int(limit)  # fs.nr_open by default
        found.append(Process(int(pid), name, int(files), most))
    if not found:
        raise ValueError("no process")
    return found


def fullest(found: list[Process]) -> Process:
    """Return the process that is nearest to its limit."""
    return max(found, key=lambda process: process.open / max(process.limit, 1))
