"""Rows: utilisation, saturation and errors of each resource, from two looks at a running stack.

The method and most of the rows: https://www.brendangregg.com/USEmethod/use-linux.html, with the
containers' own values where /proc would tell the host's. Counters are differences over the
interval; queues are the longer of the two looks. Nothing here says what is too much: limits.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from faultlab.cells import Cells, Row, Value, blank, count, in_bytes, of, short
from faultlab.probes import (
    cgroup,
    conntrack,
    descriptors,
    fpm,
    host,
    iptables,
    mysql,
    network,
    nstat,
    sockets,
)
from faultlab.probes.cgroup import Cgroup
from faultlab.sections import NO_ANSWER, Looks, Pair, Unread

T = TypeVar("T")


Place = tuple[str, str, str, str]  # resource, kind, at, command: the first four of a row


def _row(place: Place, pair: Pair[T] | Unread, cells: Callable[[Pair[T]], Cells]) -> Row:
    """A row; all blank when its values could not be read."""
    return _unread(place, pair) if isinstance(pair, Unread) else Row(*place, *cells(pair))


def _unread(place: Place, unread: Unread) -> Row:
    return Row(*place, blank(unread.why), blank(unread.why), blank(unread.why))


def container(name: str, looks: Looks) -> Iterator[Row]:
    """Processor and memory of one container, from its cgroup."""
    pair = looks.pair("cgroup", cgroup.parse)
    old = isinstance(pair, Pair) and pair.after.version == 1
    quota = isinstance(pair, Pair) and pair.after.quota
    cpu, memory = _FILES[1 if old else 2]
    kind = "cpu quota" if quota else "cpu"
    yield _row((f"cpu {name}", kind, name, f"cat /sys/fs/cgroup/{cpu}"), pair, _cpu)
    yield _row((f"memory {name}", "memory", name, f"cat /sys/fs/cgroup/{memory}"), pair, _memory)


# What an engineer reads of a cgroup, by its version.
_FILES = {
    1: ("{cpu/cpu.stat,cpuacct/cpuacct.usage}", "memory/memory.{failcnt,usage_in_bytes}"),
    2: ("cpu.{stat,pressure}", "memory.{current,max,events}"),
}


def _cpu(pair: Pair[Cgroup]) -> Cells:
    before, after, seconds = pair.before, pair.after, pair.seconds
    share = 100 * (after.cpu - before.cpu) / seconds / after.cpus
    used = Value(share, "%", f"{share:.0f}% of {after.cpus:g} cpus")
    errors = blank("a cgroup counts no errors of processors")
    if not after.quota:
        waits = _waits(before.cpu_wait, after.cpu_wait, seconds)
        return used, waits or blank("no quota, and cgroup v1 counts no waiting"), errors
    if None in (before.periods, after.periods, before.throttled, after.throttled):
        return used, blank("this kernel does not count throttled periods"), errors
    periods = (after.periods or 0) - (before.periods or 0)
    throttled = (after.throttled or 0) - (before.throttled or 0)
    percent = 100 * throttled / periods if periods else 0.0
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
        _grown(before.at_limit, after.at_limit, "at limit"),
        _grown(before.killed, after.killed, "OOM kills"),
    )


def _grown(before: int | None, after: int | None, word: str) -> Value:
    if before is None or after is None:
        return blank("this kernel does not count it")
    return count(after - before, word)


def stopped(name: str, container_name: str, code: int, oom: bool) -> Row:
    """A daemon that should run and does not."""
    text = f"exit {code}{', OOM' if oom else ''}"
    why = blank(f"{name} is not running")
    command = f"docker logs --tail 5 {container_name}"
    return Row(name, "daemon", "$", command, why, why, Value(1, "", text))


def namespace(at: str, looks: Looks) -> Iterator[Row]:
    """What a machine's network and process namespaces hold."""
    links = looks.pair("network", network.parse)
    tcp = looks.pair("sockets", sockets.parse)
    counters = looks.pair("counters", nstat.parse)
    yield from _links(at, links)
    yield _tcp(at, counters, tcp)
    yield from _listeners(at, counters, tcp)
    yield _knocks(at, counters, tcp)
    yield _ports(at, tcp)
    yield _time_wait(at, counters, tcp)
    yield _tracked(at, looks.pair("conntrack", conntrack.fill))
    yield _filtered(at, looks.pair("filter", _rules))
    yield _files(at, looks.pair("files", descriptors.parse))


def _links(at: str, pair: Pair[list[network.Link]] | Unread) -> Iterator[Row]:
    """The network interfaces of a machine that are up."""
    if isinstance(pair, Unread):
        yield _unread(("interfaces", "link", at, "ip -s link show"), pair)
        return
    before = {link.name: link for link in pair.before}
    for link in pair.after:
        command = f"ip -s link show {link.name}; tc -s qdisc show dev {link.name}"
        both = Pair(before.get(link.name, link), link, pair.seconds)
        yield _row((link.name, "link", at, command), both, _link)


