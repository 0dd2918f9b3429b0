"""Script: what each learner does and which plugs are pulled, from a seed and the piece's number."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

# What a learner does in each state of their lab, and how often.
ACTS: Mapping[str, Mapping[str, int]] = {
    "red": {
        **{"type": 40, "reload": 16, "terminals": 8, "break": 5, "check": 3, "guess": 3},
        **{"repair": 5, "hint": 2, "restart": 2, "limit": 1, "give up": 1, "wait": 5},
    },
    "amber": {"type": 10, "reload": 10, "terminals": 3, "answer": 10, "wait": 5},
    "green": {"type": 5, "reload": 5, "answer": 10, "next": 10},
    "over": {"type": 3, "reload": 5, "next": 10},
    "failed": {"reload": 5, "restore": 10},
}
ELSE: Mapping[str, int] = {"reload": 1, "wait": 3}  # while a lab starts
PAUSES = (2.0, 18.0)  # seconds between two acts: a person reads between them

# What learners type to look around, and what they type to break their machines.
LOOKS = (
    *("ls -la /", "ss -tan | head", "ip -s link", "curl -m 2 -s http://web/ | wc -c", "ps ax"),
    *("dmesg | tail", "cat /proc/meminfo", "nstat -az | head -40", "history", "top -b -n 1"),
)
BREAKS = (
    "iptables -A INPUT -p tcp --dport 80 -j DROP",
    "ip link set dev eth0 down",
    "kill -9 -1",
    "rm -rf /var/www/html",
    "echo nonsense > /etc/resolv.conf",
    "for i in $(seq 300); do sleep 60 & done",
    "timeout 20 yes",
    "timeout 20 sh -c 'while :; do :; done'",
    "dd if=/dev/zero of=/big bs=1M count=400",  # more than a seat may have
    "head -c 30000000 /dev/urandom | base64",
    "sysctl -w net.ipv4.tcp_fin_timeout=1 net.core.somaxconn=1",
    "ip route add default dev eth0",
)

# The plugs that do nothing to the host, and those that do.
OWN = ("kill", "stop", "clock of the server", "disk of the server")
HOSTS = ("docker", "clock")
ENDS = ("kill", "stop")  # those after which another server goes on
LASTS = {"clock of the server": 40.0, "disk of the server": 30.0, "clock": 40.0}
APART = 300.0  # seconds between two plugs, on average
QUIET = 45.0  # seconds at the beginning of a piece, and between two plugs, at least


@dataclass(frozen=True)
class Act:
    """One thing that a learner does, `after` so many seconds; `dice` decides the rest of it."""

    after: float
    name: str
    dice: random.Random


@dataclass(frozen=True)
class Plug:
    """A plug: the second of the piece at which it is pulled, and for how long."""

    at: float
    name: str
    lasts: float = 0.0


class Learner:
    """The script of one seat in one piece. What comes next depends on the state of its lab."""

    def __init__(self, seed: int, seat: int, piece: int) -> None:
        self.dice = random.Random(f"{seed} seat {seat} piece {piece}")

    def next(self, state: str) -> Act:
        """Return the next act of a learner whose lab is in this state."""
        weights = ACTS.get(state, ELSE)
        # As many draws in each state, so that a state that comes later changes little.
        after, roll, seed = self.dice.uniform(*PAUSES), self.dice.random(), self.dice.random()
        return Act(round(after, 2), _chosen(weights, roll), random.Random(seed))


def _chosen(weights: Mapping[str, int], roll: float) -> str:
    """Return the name at this part of the sum of all weights."""
    left = roll * sum(weights.values())
    for name, weight in weights.items():
        left -= weight
        if left < 0:
            return name
    return [*weights][-1]


def plugs(seed: int, piece: int, seconds: float, names: Sequence[str]) -> Iterator[Plug]:
    """Yield the plugs of a piece in their order; the last one leaves time to see what follows.

    In each second piece the server lives to its end, so that the growth of its memory can be seen.
    """
    dice = random.Random(f"{seed} plugs {piece}")
    names = [name for name in names if piece % 2 == 0 or name not in ENDS]
    at = QUIET
    while names:
        at += QUIET + dice.expovariate(1 / (APART - QUIET))
        name = dice.choice(names)
        lasts = LASTS.get(name, 0.0)
        if at + lasts + QUIET > seconds:
            return
        yield Plug(round(at, 1), name, lasts)
        at += lasts
