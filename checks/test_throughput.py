"""throughput: five faults, each of which hides the next.

1. A full connection table drops the packets of new users.
2. Five PHP workers serve two dozen guests.
3. A queue of ten overflows, and users send their SYN again.
4. 51 ports are too few for a crowd.
5. Closed connections hold all ports for a minute.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from faultlab.engine.shell import Shell
from faultlab.engine.stack import Stack
from faultlab.lab.asks import php, tables
from faultlab.lab.check import Check, Evidence, Measure
from faultlab.lab.limits import at_least, at_least_times, at_most, at_most_times, exactly
from faultlab.lab.measures import delay, ends, grows, rate, share, steady
from faultlab.probes import ab, conntrack, log, nstat, sockets, wrk
from faultlab.run.contract import Contract
from faultlab.run.phase import FAULTY, HEALTHY
from faultlab.run.readings import Measured

MAX = 200
OVERFLOWS = "TcpExtListenOverflows"
REUSED = "TcpExtTWRecycled"
GUESTS = 24  # as many as the healthy pool has workers
DAILY = 100  # new visitors a second, says the ticket
MANY = 1_000_000
PATIENCE = 60  # seconds that a guest waits
CROWD = 200
VISITS = 3000
NOBODY = wrk.Load(1.0, 0, 0, 0, 0, 0.0, 0.0, 0.0)  # when no user of the crowd got in
# Connections in TIME-WAIT are removed; where the kernel cannot do that, they end within a minute.
_SETTLED = f"""ss -K state time-wait >/dev/null 2>&1; timeout 70 bash -c '
while (($({sockets.TIME_WAIT.format(9000)}) > 10)); do sleep 1; done'"""


@dataclass(frozen=True)
class Look:
    """Visits to the start page; guests who ask for a table; a crowd; a load that goes on.

    `peak`: the most connections that web tracked meanwhile; `forbidden`: ports that connect() can
    choose and the firewall does not allow; `lasting`: visitors a second that can come for hours.
    """

    visits: ab.Visits
    peak: int
    guests: ab.Visits
    crowd: ab.Visits
    load: wrk.Load
    forbidden: int = 0
    lasting: float = MANY


@dataclass(frozen=True)
class Inspection:
    """What the kernel and PHP-FPM logged, and the counters, queues and ports of web."""

    full: int
    workers: int
    counters: dict[str, int]
    listeners: list[sockets.Listener]
    ports: int
    waiting: int


def look(stack: Stack) -> Look:
    """Use ab and the address, as in conntrack: a connection for each request, and no DNS query.

    It begins when the ports of the look before are free again. The page of a guest waits for 3 s,
    so that rounds of the pool weigh more than a SYN that is sent again after a second. The number
    of visits is limited, and the load keeps its connections. For web keeps at most 8,192 closed
    ones (tcp_max_tw_buckets). After too many visits it would keep none of those to PHP-FPM.
    """
    client, web = stack.user(), stack.sidecar("web")
    web.run(_SETTLED, timeout=90)
    url = f"http://{stack['web'].link[0]}"
    seconds = stack.pace.seconds(3)
    with ThreadPoolExecutor() as pool:
        peak = pool.submit(conntrack.peak, web, seconds)
        visits = ab.visits(client, f"{url}/", visitors=400, seconds=seconds, most=VISITS)
    lasting = min(MANY, conntrack.lasting(web, visits.requests))
    asked = f"{url}/availability.php?restaurants=60"
    guests = ab.visits(client, asked, visitors=GUESTS, seconds=PATIENCE, most=GUESTS)
    page = f"{url}/index.php"
    crowd = ab.visits(client, page, visitors=50, seconds=stack.pace.seconds(5), most=CROWD)
    if not crowd.requests:  # wrk would wait up to two minutes for its first connection
        return Look(visits, peak.result(), guests, crowd, NOBODY, forbidden(web), lasting)
    wrk.load(client, page, connections=200, seconds=stack.pace.seconds(6))
    load = wrk.load(client, page, connections=200, seconds=stack.pace.seconds(2))
    return Look(visits, peak.result(), guests, crowd, load, forbidden(web), lasting)


def forbidden(web: Shell) -> int:
    """Count the local ports of web outside of the range that the ticket names."""
    low, high = map(int, web.must("cat /proc/sys/net/ipv4/ip_local_port_range").split())
    return max(0, min(high + 1, 20_000) - low) + max(0, high - max(low - 1, 24_095))