def _link(pair: Pair[network.Link]) -> Cells:
    before, after = pair.before, pair.after
    received = 8 * (after.received - before.received) / pair.seconds
    sent = 8 * (after.sent - before.sent) / pair.seconds
    if after.rate:
        text = f"{_bits(sent, after.rate)} of {_bits(after.rate, after.rate)}"
        used = Value(100 * sent / after.rate, "%", f"{text} {_unit(after.rate)}")
    else:
        most = max(received, sent)
        text = f"{_bits(received, most)} in {_bits(sent, most)} out {_unit(most)}"
        used = Value(None, "", text, "a virtual link has no speed of its own")
    lost = after.queue_lost - before.queue_lost
    queue = Value(lost, "packets", f"{short(lost)} lost in queue")
    if not lost and max(after.waiting, before.waiting):
        queue = Value(0, "packets", f"{short(max(after.waiting, before.waiting))} waiting")
    return used, queue, count(after.lost - before.lost, "dropped")


def _unit(most: float) -> str:
    return "Gb/s" if most >= 1e9 else "Mb/s" if most >= 1e6 else "kb/s"


def _bits(number: float, most: float) -> str:
    """A rate in the unit of the larger one."""
    value = number / {"G": 1e9, "M": 1e6, "k": 1e3}[_unit(most)[0]]
    return f"{value:.{0 if value >= 10 or not value else 1}f}"


def _tcp(
    at: str, counters: Pair[dict[str, int]] | Unread, states: Pair[sockets.Sockets] | Unread
) -> Row:
    """Segments that had to be sent again."""
    names = "TcpOutSegs", "TcpRetransSegs", "TcpInErrs"
    now = states.after.states.get("ESTAB", 0) if isinstance(states, Pair) else None
    used = blank(states.why) if isinstance(states, Unread) else blank("")
    if now is not None:
        used = count(now, "connected")

    def cells(pair: Pair[dict[str, int]]) -> Cells:
        sent, again, bad = (_grew(pair, name) for name in names)
        percent = 100 * again / (sent + again) if again else 0.0  # OutSegs leaves these out
        return used, Value(percent, "%", f"{short(percent)}% sent again"), count(bad, "bad")

    return _row(("tcp", "tcp", at, f"nstat -asz {' '.join(names)}"), counters, cells)


def _grew(pair: Pair[dict[str, int]], name: str) -> int:
    """Growth of a counter of nstat; one that this kernel does not have stays 0."""
    return pair.after.get(name, 0) - pair.before.get(name, 0)


_DOCKERS = "127.0.0.11"  # Docker's resolver, in every network namespace


def _listeners(
    at: str, counters: Pair[dict[str, int]] | Unread, pair: Pair[sockets.Sockets] | Unread
) -> Iterator[Row]:
    """The accept queue of each listening socket.

    The kernel counts overflows for all sockets together, and for each socket whatever it has lost,
    for other reasons too: the smaller of the two is the socket's share.
    """
    if isinstance(pair, Unread):
        yield _unread(("listen", "listen", at, "ss -ltn"), pair)
        return
    old = {(one.address, one.port): one for one in pair.before.listeners}
    for now in sorted(pair.after.listeners, key=lambda one: one.port):
        if now.address == _DOCKERS:
            continue
        was = old.get((now.address, now.port), now)
        lost = now.lost - was.lost if now.lost >= was.lost else now.lost  # it was opened anew
        if isinstance(counters, Unread):
            over = blank(counters.why)
        else:
            over = count(min(lost, _grew(counters, "TcpExtListenOverflows")), "overflows")
        command = f"ss -ltnm 'sport = :{now.port}'; nstat -asz TcpExtListenOverflows"
        yield Row(
            f"listen :{now.port}",
            "listen",
            at,
            command,
            of(max(now.queued, was.queued), now.backlog, "queued"),
            over,
            blank("a connection without a place is counted once: as saturation"),
        )


def _knocks(
    at: str, counters: Pair[dict[str, int]] | Unread, states: Pair[sockets.Sockets] | Unread
) -> Row:
    """SYNs that were answered and wait for the last word of the client."""
    used = blank(states.why) if isinstance(states, Unread) else blank("nothing listens here")
    if isinstance(states, Pair):
        both = [*states.before.listeners, *states.after.listeners]
        full = max(both, key=_knocked, default=None)
        used = of(full.knocking, full.backlog) if full else used
    full_queue = "TcpExtTCPReqQFullDrop", "TcpExtTCPReqQFullDoCookies"

    def cells(pair: Pair[dict[str, int]]) -> Cells:
        missed = sum(_grew(pair, name) for name in full_queue)
        bad = count(_grew(pair, "TcpExtSyncookiesFailed"), "bad cookies")
        return used, count(missed, "not queued"), bad

    command = "ss -tn state syn-recv; nstat -asz 'TcpExtTCPReqQ*'"
    return _row(("SYN_RECV", "knocks", at, command), counters, cells)


