"""Probe: visitors who return over TLS, by openssl. Sources: openssl-s_time(1), -s_client(1).

Each visit uses a new connection and offers the session of the visit before. s_time needs a page to
read (`-www`): in TLS 1.3 the session comes after the handshake, with the page.
"""

import re
from dataclasses import dataclass
from typing import Literal

from faultlab.core.errors import CannotRun
from faultlab.engine.shell import Shell

Version = Literal["tls1_2", "tls1_3"]


@dataclass(frozen=True)
class Visits:
    """The visits of these visitors; `resumed` of the `visits` needed no full handshake.

    `gave_up`: visitors who could not connect and left.
    """

    seconds: float
    visits: int
    resumed: int
    gave_up: int

    @property
    def per_second(self) -> float:
        """Return the visits per second that got their page."""
        return self.visits / self.seconds

    @property
    def resumed_share(self) -> float:
        """Return the share of the visits that resumed their session; 0 without a visit."""
        return self.resumed / self.visits if self.visits else 0.0


def visits(machine: Shell, host: str, version: Version, *, visitors: int, seconds: int) -> Visits:
    """Make visits repeatedly; s_time ends with the first full second after `seconds`."""
    command = (
        "cd $(mktemp -d) && start=$(date +%s.%N); "
        f"for visitor in $(seq {visitors}); do timeout {seconds + 10} openssl s_time"
        f" -connect {host}:443 -{version} -www / -reuse -time {seconds} >$visitor 2>/dev/null & "
        "done; wait; echo clock $start $(date +%s.%N); cat [0-9]*; rm -rf $PWD"
    )
    return parse(machine.must(command, timeout=seconds + 30), visitors)


def parse(out: str, visitors: int) -> Visits:
    """Parse the clock, and each visitor's line of letters (`r` is resumed) and count."""
    clock = re.search(r"^clock ([\d.]+) ([\d.]+)$", out, re.MULTILINE)
    if not clock:
        raise CannotRun(f"openssl s_time gave no result: {(out.splitlines() or ['nothing'])[-1]}")
    counts = [int(n) for n in re.findall(r"^(\d+) connections in [\d.]+s;", out, re.MULTILINE)]
    letters = "".join(re.findall(r"^[rt*]+$", out, re.MULTILINE))
    return Visits(
        seconds=float(clock[2]) - float(clock[1]),
        visits=sum(counts),
        resumed=letters.count("r"),
        gave_up=visitors - len(counts),
    )


# The sessions of some users, of both versions; nginx gives one of TLS 1.3 with the page.
_SAY = r"printf 'GET / HTTP/1.0\r\n\r\n' | timeout 10 openssl s_client -ign_eof -connect"


def begin(machine: Shell, host: str, *, users: int) -> str:
    """Let so many users of each version visit, and return the folder with their sessions."""
    each = f"{_SAY} {host}:443 -$v -sess_out $v-$n >/dev/null 2>&1 &"
    command = (
        f"cd $(mktemp -d) && for v in tls1_2 tls1_3; do for n in $(seq {users}); do {each} done; "
        "done; wait; pwd"
    )
    return machine.must(command, timeout=40).strip()


def resumed(machine: Shell, host: str, folder: str) -> int:
    """Let the users of these sessions come back, and return how many need no full handshake."""
    each = f"{_SAY} {host}:443 -${{f%-*}} -sess_in $f 2>/dev/null | grep -c '^Reused, ' >$f.now &"
    command = f"cd {folder} && for f in tls*; do {each} done; wait; cat *.now; rm -r {folder}"
    return sum(map(int, machine.run(command, timeout=40).out.split()))


def lifetime(machine: Shell, host: str) -> int:
    """Return for how many seconds a session is good, as the server says; 0 if it says nothing.

    It says so to a client with TLS 1.3 that reads a page, also if it will not resume the session.
    """
    command = (
        r"printf 'GET / HTTP/1.0\r\n\r\n' | "
        f"timeout 10 openssl s_client -connect {host}:443 -tls1_3 -ign_eof 2>&1"
    )
    return parse_lifetime(machine.run(command, timeout=20).out)


def parse_lifetime(out: str) -> int:
    """Return the shortest lifetime of the sessions that s_client got."""
    hints = re.findall(r"lifetime hint: (\d+) \(seconds\)", out)
    return min(map(int, hints), default=0)


def reused(machine: Shell, host: str) -> int:
    """Count how many of five reconnects reuse the session.

    This is for TLS 1.2 only, because s_client waits for no session of TLS 1.3.
    """
    command = f"timeout 10 openssl s_client -connect {host}:443 -tls1_2 -reconnect </dev/null 2>&1"
    return parse_reused(machine.run(command, timeout=20).out)


def parse_reused(out: str) -> int:
    """Count the lines `Reused, TLSv1.2, …`. Raises CannotRun if there was no handshake."""
    handshakes = re.findall(r"^(New|Reused), TLS", out, re.MULTILINE)
    if not handshakes:
        raise CannotRun(f"openssl s_client: {(out.splitlines() or ['nothing'])[0]}")
    return handshakes.count("Reused")
