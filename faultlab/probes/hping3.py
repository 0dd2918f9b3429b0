"""Probe: a flood of SYNs without a pause, by hping3. Source: hping3(8)."""

from random import Random

from faultlab.core.errors import CannotRun
from faultlab.engine.shell import Shell

_NUMBER = "/tmp/flood"  # where the number of the process is


def flood(machine: Shell, host: str, *, dice: Random, seconds: int, cpu: int = 1) -> None:
    """Send SYNs to port 80 one after the other, from one CPU, to a neighbour only.

    Window, TTL and options are drawn, so that no rule knows the SYNs of the next flood by them. It
    ends with `end_flood`, at the latest after `seconds` or a million SYNs for each of them. It also
    ends if the machine's own firewall drops a SYN, and that is no error: the counters of the
    interface say how many were sent.
    Raises CannotRun, before anything is sent, if the route to `host` leads through a router.
    """
    looks = f"-w {dice.choice((1024, 29200, 64240, 65535))} -t {dice.choice((63, 64, 128))}"
    looks += dice.choice(("", " -y")) + dice.choice(("", " --tcp-mss 1460", " --tcp-timestamp"))
    syns = f"hping3 -q -S -p 80 {looks} --flood -c {seconds * 1_000_000}"
    command = f"exec timeout -s INT {seconds} taskset -c {cpu} {syns} {neighbour(machine, host)[0]}"
    machine.run(f"echo $$ >{_NUMBER}; {command} >/dev/null 2>&1", timeout=seconds + 30)


def wait_flood(machine: Shell, seconds: int) -> None:
    """Wait until a flood has begun. Raises CannotRun after `seconds`."""
    loop = f"until [ -s {_NUMBER} ]; do sleep 0.2; done; sleep 1"
    machine.must(f"timeout {seconds} sh -c '{loop}'", timeout=seconds + 10)


def end_flood(machine: Shell) -> None:
    """End the flood of this machine."""
    machine.run(f"kill -INT $(cat {_NUMBER}); rm -f {_NUMBER}")


def neighbour(machine: Shell, host: str) -> tuple[str, str]:
    """Return the address of a host on the same network, and the machine's own there.

    Raises CannotRun for any other host.
    """
    address = machine.must(f"getent ahostsv4 {host} | awk 'NR == 1 {{ print $1 }}'").strip()
    way = machine.must(f"ip route get {address}")
    if " via " in way or " dev eth0 " not in way:
        raise CannotRun(f"{host} is no neighbour of {machine.name}: {way.splitlines()[0].strip()}")
    return address, way.split(" src ")[1].split()[0]
