"""bandwidth: what leaves memcached's machine is shaped to 200 Mbit/s."""

import time
from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.asks import said
from faultlab.lab.check import Check, Evidence
from faultlab.lab.limits import at_least, at_most
from faultlab.lab.measures import failing, grows, rate, steady
from faultlab.probes import cgroup, interface, memcaslap
from faultlab.run.contract import Contract
from faultlab.run.phase import FAULTY
from faultlab.run.readings import Measured

# Connections: the fewest and the most of the source (docs/sources.md).
CROWDS = (16, 768)
STORED = r"set asked 0 60 5\r\nhello\r\nget asked\r\nquit\r\n"


@dataclass(frozen=True)
class Point:
    """The rate of so many connections, and how busy the link out of cache and memcached were.

    Both are in percent of what the link, and all CPUs of cache, can do in the seconds of the load.
    Packets in the queue at the end are sent, too, so a full link can have sent a little more.
    """

    connections: int
    operations_per_second: float
    link_used_percent: float
    cpu_used_percent: float


@dataclass(frozen=True)
class Look:
    """Loads of more and more connections. Half of their operations are sets.

    `smallest`: the bytes of the smallest object that shop servers store.
    """

    sweep: list[Point]
    crowds: list[memcaslap.Load]
    smallest: int = 1024

    @property
    def best(self) -> float:
        """Operations a second, at the number of connections with the most."""
        return max(point.operations_per_second for point in self.sweep)

    @property
    def link_used_percent(self) -> float:
        """Percent of the link's rate that was sent, in the load that sent the most."""
        return max(point.link_used_percent for point in self.sweep)

    @property
    def failed_share(self) -> float:
        """Share of the operations that fail, in the load where most fail."""
        return max(load.failed_share for load in self.crowds)

    @property
    def gets(self) -> float:
        """Share of the operations that fetch something, in percent."""
        return 100 * max(load.gets for load in self.crowds)

    @property
    def bytes_an_operation(self) -> float:
        """Bytes of an object and its key."""
        return max(load.bytes_an_operation for load in self.crowds)


@dataclass(frozen=True)
class Inspection:
    """The counters of link, CPUs and queue so far; `at`: seconds of the clock."""

    at: float
    link: interface.Link
    cpu: cgroup.Cpu
    root: interface.Qdisc


def come(stack: Stack, connections: int) -> tuple[Point, memcaslap.Load]:
    """Make load for a second, and read the counters of link and CPU before and after."""
    cache, daemon = stack.sidecar("cache"), stack.sidecar("memcached")
    seconds, config = stack.pace.seconds(1), configured(stack)
    link_before, cpu_before = interface.read(cache).link, cgroup.read(daemon).time
    load = memcaslap.load(stack.user(), "cache", config, connections=connections, seconds=seconds)
    link_after, cpu_after = interface.read(cache).link, cgroup.read(daemon).time
    point = Point(
        connections=connections,
        operations_per_second=load.operations_per_second,
        link_used_percent=link_after.used_percent_since(link_before, seconds),
        cpu_used_percent=cpu_after.busy_percent_since(cpu_before, seconds),
    )
    return point, load


def look(stack: Stack) -> Look:
    """Measure each load."""
    found = [come(stack, connections) for connections in CROWDS]
    smallest = memcaslap.smallest(configured(stack))
    return Look([point for point, _ in found], [load for _, load in found], smallest)


def configured(stack: Stack) -> str:
    """Return the text of the file by which shop servers store objects."""
    client = stack.sidecar("client")
    return client.must(f"cat {client.root}{memcaslap.CONFIG}")


def inspect(stack: Stack) -> Inspection:
    """Read the counters."""
    eth0 = interface.read(stack.sidecar("cache"))
    memcached = cgroup.read(stack.sidecar("memcached"))
    return Inspection(time.time(), eth0.link, memcached.time, eth0.qdisc)


def link_used(before: Inspection, after: Inspection) -> float:
    """Return percent of the link's rate; for half of a look there is no load yet."""
    return after.link.used_percent_since(before.link, after.at - before.at)


def link_per_cpu(before: Inspection, after: Inspection) -> float:
    """Return how many times as busy as the CPUs the link was."""
    busy = after.cpu.busy_percent_since(before.cpu, after.at - before.at)
    return link_used(before, after) / max(busy, 0.01)


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        rate("operations, best of 16 and 768 connections", "best", good=0.5, bad=0.33).says(
            "The cache does about as many operations as before.",
            "The cache does far fewer operations than before.",
        ),
        failing("operations", "failed_share").says(
            "Hardly any operation fails.", "Some operations fail."
        ),
        # More than the rate is sent for as long as a bucket lasts. Small ones are in order.
        steady("sent in a load, of the link's rate", "link_used_percent", at_most(200), "%").says(
            "The cache can go on like this.", "The cache can go on like this for moments only."
        ),
        steady("gets, of all operations", "gets", at_least(45), "%").says(
            "Shop servers fetch as many objects as they store.",
            "Shop servers fetch too few of the stored objects.",
        ),
        steady("an object and its key", "bytes_an_operation", at_least(100), "bytes").says(
            "An object holds what a page needs.", "An object is too small for a page."
        ),
        steady("the smallest object", "smallest", at_least(100), "bytes").says(
            "No object is smaller than a page needs.", "Some objects are too small for a page."
        ),
    ),
    evidence=(
        Evidence(
            "link out of cache, of its rate, over the whole look", link_used, at_least(25), unit="%"
        ).seen("cache", "sar -n DEV 1 1; tc qdisc show dev eth0"),
        Evidence(
            "the link is busier than memcached's processors", link_per_cpu, at_least(2), unit="x"
        ).seen("cache", "pidstat -C memcached 1 1"),
        grows("packets that had to wait for the link", "root.overlimits", at_least(1000)).seen(
            "cache", "tc -s qdisc show dev eth0"
        ),
    ),
    asks=(said("the cache", f"printf '{STORED}' | nc -w 3 cache 11211"),),
)


class TestBandwidth(Contract):
    """The tests of every lab, and the plateau of the source."""

    def test_more_connections_do_not_help(self, run: Measured) -> None:
        """From 16 to 768 connections operations hardly grow, the link is full, the CPU is idle."""
        sweep: list[Point] = run.reading(FAULTY).look.sweep
        assert sweep[-1].operations_per_second <= 1.3 * sweep[0].operations_per_second
        assert [p.connections for p in sweep if p.link_used_percent < 90] == []
        assert [p.connections for p in sweep if p.cpu_used_percent > 50] == []
