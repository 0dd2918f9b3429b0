"""Probe: how full the way out of a machine is. Sources: tc(8), the kernel's sysfs-class-net.

What limits it is the rate of its root qdisc, if that shapes (tbf), else the interface's own speed.
"""

from __future__ import annotations

from dataclasses import dataclass

from faultlab.engine.shell import Shell
from faultlab.probes import qdisc

_READ = (
    "cat /sys/class/net/{0}/speed /sys/class/net/{0}/statistics/tx_bytes; "
    "tc -json -s qdisc show dev {0}"
)


@dataclass(frozen=True)
class Link:
    """Bytes sent since it is there; `rate`: bits a second."""

    sent: int
    rate: float

    def used_percent_since(self, before: Link, seconds: float) -> float:
        """Return what was sent since then, in percent of what it can send in so many seconds."""
        return 100 * 8 * (self.sent - before.sent) / seconds / self.rate


def read(machine: Shell, device: str = "eth0") -> Link:
    """Read the rate and the counters of one interface now."""
    return parse(machine.must(_READ.format(device)))


def parse(out: str) -> Link:
    """Read the speed in Mbit/s, the bytes sent, and tc's JSON.

    Where a qdisc shapes, it counts the bytes as it charges for them: with the headers of each
    packet that a large one is cut into.
    """
    speed, sent, rest = out.split("\n", 2)
    root = qdisc.parse(rest)
    if root.rate:
        return Link(root.bytes, root.rate)
    return Link(int(sent), float(speed) * 1e6)