def _knocked(one: sockets.Listener) -> tuple[float, int]:
    return one.knocking / max(one.backlog, 1), -one.backlog


def _ports(at: str, pair: Pair[sockets.Sockets] | Unread) -> Row:
    """Local ports towards the destination that has the most connections."""
    peer = pair.after.peer if isinstance(pair, Pair) else ""
    to = f" dst {peer}" if peer else ""
    command = f"sysctl net.ipv4.ip_local_port_range; ss -Htan{to} | wc -l"
    unknown = "the kernel does not count a connect() without a port; the program gets the error"

    def cells(pair: Pair[sockets.Sockets]) -> Cells:
        most = max(pair.before, pair.after, key=lambda one: one.taken / one.ports)
        return of(most.taken, most.ports), blank("nobody waits for a port"), blank(unknown)

    return _row(("local ports", "ports", at, command), pair, cells)


def _time_wait(
    at: str, counters: Pair[dict[str, int]] | Unread, states: Pair[sockets.Sockets] | Unread
) -> Row:
    """Connections that are over and still known."""

    def cells(pair: Pair[sockets.Sockets]) -> Cells:
        now = pair.after.states.get("TIME-WAIT", 0)
        if isinstance(counters, Unread):
            over = blank(counters.why)
        else:
            over = count(_grew(counters, "TcpExtTCPTimeWaitOverflow"), "not kept")
        return of(now, pair.after.max_time_wait), over, blank("there can be none")

    command = "ss -s; sysctl net.ipv4.tcp_max_tw_buckets"
    return _row(("TIME_WAIT", "time-wait", at, command), states, cells)


def _tracked(at: str, pair: Pair[conntrack.Fill] | Unread) -> Row:
    """The connection tracking table of the machine's namespace."""

    def cells(pair: Pair[conntrack.Fill]) -> Cells:
        entries = max(pair.before.entries, pair.after.entries)
        lost = count(pair.after.lost - pair.before.lost, "dropped")
        return of(entries, pair.after.most), blank("a full table drops: see errors"), lost

    command = "conntrack -C; sysctl net.netfilter.nf_conntrack_max; conntrack -S"
    return _row(("conntrack", "conntrack", at, command), pair, cells)


def _rules(out: str) -> list[iptables.Rule]:
    if not out.startswith("Chain "):
        raise ValueError("not what iptables prints")
    return iptables.parse(out)


def _filtered(at: str, pair: Pair[list[iptables.Rule]] | Unread) -> Row:
    """Packets that rules of the packet filter have taken."""

    def cells(pair: Pair[list[iptables.Rule]]) -> Cells:
        taken = [
            sum(rule.packets for rule in rules if rule.target in ("DROP", "REJECT"))
            for rules in (pair.before, pair.after)
        ]
        # Rules that were deleted meanwhile take their packets with them.
        lost = count(max(0, taken[1] - taken[0]), "dropped")
        nothing = blank("rules have no capacity")
        return count(len(pair.after), "rules"), nothing, lost

    return _row(("packet filter", "filter", at, "iptables -nvL"), pair, cells)


def _files(at: str, pair: Pair[list[descriptors.Process]] | Unread) -> Row:
    """Open files of the process that is nearest to its limit."""
    name, pid = "", "self"
    if isinstance(pair, Pair):
        full = descriptors.fullest(pair.after)
        name, pid = f" {full.name}", str(full.pid)

    def cells(pair: Pair[list[descriptors.Process]]) -> Cells:
        full = descriptors.fullest(pair.after)
        nothing = blank("nobody waits for a file descriptor")
        unknown = blank("the kernel does not count EMFILE; the program gets it")
        return of(full.open, full.limit), nothing, unknown

    command = f"ls /proc/{pid}/fd | wc -l; grep 'open files' /proc/{pid}/limits"
    return _row((f"files{name}", "files", at, command), pair, cells)


def pool(name: str, at: str, pair: Pair[fpm.Status] | Unread) -> Row:
    """The workers of PHP-FPM on the machine `at`, counted without the one that answers us."""
    place = (name, "pool", at, "curl -s http://127.0.0.1/status")
    if isinstance(pair, Unread) and pair.why == NO_ANSWER:
        silent = f"no answer in {fpm.FASTCGI_SECONDS} s"
        return Row(*place, blank(silent), blank(silent), Value(1, "", silent))

    def cells(pair: Pair[fpm.Status]) -> Cells:
        most = max(pair.before, pair.after, key=lambda one: (one.listen_queue, one.active))
        workers = most.active + most.idle
        busy = most.active - (most.idle > 0)
        waiting = 100 * most.listen_queue / max(workers, 1)
        reached = pair.after.max_children_reached - pair.before.max_children_reached
        return (
            of(busy, workers, "busy"),
            Value(waiting, "% of workers", f"{short(most.listen_queue)} waiting"),
            count(max(0, reached), "at max"),
        )

    return _row(place, pair, cells)


