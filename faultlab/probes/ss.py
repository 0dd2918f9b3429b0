"""Probe: sockets of a machine, by ss. Source: ss(8)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from faultlab.engine.shell import Shell


@dataclass(frozen=True)
class Listener:
    """A listening TCP socket: `queued` connections wait for accept(), `backlog` is their limit."""

    port: int
    queued: int
    backlog: int


def listeners(machine: Shell) -> list[Listener]:
    """The listening TCP sockets (for these, Recv-Q is the queue and Send-Q its limit)."""
    return parse_listeners(machine.must("ss -Hltn"))


def parse_listeners(out: str) -> list[Listener]:
    """Read the lines of `ss -Hltn`."""
    found = []
    for line in out.splitlines():
        _state, queued, backlog, local = line.split()[:4]
        found.append(Listener(int(local.rsplit(":", 1)[1]), int(queued), int(backlog)))
    return found


def backlog(found: list[Listener], port: int) -> int:
    """The limit of the accept queue on a port; 0 when nothing listens there."""
    return next((listener.backlog for listener in found if listener.port == port), 0)


def half_open(machine: Shell, port: int) -> int:
    """Connections to a port that were answered with a SYN-ACK and not yet confirmed."""
    return len(machine.must(f"ss -Htn state syn-recv sport = :{port}").splitlines())


@dataclass(frozen=True)
class Summary:
    """TCP sockets of a machine by state, as `ss -s` counts them."""

    established: int
    time_wait: int


def summary(machine: Shell) -> Summary:
    """Count the sockets."""
    return parse_summary(machine.must("ss -s"))


def parse_summary(out: str) -> Summary:
    """Read the TCP line of `ss -s`."""
    established = re.search(r"estab (\d+)", out)
    time_wait = re.search(r"timewait (\d+)", out)
    return Summary(int(established[1]) if established else 0, int(time_wait[1]) if time_wait else 0)


def time_wait(machine: Shell, port: int) -> int:
    """Connections to this port in TIME_WAIT on the side that had opened them: each keeps a port."""
    return int(machine.must(f"ss -Htan state time-wait dport = :{port} | wc -l"))


def local_ports(machine: Shell) -> int:
    """How many ports connect() may choose from."""
    first, last = machine.must("sysctl -n net.ipv4.ip_local_port_range").split()
    return int(last) - int(first) + 1
