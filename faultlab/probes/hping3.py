"""Probe: the first SYN of a connection, many times, or a flood of SYNs, by hping3.

Each SYN is sent once, because the client's kernel does not know of it and never repeats it. So a
late answer is the server's own retransmission of its SYN-ACK, one second later. Source: hping3(8).
"""

import re
from dataclasses import dataclass

from faultlab.core.errors import CannotRun
from faultlab.engine.shell import Shell

# A port whose last connection is in TIME-WAIT on the server gets an ACK in place of a SYN-ACK.
_ANSWER = re.compile(r"flags=S?A seq=(\d+) .*rtt=([\d.]+) ms")
_SENT = re.compile(r"(\d+) packets transmitted, (\d+) packets received")
_NUMBER = "/tmp/flood"  # where the number of the process is
_LATE = 500.0  # milliseconds; the kernel first repeats a SYN-ACK after 1,000


@dataclass(frozen=True)
class Handshakes:
    """SYNs sent, how many were answered at once (under 500 ms) or late, and the times in ms.

    The 95th percentile is used and not the maximum. Even in a healthy stack a SYN-ACK rarely
    arrives only with its retransmission (2 of about 5,000 seen).
    """

    sent: int
    prompt: int
    late: int
    rtt_median: float
    rtt_p95: float

    @property
    def first_try_loss(self) -> float:
        """Return the share of SYNs without a prompt answer, 0 to 1."""
        return (self.sent - self.prompt) / self.sent

    @property
    def unanswered(self) -> int:
        """Return the number of SYNs without any answer."""
        return self.sent - self.prompt - self.late


def syn(machine: Shell, host: str, port: int = 80, count: int = 5, gap: float = 0.1) -> Handshakes:
    """Send `count` SYNs, `gap` seconds apart, and collect the answers."""
    micros = int(gap * 1_000_000)
    command = f"hping3 -S -p {port} -c {count} -i u{micros} {host} 2>&1"
    return parse(machine.run(command, timeout=count * gap + 15).out)


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


def parse(out: str) -> Handshakes:
    """Parse hping3's lines and its statistic. Raises CannotRun if it sent nothing."""
    sent, received = _statistic(out)
    first: dict[int, float] = {}
    for seq, rtt in _ANSWER.findall(out):
        if seq != "0" or float(rtt):  # seq=0 rtt=0.0 most likely answers no SYN of this run
            first.setdefault(int(seq), float(rtt))
    if received >= sent and set(first) == set(range(1, sent)):
        first[0] = 0.0  # all others have theirs, so this is the first SYN's answer, under 0.05 ms
    times = sorted(first.values())
    prompt = sum(rtt < _LATE for rtt in times)
    return Handshakes(
        sent=_judged(sent, received, first),
        prompt=prompt,
        late=len(times) - prompt,
        rtt_median=times[len(times) // 2] if times else 0.0,
        rtt_p95=times[int(0.95 * len(times))] if times else 0.0,
    )


def _judged(sent: int, received: int, answered: dict[int, float]) -> int:
    """Return how many SYNs had enough time to be answered.

    hping3 ends with the last packet that it asked for, even if that is a stray or a duplicate. Then
    the SYNs after the last answer were sent too late to be judged.
    """
    if received < sent or not answered:
        return sent
    return min(sent, max(answered) + 1)
