"""Probe: a network interface and its counters, by ip. Source: ip-link(8), `-json -statistics`."""

from __future__ import annotations

import json
from dataclasses import dataclass

from faultlab.core.errors import CannotRun
from faultlab.engine.shell import Shell


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


def wait_sent(machine: Shell, packets: int, seconds: int, device: str = "eth0") -> None:
    """Wait until so many more packets have left. Raises CannotRun when they do not in time."""
    read = f"read -r n </sys/class/net/{device}/statistics/tx_packets"
    loop = (
        f"{read}; want=$((n + {packets})); until ((n >= want)); do "
        f"((SECONDS < {seconds})) || exit 1; sleep 0.05; {read}; done"
    )
    if machine.run(f"bash -c '{loop}'", timeout=seconds + 10).code != 0:
        raise CannotRun(f"{machine.name} did not send {packets} packets within {seconds} s.")


def parse(out: str) -> Interface:
    """Read ip's JSON."""
    link = json.loads(out)[0]
    rx, tx = link["stats64"]["rx"], link["stats64"]["tx"]
    return Interface(link["mtu"], rx["packets"], rx["dropped"], tx["packets"], tx["dropped"])
