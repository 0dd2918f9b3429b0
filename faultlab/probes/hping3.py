"""Probe: a flood of SYNs from a user's machine, by hping3. Source: hping3(8)."""

import re
from dataclasses import dataclass

from faultlab.core.errors import CannotRun
from faultlab.engine.shell import Shell

_SENT = re.compile(r"(\d+) packets transmitted, (\d+) packets received")
_NUMBER = "/tmp/flood"  # where the number of the process is


@dataclass(frozen=True)
class Flood:
    """SYNs that were sent at the requested rate, and the packets that came back."""

    sent: int
    received: int


def flood(machine: Shell, host: str, *, seconds: int, port: int = 80, gap: float = 0.0001) -> Flood:
    """Send SYNs `gap` seconds apart to a neighbour only, until `end_flood` or for `seconds`.

    Raises CannotRun, before anything is sent, if the route to `host` leads through a router.
    """
    address = _neighbour(machine, host)
    syns = f"hping3 -q -S -p {port} -i u{int(gap * 1_000_000)} -c {int(seconds / gap)} {address}"
    command = f"echo $$ >{_NUMBER}; exec timeout -s INT {seconds} {syns} 2>&1"
    return parse_flood(machine.run(command, timeout=seconds + 10).out)


def flood_without_pause(machine: Shell, host: str, *, seconds: int, cpu: int = 1) -> None:
    """Send SYNs to port 80 one after the other, from one CPU, to a neighbour only.

    It ends with `end_flood`, at the latest after `seconds` or a million SYNs for each of them. It
    also ends if the machine's own firewall drops a SYN, and that is no error: the counters of the
    interface say how many were sent.
    Raises CannotRun, before anything is sent, if the route to `host` leads through a router.
    """
    syns = f"hping3 -q -S -p 80 --flood -c {seconds * 1_000_000} {_neighbour(machine, host)}"
    command = f"exec timeout -s INT {seconds} taskset -c {cpu} {syns}"
    machine.run(f"echo $$ >{_NUMBER}; {command} >/dev/null 2>&1", timeout=seconds + 30)


def wait_flood(machine: Shell, seconds: int) -> None:
    """Wait until a flood without pause has begun. Raises CannotRun after `seconds`."""
    loop = f"until [ -s {_NUMBER} ]; do sleep 0.2; done; sleep 1"
    machine.must(f"timeout {seconds} sh -c '{loop}'", timeout=seconds + 10)


def end_flood(machine: Shell) -> None:
    """End the flood of this machine."""
    machine.run(f"kill -INT $(cat {_NUMBER}); rm -f {_NUMBER}")


def _neighbour(machine: Shell, host: str) -> str:
    """Return the address of a host on the same network. Raises CannotRun for any other."""
    address = machine.must(f"getent ahostsv4 {host} | awk 'NR == 1 {{ print $1 }}'").strip()
    way = machine.must(f"ip route get {address}")
    if " via " in way or " dev eth0 " not in way:
        raise CannotRun(f"{host} is no neighbour of {machine.name}: {way.splitlines()[0].strip()}")
    return address


def parse_flood(out: str) -> Flood:
    """Parse hping3's statistic. Raises CannotRun if it sent nothing."""
    return Flood(*_statistic(out))


def _statistic(out: str) -> tuple[int, int]:
    found = _SENT.search(out)
    if not found or int(found[1]) == 0:
        tail = out.strip().splitlines()[-1:] or ["nothing"]
        raise CannotRun(f"hping3 sent nothing: {tail[0]}")
    return int(found[1]), int(found[2])
