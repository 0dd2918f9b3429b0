"""scale-out: PHP has a twentieth of a CPU, and stands still for a part of every 100 ms."""

from dataclasses import dataclass

from faultlab.check import Check, Measure, Sign, at_least, at_least_times, at_most, at_most_times
from faultlab.contract import Contract
from faultlab.probes import cgroup, wrk
from faultlab.stack import Stack


@dataclass(frozen=True)
class Look:
    """A partner that books one table after the other."""

    load: wrk.Load


@dataclass(frozen=True)
class Watch:
    """The CPU quota of PHP on web."""

    php: cgroup.Cgroup


def look(at: Stack) -> Look:
    """Four seconds of orders. One at a time: so its speed is that of the stack, on any machine.

    A second before warms the workers up: with its first order each connects to the database.
    """
    _orders(at, 1)
    return Look(_orders(at, 4))


def _orders(at: Stack, seconds: int) -> wrk.Load:
    return wrk.load(
        at["client"],
        "http://web",
        connections=1,
        seconds=at.pace.seconds(seconds),
        timeout=10,
        script="booking",
    )


def watch(at: Stack) -> Watch:
    """Read the counters of its container."""
    return Watch(cgroup.read(at["php-fpm"]))


STEADY = at_most(1)

CHECK = Check(
    look=look,
    watch=watch,
    symptom=(
        Measure(
            "bookings",
            lambda r: r.load.good_per_second,
            at_least_times(0.65),
            at_most_times(0.38),
            "/s",
        ),
        Measure("p99 of a booking", lambda r: r.load.p99, at_most_times(4), at_least_times(6), "s"),
        Measure("requests that fail", lambda r: 100 * r.load.failed_share, STEADY, STEADY, "%"),
    ),
    evidence=(
        Sign(
            "periods in which PHP stands still",
            lambda before, after: after.php.throttled_percent_since(before.php),
            at_least(50),
            at="php-fpm",
            command="cat /sys/fs/cgroup/cpu/cpu.stat 2>/dev/null || cat /sys/fs/cgroup/cpu.stat",
            unit="%",
        ),
    ),
)


class TestScaleOut(Contract):
    """The contract of every lab, with the limits above."""
