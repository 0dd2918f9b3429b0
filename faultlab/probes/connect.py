"""Probe: how quickly a user's kernel opens connections, many times. Source: connect(2).

The connections are those of any program, with all its TCP options. A SYN or SYN-ACK that is lost is
sent again a second later, so it shows as a late connection. They come from all addresses that the
users have.
"""

import json
from dataclasses import dataclass

from faultlab.core.errors import CannotRun
from faultlab.engine.shell import Shell

_LATE = 500.0  # milliseconds; the kernel first repeats a SYN or SYN-ACK after 1,000
_WAIT = 1.3  # seconds for the last one
# Prints the milliseconds until each connection was open; one that was refused or never opened has
# none.
_OPEN = """import json, selectors, socket, subprocess, sys, time
shown = subprocess.run("ip -4 -o addr show dev eth0".split(), capture_output=True, text=True).stdout
own = [line.split()[3].split("/")[0] for line in shown.splitlines()]
host, port, count, gap = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
where = socket.getaddrinfo(host, port, socket.AF_INET, socket.SOCK_STREAM)[0][4]
waiting, took, began, last, sent = selectors.DefaultSelector(), [], time.monotonic(), 0, 0
while sent < count or (waiting.get_map() and time.monotonic() < last + WAIT):
    if sent < count and time.monotonic() >= began + sent * gap:
        one = socket.socket()
        one.setblocking(False)
        one.bind((own[sent % len(own)], 0))
        last, sent = time.monotonic(), sent + 1
        one.connect_ex(where)
        waiting.register(one, selectors.EVENT_WRITE, last)
    for key, _ in waiting.select(0.001):
        waiting.unregister(key.fileobj)
        if not key.fileobj.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            took.append(1000 * (time.monotonic() - key.data))
        key.fileobj.close()
print(json.dumps([round(each, 3) for each in took]))
"""


@dataclass(frozen=True)
class Handshakes:
    """Connections that were tried, how many opened at once (under 500 ms) or late, times in ms.

    The 95th percentile is used and not the maximum. Even in a healthy stack a SYN-ACK rarely
    arrives only with its retransmission (2 of about 5,000 seen).
    """

    sent: int
    prompt: int
    late: int
    rtt_median: float
    rtt_p95: float

    @property
    def first_try_loss(self) -> float:
        """Return the share of connections that did not open at once, 0 to 1."""
        return (self.sent - self.prompt) / self.sent

    @property
    def unanswered(self) -> int:
        """Return the number of connections that did not open."""
        return self.sent - self.prompt - self.late


def tried(user: Shell, host: str, port: int = 80, count: int = 5, gap: float = 0.1) -> Handshakes:
    """Open `count` connections, `gap` seconds apart, and close them. Raises CannotRun."""
    return parse(user.must(command(host, port, count, gap), timeout=count * gap + 20), count)


def command(host: str, port: int, count: int, gap: float) -> str:
    """Return the command that opens the connections and prints their times."""
    script = _OPEN.replace("WAIT", str(_WAIT))
    return f"python3 - {host} {port} {count} {gap:g} <<'_end_'\n{script}_end_"


def parse(out: str, sent: int) -> Handshakes:
    """Parse the times in milliseconds. Raises CannotRun for anything else."""
    try:
        times = sorted(float(each) for each in json.loads(out))
    except (ValueError, TypeError) as error:
        raise CannotRun(f"No times of connections: {out[:60]!r}") from error
    prompt = sum(each < _LATE for each in times)
    return Handshakes(
        sent=sent,
        prompt=prompt,
        late=len(times) - prompt,
        rtt_median=times[len(times) // 2] if times else 0.0,
        rtt_p95=times[int(0.95 * len(times))] if times else 0.0,
    )
