"""Limits: which value of a USE table looks wrong, and why. All thresholds are here.

A mark says "look here first", not "this is the cause". If no other source is named, the number is
ours: a healthy lab never shows it under its load (`checks/test_use.py`).

Two values are never marked. One is a busy CPU without a quota, which the lab's load shares with the
machines. The other is closed connections without a TIME-WAIT, because the client is set up so.
"""

from dataclasses import dataclass

from faultlab.observe.use.cells import Part, Row


@dataclass(frozen=True)
class Limit:
    """The value of a kind of row above which it looks wrong. `{}` in `says`: the value's text.

    `used`: it counts only while the utilisation is at least this many percent.
    """

    kind: str
    part: Part
    at_least: float
    says: str
    source: str = "what a healthy lab never shows"
    used: float = 0


_MIXIN = "node-exporter's node-mixin"
_ALWAYS = "kubernetes-mixin warns from 25% on, but after 15 minutes of it"
_MEMORY = f"{_MIXIN}, NodeMemoryHighUtilization: 90%"
_ENTRIES = f"{_MIXIN}, NodeHighNumberConntrackEntriesUsed: 75%"
_FILES = f"{_MIXIN}, NodeFileDescriptorLimit: 90%"
_HALF = "connect() tries every second port first, then it searches"
_SECOND = "Nielsen, Usability Engineering: after 1.0 s a user notices the delay"
_PAGES = "MySQL manual: with a proper size, Innodb_buffer_pool_wait_free is small"
_CHANCE = "vmstat's si: now and then a page comes back by chance"
_REQUESTS = f"{_MIXIN}, NodeDiskIOSaturation: 10 requests"
_SPACE = f"{_MIXIN}, NodeFilesystemAlmostOutOfSpace: 5% left"
_BUSY = "all workers are busy, and a request waits too long: {}"
_RESENT = "twice what a healthy lab shows: it sends SYN-ACKs again that are of no use to its peer"
_READ = "above what a healthy report shows, which sums up 3,000 rows for each that it sends"
_SCANS = "check_mysql_health, index-usage: critical below 80%"

LIMITS = (
    Limit("daemon", "errors", 1, "it is not running: {}"),
    Limit("cpu quota", "saturation", 90, "its quota stopped it: {}", _ALWAYS),
    Limit("memory", "utilisation", 90, "its limit is near: {}", _MEMORY),
    Limit("memory", "errors", 1, "the OOM killer was here: {}"),
    Limit("link", "utilisation", 90, "the link is full: {}"),
    Limit("link", "saturation", 1, "its queue drops packets: {}"),
    Limit("link", "errors", 1, "the interface drops packets: {}"),
    Limit("tcp", "saturation", 10, "segments get lost: {}", _RESENT),
    Limit("listen", "utilisation", 90, "the accept queue is full: {}"),
    Limit("listen", "saturation", 1, "connections found no place in the accept queue: {}"),
    Limit("half open", "saturation", 1, "SYNs found no place: {}"),
    Limit("ports", "utilisation", 50, "local ports run out: {}", _HALF),
    Limit("conntrack", "utilisation", 75, "the table fills up: {}", _ENTRIES),
    Limit("conntrack", "errors", 1, "no place for a new connection: {}"),
    Limit("filter", "errors", 1, "a rule drops packets: {}"),
    Limit("files", "utilisation", 90, "a process has almost no descriptors left: {}", _FILES),
    Limit("pool", "saturation", 1, _BUSY, _SECOND, used=100),
    Limit("pool", "errors", 1, "no worker was free: {}"),
    Limit("sessions", "utilisation", 85, "sessions run out: {}", "MySQLTuner: 85%"),
    Limit("sessions", "errors", 1, "logins fail: {}"),
    Limit("buffer pool", "saturation", 1, "no page was free: {}", _PAGES),
    Limit("row locks", "saturation", 1, "a session always waits for a row: {}"),
    Limit("statements", "utilisation", 5000, "statements read far more than they send: {}", _READ),
    Limit("statements", "saturation", 25, "temporary tables go to disk: {}", "MySQLTuner: 25%"),
    Limit("statements", "errors", 20, "tables are read without an index: {}", _SCANS),
    Limit("host memory", "utilisation", 90, "almost no memory is left: {}", _MEMORY),
    Limit("host memory", "errors", 1, "the OOM killer was here: {}"),
    Limit("swap", "saturation", 10, "programs wait for their own memory: {}", _CHANCE),
    Limit("disk", "saturation", 10, "requests queue: {}", _REQUESTS, used=90),
    Limit("space", "utilisation", 95, "the file system is nearly full: {}", _SPACE),
)


def crossed(row: Row) -> list[tuple[Limit, str]]:
    """Return the limits that a row has crossed, each with its sentence."""
    found = []
    for part, value in row.values:
        for limit in LIMITS:
            if (limit.kind, limit.part) != (row.kind, part) or value.number is None:
                continue
            used = row.utilisation.number or 0
            if value.number >= limit.at_least and used >= limit.used:
                found.append((limit, limit.says.format(value.text)))
    return found
