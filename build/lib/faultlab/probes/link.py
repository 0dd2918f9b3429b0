"""Probe: how full the way out of a machine is. Sources: tc(8), the kernel's sysfs-class-net.

What limits it is the rate of its root qdisc, if that shapes (tbf), else the interface's own speed.
"""

from __future__ import annotations

from dataclasses import dataclass

from faultlab.engine import Shell
from faultlab.probes import qdisc

_READ = (
    "date +%s.%N; cat /sys/class/net/{0}/speed /sys/class/net/{0}/statistics/tx_bytes; "
    "tc -json -s qdisc show dev {0}"
)
_FLOWING = 200_000  # bytes: more than the handshakes of a thousand connections
_WAIT = (
    "cd /sys/class/net/{0}/statistics; was=$(cat tx_bytes); for _ in $(seq 100); do"
    " [ $(($(cat tx_bytes) - was)) -gt {1} ] && break; sleep 0.05; done"
)


@dataclass(frozen=True)
class Link:
    """`at`: seconds of the clock; bytes sent since it is there; `rate`: bits a second."""

    at: float
    sent: int
    rate: float

    def used_percent_since(self, before: Link) -> float:
        """Of its rate, what was sent since then."""
        return 100 * 8 * (self.sent - before.sent) / (self.at - before.at) / self.rate


def read(machine: Shell, device: str = "eth0") -> Link:
    """Read it now."""
    return parse(machine.must(_READ.format(device)))


def wait(machine: Shell, device: str = "eth0") -> None:
    """Wait until a load that was started is there, for five seconds at most."""
    machine.must(_WAIT.format(device, _FLOWING))


def parse(out: str) -> Link:
    """Read the clock, the speed in Mbit/s, the bytes sent, and tc's JSON.

    Where a qdisc shapes, it counts the bytes as it charges for them: with the headers of each
    packet that a large one is cut into.
    """
    at, speed, sent, rest = out.split("\n", 3)
    root = qdisc.parse(rest)
    if root.rate:
        return Link(float(at), root.bytes, root.rate)
    return Link(float(at), int(sent), float(speed) * 1e6)
