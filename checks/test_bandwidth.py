"""bandwidth: the way out of memcached's machine is shaped to 100 Mbit/s."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from faultlab.check import Check, Measure, Sign, at_least, at_least_times, at_most, at_most_times
from faultlab.contract import Contract
from faultlab.probes import cpu, link, memcaslap, qdisc
from faultlab.run import FAULTY, Run
from faultlab.stack import Stack

CROWDS = (16, 64, 256, 768)  # connections, as in the document of origin


@dataclass(frozen=True)
class Point:
    """What so many connections achieved, and how busy link and memcached were meanwhile.

    `link_percent`: of the rate of the way out; `cpu_percent`: of all processors of cache.
    """

    connections: int
    operations_per_second: float
    failed_percent: float
    p50_seconds: float
    p99_seconds: float
    link_percent: float
    cpu_percent: float


@dataclass(frozen=True)
class Look:
    """Crowds of more and more connections, half of whose operations are sets."""

    sweep: list[Point]

    @property
    def best(self) -> float:
        """Operations a second, at whatever number of connections there were most."""
        return max(point.operations_per_second for point in self.sweep)


@dataclass(frozen=True)
class Watch:
    """One crowd with an engineer beside it, and the queue in front of the link."""

    crowd: Point
    root: qdisc.Qdisc

    @property
    def link_per_cpu(self) -> float:
        """How many times as busy as the processors the link is."""
        return self.crowd.link_percent / max(self.crowd.cpu_percent, 0.01)


def point(at: Stack, connections: int) -> Point:
    """Let a crowd come for two seconds, and read link and CPU twice while it is there."""
    seconds = at.pace.seconds(2)
    with ThreadPoolExecutor(1) as pool:
        crowd = pool.submit(
            memcaslap.load, at["client"], "cache", connections=connections, seconds=seconds
        )
        at["cache"].must(f"sleep {0.5 * seconds}")  # it makes its values first, and connects
        link_before, cpu_before = link.read(at["cache"]), cpu.read(at["memcached"])
        at["cache"].must(f"sleep {0.3 * seconds}")
        link_after, cpu_after = link.read(at["cache"]), cpu.read(at["memcached"])
        load = crowd.result()
    return Point(
        connections=connections,
        operations_per_second=load.operations_per_second,
        failed_percent=100 * load.failed_share,
        p50_seconds=load.p50,
        p99_seconds=load.p99,
        link_percent=link_after.used_percent_since(link_before),
        cpu_percent=cpu_after.busy_percent_since(cpu_before),
    )


def look(at: Stack) -> Look:
    """Measure each crowd."""
    return Look([point(at, connections) for connections in CROWDS])


def watch(at: Stack) -> Watch:
    """Stand beside a crowd of 64, and read what the queue has counted until then."""
    return Watch(point(at, 64), qdisc.read(at["cache"]))


FEW = at_most(1)  # whoever is served is served well

CHECK = Check(
    look=look,
    watch=watch,
    symptom=(
        Measure(
            "operations, best of 16 to 768 connections",
            lambda r: r.best,
            at_least_times(0.5),
            at_most_times(0.33),
            "/s",
        ),
        Measure(
            "operations that fail",
            lambda r: max(point.failed_percent for point in r.sweep),
            FEW,
            FEW,
            "%",
        ),
    ),
    evidence=(
        Sign(
            "link out of cache, of its rate",
            lambda before, after: after.crowd.link_percent,
            at_least(90),
            at="cache",
            command="sar -n DEV 1 1; tc qdisc show dev eth0",
            unit="%",
        ),
        Sign(
            "the link is busier than memcached's processors",
            lambda before, after: after.link_per_cpu,
            at_least(2),
            at="cache",
            command="pidstat -C memcached 1 1",
            unit="x",
        ),
        Sign(
            "packets that had to wait for the link",
            lambda before, after: after.root.overlimits - before.root.overlimits,
            at_least(1000),
            at="cache",
            command="tc -s qdisc show dev eth0",
        ),
    ),
)


class TestBandwidth(Contract):
    """The contract of every lab, with the limits above; and the plateau of the origin."""

    def test_more_connections_do_not_help(self, run: Run) -> None:
        """From 16 to 768 connections operations hardly grow, the link is full, the CPU is idle."""
        sweep: list[Point] = run.reading(FAULTY).look.sweep
        assert sweep[-1].operations_per_second <= 1.3 * sweep[0].operations_per_second
        for crowd in sweep:
            assert crowd.link_percent >= 90, f"{crowd.connections} connections do not fill the link"
            assert crowd.cpu_percent <= 50, f"{crowd.connections} connections keep the CPU busy"
