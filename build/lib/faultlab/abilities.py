"""Abilities: what a lab can require of a kernel, each with the command that tries it.

The command runs as root in a machine that is thrown away; it can do it when the exit code is 0.
"""

from __future__ import annotations

from collections.abc import Sequence

from faultlab.engine import Engine, Shell

ABILITIES: dict[str, str] = {
    "net-sysctl": "sysctl -w net.core.somaxconn=4096",
    "iptables-statistic": (
        "iptables -A INPUT -m statistic --mode random --probability 0.5 -p sctp -j DROP"
    ),
    "iptables-hashlimit": (
        "iptables -A INPUT -p sctp -m hashlimit"
        " --hashlimit-name try --hashlimit-above 1/second -j DROP"
    ),
    "netem": "tc qdisc add dev lo root netem loss 1%",
    "tbf": "tc qdisc add dev lo root tbf rate 100mbit burst 64kb latency 50ms",
}

ALWAYS = {"net-sysctl"}  # every machine of a stack has it, a bare container has not


def missing(machine: Shell) -> dict[str, str]:
    """The abilities that the machine's kernel lacks, each with what the kernel said."""
    lacking = {}
    for name, command in ABILITIES.items():
        done = machine.run(command, timeout=10)
        if done.code != 0:
            said = (done.err or done.out).strip().splitlines()
            lacking[name] = said[-1] if said else f"exit code {done.code}"
        machine.run("tc qdisc del dev lo root", timeout=10)
    return lacking


def lacking(engine: Engine, image: str, names: Sequence[str], stack: str) -> list[str]:
    """Those of `names` that the engine's kernel lacks, tried in one container without a network."""
    script = "ip link set lo up\n" + "".join(
        f"({ABILITIES[name]}) >/dev/null 2>&1 || echo lacks {name}\n"
        "tc qdisc del dev lo root 2>/dev/null || true\n"
        for name in names
        if name not in ALWAYS
    )
    said = engine.helper(image, script, stack, cap_add=["NET_ADMIN"])
    return [line.split()[1] for line in said.splitlines() if line.startswith("lacks ")]
