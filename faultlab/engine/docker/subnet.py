"""Subnet: a free /24 in 198.18.0.0/15, which RFC 2544 reserves for benchmarking.

So a lab never collides with an office or VPN network, and several labs can be up at once.
"""

import ipaddress
import socket
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

POOL = ipaddress.IPv4Network("198.18.0.0/15")


def free(taken: Iterable[ipaddress.IPv4Network]) -> Iterator[ipaddress.IPv4Network]:
    """Yield the /24s of the pool that overlap with nothing in `taken`, the lowest first."""
    used = [net for net in taken if net.overlaps(POOL)]
    for candidate in POOL.subnets(new_prefix=24):
        if not any(candidate.overlaps(net) for net in used):
            yield candidate


def of_networks(networks: Iterable[Any]) -> list[ipaddress.IPv4Network]:
    """Return the IPv4 subnets of Docker networks (SDK objects with `attrs`)."""
    configs = [c for net in networks for c in (net.attrs.get("IPAM", {}).get("Config") or [])]
    return [
        ipaddress.IPv4Network(config["Subnet"], strict=False)  # older Dockers keep host bits
        for config in configs
        if ":" not in config.get("Subnet", ":")
    ]


def of_routes(table: str) -> list[ipaddress.IPv4Network]:
    """Return the destinations in /proc/net/route, without the default route. Source: proc(5)."""
    found = []
    for line in table.splitlines()[1:]:
        fields = line.split()
        address, mask = (socket.inet_ntoa(struct.pack("<L", int(fields[i], 16))) for i in (1, 7))
        network = ipaddress.IPv4Network(f"{address}/{mask}")
        if not POOL.subnet_of(network):  # a default route, whole or in halves
            found.append(network)
    return found


def host_routes() -> list[ipaddress.IPv4Network]:
    """Return the host's own routes, because a VPN can already use part of the pool."""
    return of_routes(Path("/proc/net/route").read_text())
