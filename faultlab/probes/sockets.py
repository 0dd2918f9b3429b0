"""Probe: listeners, local ports and the states of a machine's TCP sockets, by ss. Source: ss(8).

A connect() needs a local port that no other connection to the same address and port has. A port in
TIME-WAIT can be used again if tcp_tw_reuse permits it (2: on the loopback only) and it is a second
old. Source: the kernel's networking/ip-sysctl.
"""

import math
import re
from dataclasses import dataclass

from faultlab.engine.shell import Shell

_KEYS = "ip_local_port_range tcp_tw_reuse tcp_max_tw_buckets"
# One line for each state, peer and age instead of one for each of 30,000 sockets. ss prints the
# listeners first. A timer of `59sec` or `1min` means that a TIME-WAIT is not yet a second old.
_COUNT = r"""awk -v low=$1 -v high=$2 '
{ port = $4; sub(/.*:/, "", port); all[$1]++ }
$1 == "LISTEN" { ours[port] = 1 }
$1 == "SYN-RECV" { half_open[port]++ }
$1 != "LISTEN" && !ours[port] && port >= low && port <= high {
  old = $1 == "TIME-WAIT" && $6 !~ /59sec|min/; taken[$5 " " (old ? "old" : "busy")]++ }
END { for (s in all) print "state", s, all[s]
  for (p in half_open) print "half-open", p, half_open[p]
  for (k in taken) print "taken", k, taken[k] }'"""
COMMAND = (
    f"cd /proc/sys/net/ipv4 && grep -H . {_KEYS} && ss -Hltnm && set -- $(cat ip_local_port_range)"
    f" && ss -Htano | {_COUNT}"
)
TIME_WAIT = "ss -Htan state time-wait dport = :{} | wc -l"
# ss prints 468 ms as `468ms`, and 1592 ms as `1.592ms`.
_TIMER = re.compile(r"timer:\(keepalive,(?:(\d+)min)?(?:(\d+)sec)?(?:(\d+[.])?(\d+)ms)?,")
_LOOPBACK = re.compile(r"(127\.|\[::1\]|\[::ffff:127\.)")
_DROPS = re.compile(r"skmem:\(.*?d(\d+)\)")


@dataclass(frozen=True)
class Listener:
    """A listening socket: `queued` connections of at most `backlog` wait for accept().

    `half_open`: connections in SYN-RECV. `lost`: connections that it has dropped since it listens.
    """

    port: int
    queued: int
    backlog: int
    address: str = ""
    half_open: int = 0
    lost: int = 0


@dataclass(frozen=True)
class Sockets:
    """Sockets by state, the listeners, and the local ports.

    `taken` of `ports` cannot be used for one more connection to `peer`, which has the most.
    """

    states: dict[str, int]
    listeners: list[Listener]
    peer: str
    taken: int
    ports: int
    max_time_wait: int


def read(machine: Shell) -> Sockets:
    """Read them now."""
    return parse(machine.must(COMMAND))


def parse(out: str) -> Sockets:
    """Parse the settings, the listeners and the counts."""
    lines = out.splitlines()
    facts = dict(line.split(":", 1) for line in lines if re.match(r"\w+:", line))
    low, high = map(int, facts["ip_local_port_range"].split())
    words = [line.split() for line in lines]
    half_open = {int(w[1]): int(w[2]) for w in words if w[:1] == ["half-open"]}
    reuse = int(facts["tcp_tw_reuse"])
    taken: dict[str, int] = {}
    for _, peer, age, count in (w for w in words if w[:1] == ["taken"]):
        again = reuse == 1 or (reuse == 2 and bool(_LOOPBACK.match(peer)))
        taken[peer] = taken.get(peer, 0) + (0 if age == "old" and again else int(count))
    peer = max(taken, key=lambda name: taken[name], default="")
    return Sockets(
        states={w[1]: int(w[2]) for w in words if w[:1] == ["state"]},
        listeners=_listeners(lines, half_open),
        peer=peer,
        taken=taken.get(peer, 0),
        ports=high - low + 1,
        max_time_wait=int(facts["tcp_max_tw_buckets"]),
    )


def _listeners(lines: list[str], half_open: dict[int, int]) -> list[Listener]:
    found = []
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if not line.startswith("LISTEN"):
            continue
        _state, queued, backlog, local = line.split()[:4]
        address, _, text = local.rpartition(":")
        drops = _DROPS.search(line + below)  # on the same line if ss has room
        if not drops:
            raise ValueError(f"no skmem: {line}")
        port, lost = int(text), int(drops[1])
        waiting = half_open.get(port, 0)
        found.append(Listener(port, int(queued), int(backlog), address, waiting, lost))
    return found


def backlog(found: list[Listener], port: int) -> int:
    """Return the limit of the accept queue on a port; 0 if nothing listens there."""
    return next((one.backlog for one in found if one.port == port), 0)


def half_open(machine: Shell, port: int) -> int:
    """Return the connections to a port that got a SYN-ACK and are not yet confirmed."""
    return next((one.half_open for one in read(machine).listeners if one.port == port), 0)


def time_wait(machine: Shell, port: int) -> int:
    """Return the connections to this port in TIME_WAIT on the client's side; each uses a port."""
    return int(machine.must(TIME_WAIT.format(port)))


def probes(machine: Shell, which: str) -> dict[int, float]:
    """Return how soon connections send a keepalive probe, in seconds, by the clients' ports.

    `which`: a filter of ss, for the port of the server at the one end or the other.
    """
    out = machine.must(f"ss -Htno state established {which}")
    return parse_probes(out, client=2 if which.startswith("dport") else 3)


def parse_probes(out: str, client: int) -> dict[int, float]:
    """Parse the lines of `ss -o`; `client`: the column of the client's end. inf: no probe."""
    found = {}
    for line in out.splitlines():
        port, seconds = int(line.split()[client].rpartition(":")[2]), math.inf
        if timer := _TIMER.search(line):
            minutes, whole, more, rest = (float(count or 0) for count in timer.groups())
            seconds = 60 * minutes + whole + more + rest / 1000
        found[port] = seconds
    return found
