"""scale-out: of two machines with a tenth of a CPU each, one does all the work."""

from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.check import Check, Measure, Sign
from faultlab.lab.limits import at_least, at_least_times, at_most, at_most_times
from faultlab.probes import cgroup, wrk


@dataclass(frozen=True)
class Look:
    """A partner that books tables, eight orders at a time; of two times the better one.

    A worker that its quota stops in the middle of an order holds locks, and everybody waits for it:
    seconds side by side differ.
    """

    load: wrk.Load


@dataclass(frozen=True)
class Watch:
    """The processor time that PHP has used on web and on web-2."""

    web: cgroup.Cgroup
    web_2: cgroup.Cgroup


def look(at: Stack) -> Look:
    """Orders for a second, two times: eight at a time keep both machines full, on any host.

    A second before warms the workers up: with its first order each connects to the database.
    """
    _orders(at, 1)
    loads = [_orders(at, 1) for _ in range(2)]
    return Look(max(loads, key=lambda load: load.good_per_second))


def _orders(at: Stack, seconds: int) -> wrk.Load:
    return wrk.bookings(at["client"], connections=8, seconds=at.pace.seconds(seconds))


def watch(at: Stack) -> Watch:
    """Read the counters of both containers."""
    return Watch(cgroup.read(at["php-fpm"]), cgroup.read(at["php-fpm-2"]))


def on_web(before: Watch, after: Watch) -> float:
    """The part of PHP's processor time that it spent on web, in percent."""
    web, web_2 = after.web.cpu - before.web.cpu, after.web_2.cpu - before.web_2.cpu
    return 100 * web / (web + web_2) if web + web_2 else 0.0


STEADY = at_most(1)

CHECK = Check(
    look=look,
    watch=watch,
    symptom=(
        Measure(
            "bookings",
            lambda r: r.load.good_per_second,
            at_least_times(0.78),
            at_most_times(0.62),
            "/s",
        ),
        Measure("requests that fail", lambda r: 100 * r.load.failed_share, STEADY, STEADY, "%"),
    ),
    evidence=(
        Sign(
            "processor time of PHP that is spent on web, of both machines",
            on_web,
            at_least(80),
            at="php-fpm",
            command="grep -s . /sys/fs/cgroup/cpu/cpuacct.usage /sys/fs/cgroup/cpu.stat",
            unit="%",
        ),
    ),
)
