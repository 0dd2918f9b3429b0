"""Probe: a running JVM, read with the JDK's own tools. Source: jcmd(1), jstat(1).

They run in the daemon's container; the programs of these names in a machine call the same tools.
"""

import re
from dataclasses import dataclass

from faultlab.core.errors import CannotRun
from faultlab.engine.shell import Shell
from faultlab.engine.sidecar import Sidecar

COMMAND = (
    "pid=$(jcmd | awk '/catalina/ { print $1; exit }') && jcmd $pid VM.flags && jstat -gc $pid"
    " && grep Threads: /proc/$pid/status"
)
_KILO = 1024
_USED = ("S0U", "S1U", "EU", "OU")  # of both survivor spaces, of eden, of the old generation


@dataclass(frozen=True)
class Jvm:
    """`max_heap`: the limit of the heap in bytes, by its flags; `heap`: bytes that are used now.

    `collections` and `collecting`: how many there were since it started, and their time in seconds.
    """

    max_heap: int
    heap: int
    collections: int
    collecting: float
    threads: int


def read(daemon: Shell) -> Jvm:
    """Read it now. Raises CannotRun if no JVM runs."""
    return parse(daemon.must(COMMAND))


def parse(out: str) -> Jvm:
    """Parse jcmd's flags, jstat's two lines and the line of /proc. Raises CannotRun."""
    flag = re.search(r"-XX:MaxHeapSize=(\d+)", out)
    table = re.search(r"^ *(S0C .*)\n(.*)$", out, re.MULTILINE)
    threads = re.search(r"^Threads:\s+(\d+)$", out, re.MULTILINE)
    if not (flag and table and threads):
        raise CannotRun(f"The JDK's tools said nothing of use: {out[:60]!r}")
    facts = dict(zip(table[1].split(), table[2].split(), strict=True))
    return Jvm(
        max_heap=int(flag[1]),
        heap=round(_KILO * sum(float(facts[name]) for name in _USED)),
        collections=int(facts["YGC"]) + int(facts["FGC"]),
        collecting=float(facts["GCT"]),
        threads=int(threads[1]),
    )


# What jcmd does, from outside: a file and SIGQUIT ask the JVM to open its socket, and over that
# `jcmd` and the name of a command are sent.
_ATTACH = r"""python3 - <<'_end_'
import os, re, signal, socket, time
pid, root = {pid}, "{root}"
inside = re.search(r"NSpid:.*?(\d+)$", open(f"/proc/{{pid}}/status").read(), re.M)[1]
door = f"{{root}}/tmp/.java_pid{{inside}}"
if not os.path.exists(door):
    mark = f"{{root}}/tmp/.attach_pid{{inside}}"
    open(mark, "w").close()
    os.kill(pid, signal.SIGQUIT)
    until = time.time() + 5
    while not os.path.exists(door) and time.time() < until:
        time.sleep(0.05)
    os.remove(mark)
asked = socket.socket(socket.AF_UNIX)
asked.settimeout({seconds})
asked.connect(door)
asked.sendall(b"1\0jcmd\0GC.class_histogram\0\0\0")
print("".join(iter(lambda: asked.recv(65536).decode(), ""))[-200:])
_end_"""
_TOTAL = re.compile(r"^Total +\d+ +(\d+)", re.MULTILINE)


def live(daemon: Sidecar, seconds: int = 10) -> int | None:
    """Return the bytes of all objects that are in use: it lets the JVM collect its heap first.

    It speaks to the JVM itself, with no program of the daemon. None if the JVM does not respond.
    """
    command = _ATTACH.format(pid=daemon.pid, root=daemon.root, seconds=seconds)
    total = _TOTAL.search(daemon.run(command, timeout=seconds + 15).out)
    return int(total[1]) if total else None
