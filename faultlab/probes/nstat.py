"""Probe: the kernel's network counters of a machine, by nstat. Source: nstat(8)."""

import json
from collections.abc import Sequence

from faultlab.engine.shell import Shell

COMMAND = "nstat -j -saz"


def read(machine: Shell, names: Sequence[str]) -> dict[str, int]:
    """Return values since the machine started, by name (`TcpExtListenOverflows`, …).

    A counter that this kernel does not have is 0.
    """
    counters = parse(machine.must(COMMAND))
    return {name: counters.get(name, 0) for name in names}


def parse(out: str) -> dict[str, int]:
    """Parse nstat's JSON."""
    counters: dict[str, int] = json.loads(out)["kernel"]
    return counters
