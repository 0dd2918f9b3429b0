"""time-wait: nginx closes its connections to PHP-FPM first, and each keeps a port for a minute.

Ports come back a minute after their use, as quickly as an earlier load has used them up. So a load
can be quick for some seconds although there are too few ports. It cannot stay quick for more
requests than there are ports. Therefore the load is longer than that, and its slowest part counts.
"""

from dataclasses import dataclass
from math import ceil

from faultlab.engine.stack import Stack
from faultlab.lab.asks import php
from faultlab.lab.check import Check, Evidence
from faultlab.lab.limits import at_least
from faultlab.lab.measures import delay, made, rate
from faultlab.probes import fpm, nstat, sockets, wrk

PAGE = "http://web/index.php"
REUSED = "TcpExtTWRecycled"
MORE = 1.3  # requests for each port
PARTS = 8  # at most, of two seconds each; more for more ports
QUIT = 0.1  # times the quickest part


@dataclass(frozen=True)
class Inspection:
    """The ports of web: how many are in TIME-WAIT towards PHP-FPM, and how many there are."""

    waiting: int
    ports: int
    reused: int  # ports in TIME-WAIT that connect() used again, since boot


def look(stack: Stack) -> fpm.Look:
    """Let two hundred users send more requests than there are ports; return the slowest part."""
    ports, parts = sockets.read(stack.sidecar("web")).ports, list[wrk.Load]()
    pool = stack.sidecar("php-fpm")
    before = fpm.work(pool)
    _load(stack, 1)  # new workers are slower
    while len(parts) < PARTS * ceil(ports / 28_232) and _good(parts) < MORE * ports:
        parts.append(_load(stack, 2))
        if parts[-1].good_per_second < QUIT * max(part.good_per_second for part in parts):
            break  # it is slow now, which is the answer
    made = fpm.work(pool).share(before, _good(parts))
    return fpm.Look(min(parts, key=lambda part: part.good_per_second), made)


def _load(stack: Stack, seconds: int) -> wrk.Load:
    users = stack.pace.connections(200)
    return wrk.load(stack.user(), PAGE, connections=users, seconds=stack.pace.seconds(seconds))


def _good(parts: list[wrk.Load]) -> int:
    """Return the number of requests that succeeded."""
    return sum(part.good for part in parts)


def inspect(stack: Stack) -> Inspection:
    """Count the ports, and how often one was used again."""
    web = stack.sidecar("web")
    reused = nstat.read(web, [REUSED])[REUSED]
    return Inspection(sockets.time_wait(web, 9000), sockets.read(web).ports, reused)


def lost(before: Inspection, after: Inspection) -> float:
    """Return the percentage of ports in TIME-WAIT, or 0 when one of them was used again."""
    return 100 * after.waiting / after.ports if after.reused == before.reused else 0


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        rate("good requests", "load.good_per_second", good=0.5, bad=0.2).says(
            "About as many pages arrive as before.", "Far fewer pages arrive than before."
        ),
        delay("median latency", "load.p50", good=2.5, bad=5).says(
            "Responses come about as quickly as before.", "Responses take far longer than before."
        ),
        made(),
    ),
    evidence=(
        # connect() first tries every second port, and gets slow when all of these are taken.
        Evidence("ports in TIME_WAIT, not used again", lost, at_least(50), unit="%").seen(
            "web", "ss -Htan state time-wait dport = :9000 | wc -l"
        ),
    ),
    asks=php(),
)
