"""Serving: which program answers at the ports of a stack, and which daemons run beside their own.

A repair has to mend the daemon of the lab, within its limits. Another program that answers in its
place has none of them. So each port is tried by a user, and the connection is followed to the
process that has it: its control group names the container.
"""

import json
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.check import NO_PROGRAM

STRAY = "outside of its container"
_HELD = 12  # seconds that a user keeps the connections if we do not end them
_TRIES, _GAP = 8, 0.3  # seconds: a busy daemon accepts a connection a moment after it has opened
# A user opens a connection to each port and keeps them. It prints the process that does so and its
# own end of each.
_OPEN = f"""python3 - <<'_end_'
import json, os, socket, sys, time
held = {{}}
for host, port in PORTS:
    try:
        held[f"{{host}}:{{port}}"] = socket.create_connection((host, port), 2)
    except OSError:
        pass
keeper = os.fork()
if keeper:
    print(json.dumps([keeper, {{name: one.getsockname() for name, one in held.items()}}]))
else:
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    time.sleep({_HELD})
_end_"""
_PROGRAM = re.compile(r'users:\(\("([^"]+)"')
_PID = re.compile(r"pid=(\d+)")
# Of each process: its number, its network, its name and its control groups.
_PROCESSES = r"""perl -e 'for (glob "/proc/[0-9]*") {
  my $net = readlink "$_/ns/net" or next;
  my @text = map { local (@ARGV, $/) = $_; my $all = <> // ""; $all =~ s/\s+/ /g; $all }
    "$_/comm", "$_/cgroup";
  print substr($_, 6), " $net @text\n"
}' 2>/dev/null"""
_DAEMONS = re.compile(r"nginx|php-fpm|java|mariadbd|mysqld|memcached")


@dataclass(frozen=True)
class Process:
    """A process of a stack: its network, its name, and the text of its control groups."""

    network: str
    name: str
    groups: str


class Processes:
    """The processes of a stack as they are now, by their numbers in the kernel below."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        rows = (line.split(" ", 3) for line in stack.helper().must(_PROCESSES).splitlines())
        self._every = {pid: Process(network, name, its) for pid, network, name, its in rows}

    def daemon(self, pid: str) -> str:
        """Return the daemon that a process belongs to; empty if it is none's."""
        groups = self._every[pid].groups if pid in self._every else ""
        return next((d.name for d in self._stack.values() if d.joins and d.mark in groups), "")

    def strays(self) -> list[str]:
        """Return the daemons that run outside of their containers, as `java on app`."""
        found = set()
        for machine in self._stack.machines:
            network = self._every[machine.pid].network if machine.pid in self._every else ""
            its = [(p, one) for p, one in self._every.items() if one.network == network]
            daemons = [(pid, one.name) for pid, one in its if _DAEMONS.match(one.name)]
            found |= {f"{name} on {machine.name}" for pid, name in daemons if not self.daemon(pid)}
        return sorted(found)


def ports(stack: Stack, processes: Processes) -> list[str]:
    """Return the ports at which daemons wait for users, such as `web:80`."""
    found = []
    for name in dict.fromkeys(daemon.joins for daemon in stack.values() if daemon.joins):
        for line in stack.sidecar(name).must("ss -Htlnp").splitlines():
            address, port = line.split()[3].rsplit(":", 1)
            pid = _PID.search(line)
            if pid and processes.daemon(pid[1]) and not address.startswith(("127.", "[::1]")):
                found.append(f"{name}:{port}")
    return found


def served(stack: Stack, processes: Processes, wanted: Iterable[str]) -> dict[str, str]:
    """Return which daemon, or other program, has the connection of a user to each of these ports.

    A port at which no connection opens is left out: the symptom tells that.
    """
    places = [(host, int(port)) for host, port in (each.split(":") for each in wanted)]
    if not places:
        return {}
    user = stack.user()
    keeper, opened = json.loads(user.must(_OPEN.replace("PORTS", repr(places)), timeout=30))
    try:
        return _owners(stack, processes, opened)
    finally:  # one of them can be the last that a database gives to its administrator
        user.run(f"kill {keeper}")


def _owners(
    stack: Stack, processes: Processes, opened: dict[str, tuple[str, int]]
) -> dict[str, str]:
    """Return who has the other end of each of these open connections."""
    found: dict[str, str] = {}
    for host in dict.fromkeys(name.split(":")[0] for name in opened):
        for _ in range(_TRIES):
            lines = stack.sidecar(host).must("ss -Htnp").splitlines()
            peers = (line.split()[4].replace("[::ffff:", "").replace("]", "") for line in lines)
            by_peer = dict(zip(peers, lines, strict=True))
            its = {
                name: _owner(processes, by_peer.get(f"{address}:{port}", ""))
                for name, (address, port) in opened.items()
                if name.startswith(f"{host}:")
            }
            if NO_PROGRAM not in its.values():
                break
            time.sleep(_GAP)
        found |= its
    return found


def _owner(processes: Processes, line: str) -> str:
    """Return the daemon or the program that a line of `ss -p` names."""
    pid, program = _PID.search(line), _PROGRAM.search(line)
    return (processes.daemon(pid[1]) if pid else "") or (program[1] if program else NO_PROGRAM)
