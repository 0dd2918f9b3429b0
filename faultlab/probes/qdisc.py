"""Probe: the queueing discipline at the root of an interface, by tc. Source: tc(8), `-json -s`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from faultlab.engine.shell import Shell


@dataclass(frozen=True)
class Qdisc:
    """Kind of the root qdisc (`noqueue`, `netem`, `tbf`, …); counters in packets.

    `bytes` sent; `backlog`: bytes that wait now; `rate` of a tbf in bits a second, else 0.
    """

    kind: str
    sent: int
    dropped: int
    overlimits: int
    bytes: int
    backlog: int
    rate: int


def read(machine: Shell, device: str = "eth0") -> Qdisc:
    """Read the root qdisc."""
    return parse(machine.must(f"tc -json -s qdisc show dev {device}"))


def parse(out: str) -> Qdisc:
    """Read tc's JSON; an interface without any qdisc is `none`."""
    root: dict[str, Any] = next((q for q in json.loads(out or "[]") if q.get("root")), {})
    return Qdisc(
        kind=root.get("kind", "none"),
        sent=root.get("packets", 0),
        dropped=root.get("drops", 0),
        overlimits=root.get("overlimits", 0),
        bytes=root.get("bytes", 0),
        backlog=root.get("backlog", 0),
        rate=8 * root.get("options", {}).get("rate", 0),
    )