def database(at: str, looks: Looks) -> Iterator[Row]:
    """MySQL: its sessions, its buffer pool and its row locks."""
    pair = looks.pair("database", mysql.parse)
    none = blank("MySQL does not count any")

    def sessions(pair: Pair[mysql.Status]) -> Cells:
        most = max(pair.before, pair.after, key=lambda one: one.connected)
        refused = count(pair.after.refused - pair.before.refused, "refused")
        return of(most.connected, most.most), blank("who finds no place is refused"), refused

    def buffers(pair: Pair[mysql.Status]) -> Cells:
        now = pair.after
        waits = count(now.pool_waits - pair.before.pool_waits, "waits")
        return of(now.pool_used, now.pool_pages, "pages"), waits, none

    def locks(pair: Pair[mysql.Status]) -> Cells:
        over = (pair.after.lock_ms - pair.before.lock_ms) / 1000 / pair.seconds
        waiting = max(over, min(pair.before.lock_waiting, pair.after.lock_waiting))
        return blank("no limit"), count(waiting, "waiting"), none

    yield _row(("mysql sessions", "sessions", at, mysql.TYPED), pair, sessions)
    yield _row(("mysql buffers", "buffer pool", at, mysql.TYPED), pair, buffers)
    yield _row(("mysql row locks", "row locks", at, mysql.TYPED), pair, locks)


def whole_host(at: str, looks: Looks) -> Iterator[Row]:
    """The kernel below all machines, whoever makes it work."""
    processors = looks.pair("host_cpu", host.cpu)
    memory = looks.pair("host_memory", host.memory)
    disks = looks.pair("host_disks", host.disks)
    yield _row(("cpu", "host cpu", at, "vmstat 1 2"), processors, _host_cpu)
    yield _row(("memory", "host memory", at, "free -m"), memory, _host_memory)
    yield _row(("swap", "swap", at, "vmstat 1 2"), memory, _swap)
    if isinstance(disks, Unread):
        yield _unread(("disk", "disk", at, "iostat -dxz 1 2"), disks)
    else:
        for name, now in disks.after.items():
            both = Pair(disks.before.get(name, now), now, disks.seconds)
            yield _row((f"disk {name}", "disk", at, f"iostat -dxz {name} 1 2"), both, _disk)
    yield _row(("disk space", "space", at, "df -h /"), looks.pair("host_space", host.space), _space)


def _host_cpu(pair: Pair[host.Cpu]) -> Cells:
    before, after = pair.before, pair.after
    ticks = after.ticks - before.ticks
    share = 100 * (after.busy - before.busy) / ticks if ticks else 0.0
    return (
        Value(share, "%", f"{share:.0f}% of {after.processors} cpus"),
        _waits(before.wait, after.wait, pair.seconds)
        or count(max(before.running, after.running), "run or wait"),
        blank("machine checks are in the kernel's log only"),
    )


def _host_memory(pair: Pair[host.Memory]) -> Cells:
    now = pair.after.sizes
    used = 100 - now.available_percent
    text = f"{used:.0f}% of {in_bytes(1024 * now.total)}"
    killed = count(pair.after.killed - pair.before.killed, "OOM kills")
    return Value(used, "%", text), blank("see swap"), killed


def _swap(pair: Pair[host.Memory]) -> Cells:
    before, now = pair.before, pair.after
    total = now.swap_total
    used = of(now.sizes.swap_used / 1024, total / 1024, "MB") if total else blank("no swap")
    pages = (now.sizes.swapped_in - before.sizes.swapped_in) / pair.seconds
    return used, count(pages, "pages in/s"), blank("errors of a disk are in the kernel's log only")


def _disk(pair: Pair[host.Disk]) -> Cells:
    before, now = pair.before, pair.after
    busy = min(100.0, (now.busy - before.busy) / pair.seconds / 10)
    queue = (now.waited - before.waited) / pair.seconds / 1000
    unknown = blank("errors of a disk are in the kernel's log only")
    return Value(busy, "%", f"{busy:.0f}% busy"), count(queue, "in flight"), unknown


def _space(pair: Pair[host.Space]) -> Cells:
    now = pair.after
    whole = now.used + now.free
    text = f"{in_bytes(1024 * now.used)} of {in_bytes(1024 * whole)}"
    used = Value(100 * now.used / whole, "%", text)
    return used, blank("nobody waits for space"), blank("ENOSPC goes to the program")
