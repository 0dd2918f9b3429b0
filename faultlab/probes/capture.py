"""Probe: the maximum segment size that a server announces, seen by tcpdump. Source: tcpdump(8)."""

import re

from faultlab.engine.shell import Shell

_MSS = re.compile(r"mss (\d+)")


def announced_mss(machine: Shell, host: str) -> int:
    """Return the MSS in bytes in the server's SYN-ACK to one of our SYNs."""
    watch = f"src host {host} and src port 80 and tcp[tcpflags] == (tcp-syn|tcp-ack)"
    command = (
        f"timeout 3 tcpdump --immediate-mode -nn -i eth0 -c 1 '{watch}' 2>/dev/null & watcher=$!; "
        f"for i in $(seq 20); do nc -z -w 1 {host} 80; sleep 0.05; done >/dev/null 2>&1 & "
        "wait $watcher; kill $! 2>/dev/null; wait"
    )
    return parse_mss(machine.run(command).out)


def parse_mss(out: str) -> int:
    """Parse the option in tcpdump's line; 0 if no SYN-ACK arrived."""
    found = _MSS.search(out)
    return int(found[1]) if found else 0
