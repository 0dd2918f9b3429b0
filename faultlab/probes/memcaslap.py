"""Probe: a load on memcached and its throughput, by memcaslap. Source: memaslap(1).

It is the only Debian package that drives hundreds of connections from a few threads with a given
ratio of set to get. It is libmemcached's own, in libmemcached-tools. Its option --tps, which should
limit the rate, has no effect (1.1.4 divides integers). So it always sends as fast as it gets
responses.
"""

import re
import shlex
from dataclasses import dataclass

from faultlab.core.errors import CannotRun
from faultlab.engine.shell import Shell

CONFIG = "/etc/shop/cache.conf"
# Errors are printed one per line, and there can be very many.
_COUNT_ERRORS = """awk '/SERVER_ERROR|^Failed/ {n++; next} {print} END {print "errors: " n+0}'"""
_TOTAL = r"^Total Statistics\n.*\nPeriod +1 +\d+ +(\d+) +([\d.]+) "
_TIMES = r"^Total Statistics \((\d+) events\)\n(?:.*\n)*? +Log2 Dist:\n((?: +\d+:[ \d]+\n)+)"


@dataclass(frozen=True)
class Load:
    """Operations and bytes (keys and values, both ways) a second, in the last second of the load.

    The counts are over the whole load: operations, gets that found nothing, and errors. `gets`:
    their share of the operations, 0 to 1. p50 and p99 are in seconds, rounded up to the next power
    of two of microseconds, because memcaslap counts in such classes.
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
        """Return the bytes of a key and its value; 0 if there was no operation."""
        return self.bytes_per_second / max(1, self.operations_per_second)

    @property
    def failed_share(self) -> float:
        """Return the share of operations that found nothing or failed, 0 to 1; 1 if none ran."""
        failed = self.misses + self.errors
        return min(1, failed / self.operations) if self.operations else 1.0


def smallest(config: str) -> int:
    """Return the bytes of the smallest value that a configuration stores; 0 if it names none."""
    lengths = []
    section = ""
    for line in config.splitlines():
        match line.split():
            case [("key" | "value" | "cmd") as section]:
                pass
            case [low, _, share] if section == "value" and float(share) > 0:
                lengths.append(int(low))
    return min(lengths, default=0)


def load(user: Shell, server: str, config: str, *, connections: int, seconds: int) -> Load:
    """Set and get over `connections` (one, or an even number) for `seconds`.

    `config` is the text of client's file `CONFIG`: lengths and shares.
    """
    # Each connection sets one key repeatedly (-o 1), so that nothing is ever evicted.
    command = (
        f"f=$(mktemp); printf %s {shlex.quote(config)} >$f;"
        f" memcaslap -s {server}:11211 -T {min(2, connections)} -c {connections} -t {seconds}s"
        f" -S 1s -o 1 -F $f 2>&1 | {_COUNT_ERRORS}; rm $f"
    )
    return parse(user.run(command, timeout=seconds + 30).out, connections)


def parse(out: str, connections: int) -> Load:
    """Parse the tables and the counters that memcaslap prints.

    If it cannot connect, it prints only its settings. For a second in which a connection was
    missing it prints no table. In both cases no operation succeeded. Raises CannotRun for anything
    else.
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
    """Return how many took more than 2^(n-1) and at most 2^n microseconds, by n."""
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
