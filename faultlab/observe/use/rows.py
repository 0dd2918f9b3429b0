"""Rows: utilisation, saturation and errors of each resource, from two looks at a running stack.

The method and most of the rows: https://www.brendangregg.com/USEmethod/use-linux.html. Where /proc
has the host's values, the containers' own are read instead. Counters are differences over the
interval; of two queue lengths the longer one counts. limits.py says what is too much.
"""

import math
from collections.abc import Iterator

from faultlab.engine.contract import State
from faultlab.observe.use.cells import (
    Cells,
    Row,
    Value,
    blank,
    count,
    grown,
    in_bytes,
    of,
    row,
    short,
    unread,
)
from faultlab.observe.use.sections import NO_ANSWER, Pair, Sections, Unread
from faultlab.probes import cgroup, fpm, host, mysql
from faultlab.probes.cgroup import Cgroup


def container(name: str, looks: Sections) -> Iterator[Row]:
    """Yield CPU and memory of one container, from its cgroup."""
    pair = looks.pair("cgroup", cgroup.parse)
    old = isinstance(pair, Pair) and pair.after.version == 1
    quota = isinstance(pair, Pair) and pair.after.quota
    cpu, memory = _FILES[1 if old else 2]
    kind = "cpu quota" if quota else "cpu"
    yield row((f"cpu {name}", kind, name, f"cat /sys/fs/cgroup/{cpu}"), pair, _cpu)
    yield row((f"memory {name}", "memory", name, f"cat /sys/fs/cgroup/{memory}"), pair, _memory)


# The files that an engineer reads in a cgroup, by its version.
_FILES = {
    1: ("{cpu/cpu.stat,cpuacct/cpuacct.usage}", "memory/memory.{failcnt,usage_in_bytes}"),
    2: ("cpu.{stat,pressure}", "memory.{current,max,events}"),
}


def _cpu(pair: Pair[Cgroup]) -> Cells:
    before, after, seconds = pair.before, pair.after, pair.seconds
    share = after.time.busy_percent_since(before.time, seconds)
    used = Value(share, "%", f"{share:.0f}% of {after.cpus:g} cpus")
    errors = blank("a cgroup counts no CPU errors")
    if not after.quota:
        waits = _waits(before.cpu_wait, after.cpu_wait, seconds)
        return used, waits or blank("no quota, and cgroup v1 counts no waiting"), errors
    if None in (before.periods, after.periods, before.throttled, after.throttled):
        return used, blank("this kernel does not count throttled periods"), errors
    percent = after.throttled_percent_since(before)
    return used, Value(percent, "%", f"{percent:.0f}% throttled"), errors


def _waits(before: float | None, after: float | None, seconds: float) -> Value | None:
    if before is None or after is None:
        return None
    percent = 100 * (after - before) / seconds
    return Value(percent, "%", f"{percent:.0f}% waiting")


def _memory(pair: Pair[Cgroup]) -> Cells:
    before, after = pair.before, pair.after
    if after.limit is None:
        used = Value(None, "", f"{in_bytes(after.memory)}, no limit", "no limit, so no share of it")
    else:
        share = 100 * after.memory / after.limit
        used = Value(share, "%", f"{in_bytes(after.memory)} of {in_bytes(after.limit)}")
    return (
        used,
        grown(before.at_limit, after.at_limit, "at limit"),
        grown(before.killed, after.killed, "OOM kills"),
    )


def stopped(name: str, command: str, state: State) -> Row:
    """Return the row of a daemon that should run and does not."""
    text = f"exit {state.exit_code}{', OOM' if state.oom_killed else ''}"
    why = blank(f"{name} is not running")
    return Row(name, "daemon", "$", command, why, why, Value(1, "", text))


