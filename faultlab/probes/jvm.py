"""Probe: a running Java, asked with the JDK's own tools. Source: jcmd(1), jstat(1).

Run in the daemon's container: what a machine has under these names calls the same tools.
"""

import re
from dataclasses import dataclass

from faultlab.core.errors import CannotRun
from faultlab.engine.shell import Shell

COMMAND = (
    "pid=$(jcmd | awk '/catalina/ { print $1; exit }') && jcmd $pid VM.flags && jstat -gc $pid"
    " && grep Threads: /proc/$pid/status"
)
_KILO = 1024
_USED = ("S0U", "S1U", "EU", "OU")  # of both survivor spaces, of eden, of the old generation


@dataclass(frozen=True)
class Jvm:
    """`max_heap`: bytes that the heap may take, by its flags; `heap`: bytes that are used now.

    `collections` and `collecting`: how many there were since it started, and the seconds they took.
    """

    max_heap: int
    heap: int
    collections: int
    collecting: float
    threads: int


def read(daemon: Shell) -> Jvm:
    """Ask it now. Raises CannotRun when none runs."""
    return parse(daemon.must(COMMAND))


def parse(out: str) -> Jvm:
    """Read jcmd's flags, then jstat's two lines, then the line of /proc. Raises CannotRun."""
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
