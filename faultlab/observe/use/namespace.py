"""Namespace: the rows of the resources in a machine's network and process namespaces.

Interfaces, TCP, listeners, ports, connection tracking, packet filter, open files; see rows.py.
"""

from collections.abc import Iterator

from faultlab.observe.use.cells import (
    NOT_COUNTED,
    Cells,
    Row,
    Value,
    blank,
    count,
    grown,
    of,
    row,
    short,
    unread,
)
from faultlab.observe.use.sections import Pair, Sections, Unread
from faultlab.probes import conntrack, descriptors, interface, iptables, nstat, sockets
from faultlab.probes.interface import Interface
from faultlab.probes.sockets import Sockets

Counters = Pair[dict[str, int]] | Unread  # of nstat
States = Pair[Sockets] | Unread


def rows(at: str, looks: Sections) -> Iterator[Row]:
    """Yield all of these rows, read on the machine `at`."""
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