def inspect(stack: Stack) -> Inspection:
    """Read logs, counters and sockets."""
    web = stack.sidecar("web")
    now = sockets.read(web)
    return Inspection(
        full=log.kernel_count(stack.shell("kernel"), conntrack.FULL),
        workers=log.count(web, log.PHP_FPM, "reached pm.max_children"),
        counters=nstat.read(web, [OVERFLOWS, REUSED]),
        listeners=now.listeners,
        ports=now.ports,
        waiting=sockets.time_wait(web, 9000),
    )


def lost(before: Inspection, after: Inspection) -> float:
    """Return the percentage of ports in TIME-WAIT, or 0 when one of them was used again."""
    reused = after.counters[REUSED] - before.counters[REUSED]
    return 0 if reused else 100 * after.waiting / after.ports


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        Measure(
            f"visits answered, of {VISITS}",  # a rate would depend on the last repeated SYN
            lambda now: now.visits.requests - now.visits.failed,
            at_least_times(0.6),
            at_most_times(0.2),
            fault="table",
        ).says(
            "About as many visits are answered as before.",
            "Far fewer visits are answered than before.",
        ),
        Measure(
            "visitors a second that can come for hours",
            "lasting",
            at_least(DAILY),
            at_most(DAILY / 5),
            "/s",
            fault="table",
        ).says(
            "As many visitors as come each day can get in.",
            "Later visitors of the day cannot get in.",
        ),
        delay(
            f"{GUESTS} guests at once, the last one served after",
            lambda now: now.guests.max if now.guests.requests == GUESTS else PATIENCE,
            good=2.2,
            bad=3.5,
            fault="pool",
        ).says(
            "Guests who come at once are served about as fast as before.",
            "The last of the guests who come at once is served far later than before.",
        ),
        share(
            "visits that take over three times as long as the usual one",
            "visits.late_share",
            good=2,
            bad=5,
            fault="queue",
        ).says(
            "Almost all visits take about as long as the usual one.",
            "Some visits take far longer than the usual one.",
        ),
        share(
            "visits of a crowd that fail",
            lambda now: 1 - (now.crowd.requests - now.crowd.failed) / CROWD,
            good=1,
            bad=30,
            fault="ports",
        ).says("Almost no visit of a crowd fails.", "Some visits of a crowd fail."),
        rate(
            "good requests after seconds of load",
            "load.good_per_second",
            good=0.3,
            bad=0.1,
            fault="time-wait",
        ).says(
            "After seconds of load about as many pages arrive as before.",
            "After seconds of load far fewer pages arrive than before.",
        ),
        steady("ports that the firewall forbids", "forbidden", exactly(0)).says(
            "Web connects only from ports that its firewall allows.",
            "Web connects from ports that its firewall does not allow.",
        ),
    ),
    evidence=(
        grows(
            "the kernel's log says that the table is full",
            "full",
            at_least(1),
            "lines",
            fault="table",
        ).seen("kernel", f"dmesg | grep -c '{conntrack.FULL}'"),
        grows(
            "the log says that the pool is full", "workers", at_least(1), "lines", fault="pool"
        ).seen("web", "grep 'reached pm.max_children' /var/log/php/fpm.log"),
        grows(
            "accept queues overflow",
            lambda now: now.counters[OVERFLOWS],
            at_least(100),
            fault="queue",
        ).seen("web", f"nstat -az {OVERFLOWS}"),
        ends(
            "backlog of port 80",
            lambda now: sockets.backlog(now.listeners, 80),
            at_most(10),
            fault="queue",
        ).seen("web", "ss -ltn"),
        ends("ports that connect() may choose from", "ports", at_most(100), fault="ports").seen(
            "web", "sysctl net.ipv4.ip_local_port_range"
        ),
        Evidence(
            "ports in TIME_WAIT, not used again", lost, at_least(50), unit="%", fault="time-wait"
        ).seen("web", "ss -Htan state time-wait dport = :9000 | wc -l"),
    ),
    asks=(*php(), *tables()),
)


class TestThroughput(Contract):
    """The tests that every lab has, stage by stage, and one for the table."""

    def test_the_table_is_full_and_never_fuller(self, run: Measured) -> None:
        """With the fault the count stays within the limit; without it, the count goes far above."""
        assert run.reading(FAULTY).look.peak <= MAX
        assert run.reading(HEALTHY).look.peak > MAX
