"""Subnets: a free /24 of the pool, whatever Docker, a VPN or the office already use."""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import IPv4Network
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from faultlab.engine.docker import subnet

ROUTES = Path(__file__).parents[1] / "recorded/route"


@dataclass
class Network:
    """A Docker network of the SDK, as far as we look at it."""

    attrs: dict[str, Any] = field(default_factory=dict)


def first(taken: list[str], count: int = 1) -> list[str]:
    return [str(n) for n in islice(subnet.free(map(IPv4Network, taken)), count)]


@pytest.mark.parametrize(
    ("taken", "expected"),
    [
        ([], "198.18.0.0/24"),
        (["198.18.0.0/24"], "198.18.1.0/24"),
        (["198.18.1.0/24"], "198.18.0.0/24"),
        (["198.18.0.128/25"], "198.18.1.0/24"),  # half of one is taken
        (["198.18.0.0/22"], "198.18.4.0/24"),  # a larger one lies over four
        (["198.18.0.5/32"], "198.18.1.0/24"),  # one host
        (["198.18.0.0/16"], "198.19.0.0/24"),
        (["192.168.0.0/16", "10.0.0.0/8"], "198.18.0.0/24"),
    ],
)
def test_the_lowest_free_one(taken: list[str], expected: str) -> None:
    assert first(taken) == [expected]


@pytest.mark.parametrize("taken", ["198.18.0.0/15", "198.0.0.0/8"])
def test_none_is_left(taken: str) -> None:
    assert first([taken]) == []


def test_the_pool_has_512() -> None:
    everything = first([], 1000)
    assert len(set(everything)) == 512
    assert everything[-1] == "198.19.255.0/24"


def test_networks_of_docker() -> None:
    networks = [
        Network({"IPAM": {"Config": [{"Subnet": "172.17.0.0/16", "Gateway": "172.17.0.1"}]}}),
        Network({"IPAM": {"Config": [{"Subnet": "198.18.3.0/24"}, {"Subnet": "fd00::/64"}]}}),
        Network({"IPAM": {"Config": None}}),  # host, none
        Network({"IPAM": {"Config": [{}]}}),
        Network(),
    ]
    assert list(map(str, subnet.of_networks(networks))) == ["172.17.0.0/16", "198.18.3.0/24"]


def test_a_network_of_others_may_have_bits_of_a_host() -> None:
    """Docker before 25 accepts them in somebody's Compose file."""
    network = Network({"IPAM": {"Config": [{"Subnet": "172.20.0.1/16"}]}})
    assert list(map(str, subnet.of_networks([network]))) == ["172.20.0.0/16"]


def test_routes_of_a_host() -> None:
    """The default route would overlap with every subnet: it is left out."""
    found = subnet.of_routes((ROUTES / "host.txt").read_text())
    assert list(map(str, found)) == ["172.17.0.0/16", "192.0.2.0/24"]


def test_routes_of_a_host_with_a_vpn_in_the_pool() -> None:
    found = subnet.of_routes((ROUTES / "vpn.txt").read_text())
    assert IPv4Network("198.18.0.0/16") in found
    assert first([str(net) for net in found]) == ["198.19.0.0/24"]


def test_a_vpn_that_takes_all_traffic() -> None:
    """`0.0.0.0/1` and `128.0.0.0/1` are a default route in two halves, not a use of the pool."""
    found = subnet.of_routes((ROUTES / "halves.txt").read_text())
    assert first([str(net) for net in found]) == ["198.18.0.0/24"]


def test_the_routes_of_this_host_can_be_read() -> None:
    assert all(net.prefixlen for net in subnet.host_routes())
    assert subnet.host_routes() == subnet.of_routes(Path("/proc/net/route").read_text())
