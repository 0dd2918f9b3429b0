"""Probe: a network interface and its counters, by ip. Source: ip-link(8), `-json -statistics`."""

from __future__ import annotations

import json
from dataclasses import dataclass

from faultlab.engine import Shell


@dataclass(frozen=True)
class Interface:
    """MTU in bytes; counters in packets since the machine started."""

    mtu: int
    rx_packets: int
    rx_dropped: int
    tx_packets: int
    tx_dropped: int


def read(machine: Shell, device: str = "eth0") -> Interface:
    """Read one interface."""
    return parse(machine.must(f"ip -json -statistics link show dev {device}"))


def parse(out: str) -> Interface:
    """Read ip's JSON."""
    link = json.loads(out)[0]
    rx, tx = link["stats64"]["rx"], link["stats64"]["tx"]
    return Interface(link["mtu"], rx["packets"], rx["dropped"], tx["packets"], tx["dropped"])
