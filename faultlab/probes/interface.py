"""Probe: the interfaces of a machine, each with its root qdisc, by ip and tc.

Sources: ip-link(8) and tc(8), `-json -statistics`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from faultlab.engine.shell import Shell

COMMAND = "ip -json -statistics link show && tc -json -s qdisc show"
_VETH = 10e9  # bits a second: the kernel's speed for every veth


@dataclass(frozen=True)
class Qdisc:
    """The kind of the root qdisc (`noqueue`, `netem`, `tbf`, …); counters in packets.

    `bytes` sent. `backlog` and `waiting`: bytes and packets that wait now. `rate` of a tbf in bits
    a second, else 0.
    """

    kind: str = "none"
    sent: int = 0
    dropped: int = 0
    overlimits: int = 0
    bytes: int = 0
    backlog: int = 0
    rate: int = 0
    waiting: int = 0


@dataclass(frozen=True)
class Link:
    """Bytes sent since it exists; `rate`: bits a second."""

    sent: int
    rate: float

    def used_percent_since(self, before: Link, seconds: float) -> float:
        """Return the bits sent since then, in percent of what it can send in these seconds."""
        return 100 * 8 * (self.sent - before.sent) / seconds / self.rate


@dataclass(frozen=True)
class Interface:
    """MTU in bytes; counters in packets since the machine started; `errors` in both directions."""

    mtu: int
    rx_packets: int
    rx_dropped: int
    tx_packets: int
    tx_dropped: int
    rx_bytes: int = 0
    tx_bytes: int = 0
    errors: int = 0
    up: bool = True
    qdisc: Qdisc = Qdisc()

    @property
    def lost(self) -> int:
        """Return the packets that it dropped, or that were damaged."""
        return self.rx_dropped + self.tx_dropped + self.errors

    @property
    def link(self) -> Link:
        """Return the outgoing link, with the rate of the root qdisc, else the speed of a veth.

        A qdisc that shapes counts the bytes as it charges for them: with headers for each packet
        that a large one is segmented into.
        """
        root = self.qdisc
        return Link(root.bytes, root.rate) if root.rate else Link(self.tx_bytes, _VETH)


def read(machine: Shell, device: str = "eth0") -> Interface:
    """Read one interface."""
    return parse(machine.must(COMMAND))[device]


def parse(out: str) -> dict[str, Interface]:
    """Parse ip's line of JSON, then tc's; an interface without a qdisc has the kind `none`."""
    links, queues = map(json.loads, out.strip().splitlines())
    roots = {queue["dev"]: _qdisc(queue) for queue in queues if queue.get("root")}
    return {link["ifname"]: _interface(link, roots.get(link["ifname"], Qdisc())) for link in links}


def _qdisc(root: dict[str, Any]) -> Qdisc:
    rate = root.get("options", {}).get("rate", 0)  # bytes per second; netem says more about it
    return Qdisc(
        kind=root["kind"],
        sent=root["packets"],
        dropped=root["drops"],
        overlimits=root["overlimits"],
        bytes=root["bytes"],
        backlog=root["backlog"],
        rate=8 * (rate["rate"] if isinstance(rate, dict) else rate),
        waiting=root["qlen"],
    )


def _interface(link: dict[str, Any], root: Qdisc) -> Interface:
    rx, tx = link["stats64"]["rx"], link["stats64"]["tx"]
    return Interface(
        mtu=link["mtu"],
        rx_packets=rx["packets"],
        rx_dropped=rx["dropped"],
        tx_packets=tx["packets"],
        tx_dropped=tx["dropped"],
        rx_bytes=rx["bytes"],
        tx_bytes=tx["bytes"],
        errors=rx["errors"] + tx["errors"],
        up="UP" in link["flags"],
        qdisc=root,
    )