def pool(name: str, at: str, pair: Pair[fpm.Status] | Unread) -> Row:
    """Return the workers of PHP-FPM on the machine `at`, without the one that answers us.

    A queue is judged by the time that a request spends in it: its length, divided by the requests
    a second that leave it (Little's law).
    """
    place = (name, "pool", at, "curl -s http://127.0.0.1/status")
    if isinstance(pair, Unread) and pair.why == NO_ANSWER:
        silent = f"no answer in {fpm.SECONDS} s"
        return Row(*place, blank(silent), blank(silent), Value(1, "", silent))

    def cells(pair: Pair[fpm.Status]) -> Cells:
        most = max(pair.before, pair.after, key=lambda one: (one.listen_queue, one.active))
        busy = most.active - (most.idle > 0)
        reached = pair.after.max_children_reached - pair.before.max_children_reached
        return (
            of(busy, most.active + most.idle, "busy"),
            _queue(most.listen_queue, (pair.after.accepted - pair.before.accepted) / pair.seconds),
            count(max(0, reached), "at max"),
        )

    return row(place, pair, cells)


def _queue(waiting: int, a_second: float) -> Value:
    """Return how long a queue is; its number is the seconds that a request spends in it."""
    text = f"{short(waiting)} waiting"
    if not waiting:
        return Value(0, "s", text)
    if a_second < 0:
        return Value(None, "s", text, "its counter began again meanwhile")
    seconds = waiting / a_second if a_second else math.inf
    return Value(seconds, "s", f"{text} {short(seconds)} s" if a_second else text)


def _counters(out: str) -> dict[str, int]:
    """Parse the counters of SHOW GLOBAL STATUS. `rows`: how many rows that statement sent."""
    facts = [line.split("\t", 1) for line in out.splitlines() if "\t" in line]
    return {name: int(value) for name, value in facts if value.isdigit()} | {"rows": len(facts)}


def database(at: str, looks: Sections) -> Iterator[Row]:
    """Yield the rows of MySQL: its sessions, its buffer pool, its row locks and its statements."""
    pair = looks.pair("database", mysql.parse)
    counters = looks.pair("database", _counters)
    none = blank("MySQL does not count any")

    def sessions(pair: Pair[mysql.Status]) -> Cells:
        most = max(pair.before, pair.after, key=lambda one: one.connected)
        refused = pair.after.refused - pair.before.refused
        if isinstance(counters, Pair):  # a program that only tries the port is refused nothing
            refused -= _more(counters, "Aborted_connects_preauth")
        full = blank("further logins fail: see errors")
        return of(most.connected, most.most), full, count(max(0, refused), "refused")

    def buffers(pair: Pair[mysql.Status]) -> Cells:
        now = pair.after
        waits = count(now.pool_waits - pair.before.pool_waits, "waits")
        return of(now.pool_used, now.pool_pages, "pages"), waits, none

    def locks(pair: Pair[mysql.Status]) -> Cells:
        over = (pair.after.lock_ms - pair.before.lock_ms) / 1000 / pair.seconds
        waiting = max(over, min(pair.before.lock_waiting, pair.after.lock_waiting))
        return blank("no limit"), count(waiting, "waiting"), none

    yield row(("mysql sessions", "sessions", at, mysql.TYPED), pair, sessions)
    yield row(("mysql buffers", "buffer pool", at, mysql.TYPED), pair, buffers)
    yield row(("mysql row locks", "row locks", at, mysql.TYPED), pair, locks)
    yield row(("mysql statements", "statements", at, _STATEMENTS), counters, _statements)


_STATEMENTS = "mysqladmin extended-status | grep -E 'Rows_|Created_tmp|Handler_read_rnd_next'"
_FEW = 1000  # rows, which are read as quickly without an index


def _more(pair: Pair[dict[str, int]], *names: str) -> int:
    """Return the growth of counters of MySQL; one that a version does not have is 0."""
    return sum(pair.after.get(name, 0) - pair.before.get(name, 0) for name in names)


