"""time-wait: nginx closes its connections to PHP-FPM first, and each keeps a port for a minute."""

from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.check import Check, Measure, Sign
from faultlab.lab.limits import at_least, at_least_times, at_most_times
from faultlab.probes import nstat, ss, wrk

PAGE = "http://web/index.php"
REUSED = "TcpExtTWRecycled"


@dataclass(frozen=True)
class Look:
    """Two hundred users of a page that PHP makes, who have been there for some seconds."""

    load: wrk.Load


@dataclass(frozen=True)
class Watch:
    """The ports of web that are kept by closed connections to PHP-FPM, of all that there are.

    `reused`: how many such ports connect() took all the same, since boot.
    """

    waiting: int
    ports: int
    reused: int


def look(at: Stack) -> Look:
    """Two seconds of load, after as many as it takes to use up the ports."""
    client, users = at["client"], at.pace.connections(200)
    wrk.load(client, PAGE, connections=users, seconds=at.pace.seconds(6))
    return Look(wrk.load(client, PAGE, connections=users, seconds=at.pace.seconds(2)))


def watch(at: Stack) -> Watch:
    """Count them."""
    web = at["web"]
    reused = nstat.read(web, [REUSED])[REUSED]
    return Watch(ss.time_wait(web, 9000), ss.local_ports(web), reused)


def lost(before: Watch, after: Watch) -> float:
    """Ports in TIME_WAIT in percent of all, as long as none of them is used again."""
    return 100 * after.waiting / after.ports if after.reused == before.reused else 0


CHECK = Check(
    look=look,
    watch=watch,
    symptom=(
        Measure(
            "good requests",
            lambda r: r.load.good_per_second,
            at_least_times(0.5),
            at_most_times(0.2),
            "/s",
        ),
        Measure("median latency", lambda r: r.load.p50, at_most_times(2.5), at_least_times(5), "s"),
    ),
    evidence=(
        Sign(
            "ports in TIME_WAIT, not used again",
            lost,
            at_least(50),  # connect() tries every second port first, and begins to search after
            at="web",
            command="ss -Htan state time-wait dport = :9000 | wc -l",
            unit="%",
        ),
    ),
)
