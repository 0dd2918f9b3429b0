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
    """The ports of web that are kept by closed connections to PHP-FPM, of all that there are."""

    waiting: int
    ports: int
    reused: int  # ports of closed connections that connect() took all the same, since boot


def look(stack: Stack) -> wrk.Look:
    """Two seconds of two hundred users, after as many as it takes to use up the ports."""
    client, users = stack.user(), stack.pace.connections(200)
    usual = sockets.read(stack["web"]).ports / 28_232  # twice the ports last twice as long
    wrk.load(client, PAGE, connections=users, seconds=stack.pace.seconds(6) * ceil(usual))
    return wrk.Look(wrk.load(client, PAGE, connections=users, seconds=stack.pace.seconds(2)))


def inspect(stack: Stack) -> Inspection:
    """Count them."""
    web = stack["web"]
    reused = nstat.read(web, [REUSED])[REUSED]
    return Inspection(sockets.time_wait(web, 9000), sockets.read(web).ports, reused)


def lost(before: Inspection, after: Inspection) -> float:
    """Ports in TIME_WAIT in percent of all, as long as none of them is used again."""
    return 100 * after.waiting / after.ports if after.reused == before.reused else 0


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        rate("good requests", "load.good_per_second", good=0.5, bad=0.2).says(
            "About as many pages come as before.", "Far fewer pages come than before."
        ),
        delay("median latency", "load.p50", good=2.5, bad=5).says(
            "A page comes about as quickly as before.", "A page takes far longer than before."
        ),
    ),
    evidence=(
        # connect() tries every second port first, and begins to search after.
        Evidence("ports in TIME_WAIT, not used again", lost, at_least(50), unit="%").seen(
            "web", "ss -Htan state time-wait dport = :9000 | wc -l"
        ),
    ),
    asks=php(),
)
