"""Probe: every interface of a machine with its queue, by ip and tc. Source: ip-link(8), tc(8)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from faultlab.engine.shell import Shell

COMMAND = "ip -json -statistics link show && tc -json -s qdisc show"


@dataclass(frozen=True)
class Link:
    """Counters in bytes and packets since the machine started.

    `lost`: dropped by the interface or damaged; `queue_lost`: dropped by its root qdisc, in which
    `waiting` packets are now. `rate`: bits a second where the qdisc limits it (tbf), else None.
    """

    name: str
    received: int
    sent: int
    lost: int
    qdisc: str
    queue_lost: int
    waiting: int
    rate: float | None


def read(machine: Shell) -> list[Link]:
    """Read them now."""
    return parse(machine.must(COMMAND))


def parse(out: str) -> list[Link]:
    """Read ip's JSON, then tc's; what is down or a tunnel's template has no counters."""
    decoder = json.JSONDecoder()
    links, end = decoder.raw_decode(out.lstrip())
    queues, _ = decoder.raw_decode(out.lstrip()[end:].lstrip())
    roots = {queue["dev"]: queue for queue in queues if queue.get("root")}
    return [_link(link, roots.get(link["ifname"], {})) for link in links if "UP" in link["flags"]]


def _link(link: dict[str, Any], root: dict[str, Any]) -> Link:
    rx, tx = link["stats64"]["rx"], link["stats64"]["tx"]
    rate = root.get("options", {}).get("rate")
    return Link(
        name=link["ifname"],
        received=rx["bytes"],
        sent=tx["bytes"],
        lost=sum(way[key] for way in (rx, tx) for key in ("dropped", "errors")),
        qdisc=root.get("kind", "none"),
        queue_lost=root.get("drops", 0),
        waiting=root.get("qlen", 0),
        rate=8 * rate if rate else None,
    )