def _statements(pair: Pair[dict[str, int]]) -> Cells:
    """Return the rows read for each row sent, the temporary tables on disk, and the rows scanned.

    What our own reading sent does not count, nor what is read from temporary tables.
    """
    sent = max(1, _more(pair, "Rows_sent") - pair.before["rows"], _more(pair, "Questions"))
    read = _more(pair, "Rows_read")
    on_disk, tables = _more(pair, "Created_tmp_disk_tables"), _more(pair, "Created_tmp_tables")
    scanned = min(read, _more(pair, "Handler_read_rnd_next") - _more(pair, "Rows_tmp_read"))
    share = 100 * scanned / read if scanned >= _FEW else 0.0
    return (
        Value(read / sent, "rows", f"{short(read / sent)} read for 1"),
        Value(100 * on_disk / max(1, tables), "%", f"{short(on_disk)} tmp on disk"),
        Value(share, "%", f"{share:.0f}% scanned"),
    )


def whole_host(at: str, looks: Sections) -> Iterator[Row]:
    """Yield the rows of the kernel below all machines, with all of its work."""
    processors = looks.pair("host_cpu", host.parse_processors)
    memory = looks.pair("host_memory", host.parse_memory)
    disks = looks.pair("host_disks", host.parse_disks)
    yield row(("cpu", "host cpu", at, "vmstat 1 2"), processors, _host_cpu)
    yield row(("memory", "host memory", at, "free -m"), memory, _host_memory)
    yield row(("swap", "swap", at, "vmstat 1 2"), memory, _swap)
    if isinstance(disks, Unread):
        yield unread(("disk", "disk", at, "iostat -dxz 1 2"), disks)
    else:
        for name, now in disks.after.items():
            both = Pair(disks.before.get(name, now), now, disks.seconds)
            yield row((f"disk {name}", "disk", at, f"iostat -dxz {name} 1 2"), both, _disk)
    space = looks.pair("host_space", host.parse_space)
    yield row(("disk space", "space", at, "df -h /"), space, _space)


def _host_cpu(pair: Pair[host.Processors]) -> Cells:
    before, after = pair.before, pair.after
    share = after.busy_percent_since(before)
    return (
        Value(share, "%", f"{share:.0f}% of {after.count} cpus"),
        _waits(before.wait, after.wait, pair.seconds)
        or count(max(before.running, after.running), "run or wait"),
        blank("machine checks are only in the kernel's log"),
    )


def _host_memory(pair: Pair[host.Memory]) -> Cells:
    now = pair.after
    used = 100 - now.available_percent
    text = f"{used:.0f}% of {in_bytes(1024 * now.total)}"
    killed = count(now.killed - pair.before.killed, "OOM kills")
    return Value(used, "%", text), blank("see swap"), killed


def _swap(pair: Pair[host.Memory]) -> Cells:
    before, now = pair.before, pair.after
    total = now.swap_total
    used = of(now.swap_used / 1024, total / 1024, "MB") if total else blank("no swap")
    pages = (now.swapped_in - before.swapped_in) / pair.seconds
    return used, count(pages, "pages in/s"), blank("disk errors are only in the kernel's log")


def _disk(pair: Pair[host.Disk]) -> Cells:
    before, now = pair.before, pair.after
    busy = min(100.0, (now.busy - before.busy) / pair.seconds / 10)
    queue = (now.waited - before.waited) / pair.seconds / 1000
    unknown = blank("disk errors are only in the kernel's log")
    return Value(busy, "%", f"{busy:.0f}% busy"), count(queue, "in flight"), unknown


def _space(pair: Pair[host.Space]) -> Cells:
    now = pair.after
    whole = now.used + now.free
    text = f"{in_bytes(1024 * now.used)} of {in_bytes(1024 * whole)}"
    used = Value(100 * now.used / whole, "%", text)
    return used, blank("nothing waits for space"), blank("ENOSPC goes to the program")
