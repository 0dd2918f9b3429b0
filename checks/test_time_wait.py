"""time-wait: nginx closes its connections to PHP-FPM first, and each keeps a port for a minute."""

from dataclasses import dataclass
from math import ceil

from faultlab.engine.stack import Stack
from faultlab.lab.asks import php
from faultlab.lab.check import Check, Evidence
from faultlab.lab.limits import at_least
from faultlab.lab.measures import delay, rate
from faultlab.probes import nstat, sockets, wrk

PAGE = "http://web/index.php"
REUSED = "TcpExtTWRecycled"


@dataclass(frozen=True)
class Inspection:
    """The ports of web: how many are in TIME-WAIT towards PHP-FPM, and how many there are."""

    waiting: int
    ports: int
    reused: int  # ports in TIME-WAIT that connect() used again, since boot


def look(stack: Stack) -> wrk.Look:
    """Measure two seconds of two hundred users, after a load that uses up the ports."""
    client, users = stack.user(), stack.pace.connections(200)
    usual = sockets.read(stack["web"]).ports / 28_232  # twice the ports last twice as long
    wrk.load(client, PAGE, connections=users, seconds=stack.pace.seconds(6) * ceil(usual))
    return wrk.Look(wrk.load(client, PAGE, connections=users, seconds=stack.pace.seconds(2)))


def inspect(stack: Stack) -> Inspection:
    """Count the ports, and how often one was used again."""
    web = stack["web"]
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
            "A page takes about as long as before.", "A page takes far longer than before."
        ),
    ),
    evidence=(
        # connect() first tries every second port, and gets slow when all of these are taken.
        Evidence("ports in TIME_WAIT, not used again", lost, at_least(50), unit="%").seen(
            "web", "ss -Htan state time-wait dport = :9000 | wc -l"
        ),
    ),
    asks=php(),
)
