"""Abilities: the kernel features that a lab can require, each with a command that tries it.

The command runs as root in a disposable machine. Exit code 0 means that the kernel can do it.
"""

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

ALWAYS = {"net-sysctl"}  # each machine of a stack has it, but a bare container does not
