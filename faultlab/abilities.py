"""Abilities: what a lab can require of a kernel, each with the command that tries it.

The command runs as root in a machine that is thrown away; it can do it when the exit code is 0.
"""

from __future__ import annotations

from faultlab.engine import Shell

ABILITIES: dict[str, str] = {
    "net-sysctl": "sysctl -w net.core.somaxconn=4096",
    "iptables-statistic": (
        "iptables -A INPUT -m statistic --mode random --probability 0.5 -p sctp -j DROP"
    ),
    "netem": "tc qdisc add dev lo root netem loss 1%",
    "tbf": "tc qdisc add dev lo root tbf rate 100mbit burst 64kb latency 50ms",
}


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
