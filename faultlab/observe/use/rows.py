"""Rows: utilisation, saturation and errors of each resource, from two looks at a running stack.

The method and most of the rows: https://www.brendangregg.com/USEmethod/use-linux.html. Where /proc
has the host's values, the containers' own are read instead. Counters are differences over the
interval; of two queue lengths the longer one counts. limits.py says what is too much.
"""

import math
from collections.abc import Iterator

from faultlab.engine.contract import State
from faultlab.observe.use.cells import (
    NOT_COUNTED,
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
from faultlab.probes import (
    cgroup,
    conntrack,
    descriptors,
    fpm,
    host,
    interface,
    iptables,
    mysql,
    nstat,
    sockets,
)
from faultlab.probes.cgroup import Cgroup
from faultlab.probes.interface import Interface
from faultlab.probes.sockets import Sockets


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


Counters = Pair[dict[str, int]] | Unread  # of nstat
States = Pair[Sockets] | Unread


def namespace(at: str, looks: Sections) -> Iterator[Row]:
    """Yield the rows of a machine's network and process namespaces, read on the machine `at`."""
    links = looks.pair("network", interface.parse)
    tcp = looks.pair("sockets", sockets.parse)
    counters = looks.pair("counters", nstat.parse)
    yield from _links(at, links)
    yield _tcp(at, counters, tcp)
    yield from _listeners(at, counters, tcp)
    yield _half_open(at, counters, tcp)
    yield _ports(at, tcp)
    yield _time_wait(at, counters, tcp)
    yield _tracked(at, looks.pair("conntrack", conntrack.parse))
    yield _filtered(at, looks.pair("filter", _rules), tcp)
    yield _files(at, looks.pair("files", descriptors.parse))


def _links(at: str, pair: Pair[dict[str, Interface]] | Unread) -> Iterator[Row]:
    """Yield the network interfaces of a machine that are up."""
    if isinstance(pair, Unread):
        yield unread(("interfaces", "link", at, "ip -s link show"), pair)
        return
    for name, now in pair.after.items():
        command = f"ip -s link show {name}; tc -s qdisc show dev {name}"
        both = Pair(pair.before.get(name, now), now, pair.seconds)
        if now.up:
            yield row((name, "link", at, command), both, _link)


def _link(pair: Pair[Interface]) -> Cells:
    before, after = pair.before, pair.after
    received = 8 * (after.rx_bytes - before.rx_bytes) / pair.seconds
    sent = 8 * (after.tx_bytes - before.tx_bytes) / pair.seconds
    rate = after.qdisc.rate
    if rate:
        text = f"{_bits(sent, rate)} of {_bits(rate, rate)} {_unit(rate)}"
        used = Value(100 * sent / rate, "%", text)
    else:
        most = max(received, sent)
        text = f"{_bits(received, most)} in {_bits(sent, most)} out {_unit(most)}"
        used = Value(None, "", text, "a virtual link has no speed of its own")
    lost = after.qdisc.dropped - before.qdisc.dropped
    queue = Value(lost, "packets", f"{short(lost)} lost in queue")
    if not lost and (waiting := max(after.qdisc.waiting, before.qdisc.waiting)):
        queue = Value(0, "packets", f"{short(waiting)} waiting")
    return used, queue, count(after.lost - before.lost, "dropped")


def _unit(most: float) -> str:
    return "Gb/s" if most >= 1e9 else "Mb/s" if most >= 1e6 else "kb/s"


def _bits(number: float, most: float) -> str:
    """Return a rate in the unit of the larger one."""
    value = number / {"G": 1e9, "M": 1e6, "k": 1e3}[_unit(most)[0]]
    return f"{value:.{0 if value >= 10 or not value else 1}f}"


def _tcp(at: str, counters: Counters, states: States) -> Row:
    """Return the row of segments that were sent again."""
    names = "TcpOutSegs", "TcpRetransSegs", "TcpInErrs"
    if isinstance(states, Unread):
        used = blank(states.why)
    else:
        used = count(states.after.states.get("ESTAB", 0), "connected")

    def cells(pair: Pair[dict[str, int]]) -> Cells:
        sent, again, _ = (_grew(pair, name) for name in names)
        if sent is None or again is None:
            return used, blank(NOT_COUNTED), _growth(pair, "bad", names[2])
        percent = 100 * again / (sent + again) if again else 0.0  # OutSegs does not include these
        resent = Value(percent, "%", f"{short(percent)}% sent again")
        return used, resent, _growth(pair, "bad", names[2])

    return row(("tcp", "tcp", at, f"nstat -asz {' '.join(names)}"), counters, cells)


def _grew(pair: Pair[dict[str, int]], name: str) -> int | None:
    """Return the growth of a counter of nstat; None if this kernel does not have it."""
    known = name in pair.before and name in pair.after
    return pair.after[name] - pair.before[name] if known else None


def _growth(pair: Counters, word: str, name: str) -> Value:
    """Return the growth of a counter of nstat as a cell."""
    if isinstance(pair, Unread):
        return blank(pair.why)
    return grown(pair.before.get(name), pair.after.get(name), word)


_DOCKERS = "127.0.0.11"  # Docker's resolver, in every network namespace
_LOOPBACK = ("127.", "[::1]")


def _listeners(at: str, counters: Counters, pair: States) -> Iterator[Row]:
    """Yield the accept queue of each listening socket.

    The kernel counts overflows for all sockets together. For each socket it counts all losses, with
    other reasons too. The smaller of the two numbers is the socket's share.
    """
    if isinstance(pair, Unread):
        yield unread(("listen", "listen", at, "ss -ltn"), pair)
        return
    old = {(one.address, one.port): one for one in pair.before.listeners}
    for now in sorted(pair.after.listeners, key=lambda one: one.port):
        if now.address == _DOCKERS:
            continue
        was = old.get((now.address, now.port), now)
        lost = now.lost - was.lost if now.lost >= was.lost else now.lost  # the socket was reopened
        over = _growth(counters, "overflows", "TcpExtListenOverflows")
        if over.number is not None:
            over = count(min(lost, over.number), "overflows")
        command = f"ss -ltnm 'sport = :{now.port}'; nstat -asz TcpExtListenOverflows"
        used = of(max(now.queued, was.queued), now.backlog, "queued")
        once = blank("a lost connection is counted once: as saturation")
        yield Row(f"listen :{now.port}", "listen", at, command, used, over, once)


def _half_open(at: str, counters: Counters, states: States) -> Row:
    """Return the row of SYNs that were answered and wait for the client's last ACK.

    ListenDrops counts everything that a listener dropped. Without those that found the accept queue
    full (a row of their own), it counts SYNs. TCPReqQFullDrop has only a part of them: without
    cookies the kernel keeps the last quarter of tcp_max_syn_backlog for peers that it knows. A SYN
    that got a cookie is not lost.
    """
    used = blank(states.why) if isinstance(states, Unread) else blank("nothing listens here")
    if isinstance(states, Pair):
        both = [*states.before.listeners, *states.after.listeners]
        if full := max(
            both, key=lambda one: (one.half_open / max(one.backlog, 1), -one.backlog), default=None
        ):
            used = of(full.half_open, full.backlog)

    def cells(pair: Pair[dict[str, int]]) -> Cells:
        lost, over = _grew(pair, "TcpExtListenDrops"), _grew(pair, "TcpExtListenOverflows")
        missed = blank(NOT_COUNTED)
        if lost is not None and over is not None:
            missed = count(lost - over, "turned away")
        return used, missed, _growth(pair, "bad cookies", "TcpExtSyncookiesFailed")

    command = "ss -tn state syn-recv; nstat -asz 'TcpExtListen*'"
    return row(("SYN_RECV", "half open", at, command), counters, cells)


def _ports(at: str, pair: States) -> Row:
    """Return the local ports towards the destination with the most connections."""
    fuller = _fuller(pair) if isinstance(pair, Pair) else None
    to = f" dst {fuller.peer}" if fuller and fuller.peer else ""
    command = f"sysctl net.ipv4.ip_local_port_range; ss -Htan{to} | wc -l"
    unknown = "the kernel does not count a connect() without a port; the program gets the error"

    def cells(pair: Pair[Sockets]) -> Cells:
        most = _fuller(pair)
        return of(most.taken, most.ports), blank("nothing waits for a port"), blank(unknown)

    return row(("local ports", "ports", at, command), pair, cells)


def _fuller(pair: Pair[Sockets]) -> Sockets:
    return max(pair.before, pair.after, key=lambda one: one.taken / one.ports)


def _time_wait(at: str, counters: Counters, states: States) -> Row:
    """Return the connections in TIME_WAIT, which are closed but still known."""

    def cells(pair: Pair[Sockets]) -> Cells:
        now = pair.after.states.get("TIME-WAIT", 0)
        over = _growth(counters, "not kept", "TcpExtTCPTimeWaitOverflow")
        return of(now, pair.after.max_time_wait), over, blank("TIME_WAIT has no errors")

    command = "ss -s; sysctl net.ipv4.tcp_max_tw_buckets"
    return row(("TIME_WAIT", "time-wait", at, command), states, cells)


def _tracked(at: str, pair: Pair[conntrack.Table] | Unread) -> Row:
    """Return the connection tracking table of the machine's namespace."""

    def cells(pair: Pair[conntrack.Table]) -> Cells:
        before, after = pair.before, pair.after
        lost = after.drops + after.early_drops - before.drops - before.early_drops
        used = of(max(before.entries, after.entries), after.most)
        return used, blank("a full table drops: see errors"), count(lost, "dropped")

    command = "conntrack -C; sysctl net.netfilter.nf_conntrack_max; conntrack -S"
    return row(("conntrack", "conntrack", at, command), pair, cells)


def _rules(out: str) -> list[iptables.Rule]:
    if not out.startswith("Chain "):
        raise ValueError("not an output of iptables")
    return iptables.parse(out)


def _filtered(at: str, pair: Pair[list[iptables.Rule]] | Unread, tcp: States) -> Row:
    """Return the packets that rules of the packet filter dropped.

    Where nothing listens, they are not those of a user.
    """
    serves = isinstance(tcp, Unread) or any(
        not one.address.startswith(_LOOPBACK) for one in tcp.after.listeners
    )

    def cells(pair: Pair[list[iptables.Rule]]) -> Cells:
        taken = [
            sum(rule.packets for rule in rules if rule.target in ("DROP", "REJECT"))
            for rules in (pair.before, pair.after)
        ]
        # Rules that were deleted meanwhile take their counters with them.
        lost = count(max(0, taken[1] - taken[0]), "dropped")
        nothing = blank("rules have no capacity")
        return count(len(pair.after), "rules"), nothing, lost

    kind = "filter" if serves else "filter of a client"
    return row(("packet filter", kind, at, "iptables -nvL"), pair, cells)


def _files(at: str, pair: Pair[list[descriptors.Process]] | Unread) -> Row:
    """Return the open files of the process that is nearest to its limit."""
    name, pid = "", "self"
    if isinstance(pair, Pair):
        full = descriptors.fullest(pair.after)
        name, pid = f" {full.name}", str(full.pid)

    def cells(pair: Pair[list[descriptors.Process]]) -> Cells:
        full = descriptors.fullest(pair.after)
        nothing = blank("nothing waits for a file descriptor")
        unknown = blank("the kernel does not count EMFILE; the program gets it")
        return of(full.open, full.limit), nothing, unknown

    command = f"ls /proc/{pid}/fd | wc -l; grep 'open files' /proc/{pid}/limits"
    return row((f"files{name}", "files", at, command), pair, cells)
