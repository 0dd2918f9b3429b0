"""Probe: open files of every process of a machine against its limit. Source: proc(5).

Daemons share their machine's process ids, so the machine sees theirs. The shell expands the globs
itself: a `ls` for each process would take longer than all the rest.
"""

from dataclasses import dataclass

from faultlab.engine.shell import Shell

# `timeout`, which runs every command of ours, has a process group of its own: we do not count.
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
    """Open descriptors of a process, and how many it may have (its soft limit)."""

    pid: int
    name: str
    open: int
    limit: int


def read(machine: Shell) -> list[Process]:
    """Read them now."""
    return parse(machine.must(COMMAND))


def parse(out: str) -> list[Process]:
    """Read the lines `pid open limit name`; a process that ended meanwhile has none."""
    found = []
    for line in out.strip().splitlines():
        pid, files, limit, name = line.split(maxsplit=3)
        most = 1 << 20 if limit == "unlimited" else int(limit)  # fs.nr_open by default
        found.append(Process(int(pid), name, int(files), most))
    if not found:
        raise ValueError("no process")
    return found


def fullest(found: list[Process]) -> Process:
    """The one nearest to its limit."""
    return max(found, key=lambda process: process.open / max(process.limit, 1))
