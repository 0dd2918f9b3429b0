"""Probe: load on memcached, by memcaslap, and what it achieved. Source: memaslap(1).

Of what Debian packages it alone drives hundreds of connections from a few threads and at a given
ratio of set to get; it is libmemcached's own, and in libmemcached-tools. Its option --tps, which
should slow it down, has no effect (1.1.4 divides whole numbers), so it always asks as fast as it
is answered.
"""

import re
import shlex
from dataclasses import dataclass

from faultlab.core.errors import CannotRun
from faultlab.engine.shell import Shell

CONFIG = "/etc/shop/cache.conf"
# Errors come a line each, which can be very many.
_COUNT_ERRORS = """awk '/SERVER_ERROR|^Failed/ {n++; next} {print} END {print "errors: " n+0}'"""
_TOTAL = r"^Total Statistics\n.*\nPeriod +1 +\d+ +(\d+) +([\d.]+) "
_TIMES = r"^Total Statistics \((\d+) events\)\n(?:.*\n)*? +Log2 Dist:\n((?: +\d+:[ \d]+\n)+)"


@dataclass(frozen=True)
class Load:
    """Operations and bytes (keys and values, both ways) a second, in the last second of the load.

    Counts over the whole load: operations, gets that found nothing, and errors; `gets`: their share
    of the operations, 0 to 1. p50 and p99 are in seconds and rounded up to the next power of two of
    microseconds, for so they are counted.
    """

    connections: int
    operations_per_second: float
    bytes_per_second: float
    operations: int
    misses: int
    errors: int
    p50: float
    p99: float
    gets: float = 0.5

    @property
    def bytes_an_operation(self) -> float:
        """Bytes of a key and its value; 0 when nothing was done."""
        return self.bytes_per_second / max(1, self.operations_per_second)

    @property
    def failed_share(self) -> float:
        """Share of all operations that found nothing or failed, 0 to 1; 1 when there was none."""
        failed = self.misses + self.errors
        return min(1, failed / self.operations) if self.operations else 1.0


def load(user: Shell, server: str, config: str, *, connections: int, seconds: int) -> Load:
    """Set and get over `connections` (one, or an even number) for so many seconds.

    `config` is the text of client's file `CONFIG`: lengths and shares.
    """
    # One key a connection is set again and again (-o 1), so that nothing is ever pushed out.
    command = (
        f"f=$(mktemp); printf %s {shlex.quote(config)} >$f;"
        f" memcaslap -s {server}:11211 -T {min(2, connections)} -c {connections} -t {seconds}s"
        f" -S 1s -o 1 -F $f 2>&1 | {_COUNT_ERRORS}; rm $f"
    )
    return parse(user.run(command, timeout=seconds + 30).out, connections)


def parse(out: str, connections: int) -> Load:
    """Read the tables and the counters that memcaslap prints.

    It prints no more than its settings when it cannot connect, and no table of a second in which
    a connection was missing: then nobody was served. Raises CannotRun for anything else.
    """
    if "get proportion" not in out or "(): " in out:
        last = [line for line in out.strip().splitlines() if not line.startswith("errors: ")]
        raise CannotRun(f"memcaslap gave no result: {(last or ['nothing'])[-1]}")
    seconds = re.findall(_TOTAL, out, re.MULTILINE)
    rate, megabytes = seconds[-1] if seconds else ("0", "0")
    times = re.search(_TIMES, out, re.MULTILINE)
    counts = _counts(times[2]) if times else {}
    gets, sets = _number("cmd_get", out), _number("cmd_set", out)
    return Load(
        connections=connections,
        operations_per_second=float(rate),
        bytes_per_second=float(megabytes) * 1024 * 1024,
        operations=gets + sets,
        misses=_number("get_misses", out),
        errors=_number("errors", out),
        p50=_percentile(counts, 0.50),
        p99=_percentile(counts, 0.99),
        gets=gets / max(1, gets + sets),
    )


def _counts(table: str) -> dict[int, int]:
    """How many took at most 2^n microseconds and more than 2^(n-1), by n."""
    counts = {}
    for line in table.splitlines():
        first, numbers = line.split(":")
        for i, count in enumerate(numbers.split()):
            counts[int(first) + i] = int(count)
    return counts


def _percentile(counts: dict[int, int], share: float) -> float:
    wanted = share * sum(counts.values())
    seen = 0
    for n, count in sorted(counts.items()):
        seen += count
        if count and seen >= wanted:
            return float(2**n) / 1e6
    return 0.0


def _number(name: str, out: str) -> int:
    found = re.search(rf"^{name}: (\d+)$", out, re.MULTILINE)
    return int(found[1]) if found else 0
