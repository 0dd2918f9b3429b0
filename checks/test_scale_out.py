"""scale-out: two machines have 0.1 CPU each, and one of them does all the work."""

from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.asks import booking
from faultlab.lab.check import Check, Evidence
from faultlab.lab.limits import at_least
from faultlab.lab.measures import failing, kept, rate
from faultlab.probes import cgroup, wrk


@dataclass(frozen=True)
class Inspection:
    """The CPU time that PHP has used on web and on web-2."""

    web: cgroup.Cgroup
    web_2: cgroup.Cgroup


def look(stack: Stack) -> wrk.Booked:
    """A partner that books tables, eight orders at a time: enough to use up both quotas anywhere.

    A worker that is throttled in the middle of an order holds locks, and all others wait for it.
    So one second differs from the next. Two seconds differ less, and the better result counts.
    """
    return wrk.booked(stack.user(), connections=8, seconds=stack.pace.seconds(2))


def inspect(stack: Stack) -> Inspection:
    """Read the counters of both containers."""
    return Inspection(
        cgroup.read(stack.sidecar("php-fpm")), cgroup.read(stack.sidecar("php-fpm-2"))
    )


def on_web(before: Inspection, after: Inspection) -> float:
    """The share of PHP's CPU time that it spent on web, in percent."""
    web, web_2 = after.web.cpu - before.web.cpu, after.web_2.cpu - before.web_2.cpu
    return 100 * web / (web + web_2) if web + web_2 else 0.0


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        kept(),
        rate("bookings", "load.good_per_second", good=0.78, bad=0.62).says(
            "Partners get about as many bookings through as before.",
            "Partners get fewer bookings through than before.",
        ),
        failing("requests").says("Hardly any booking fails.", "Some bookings fail."),
    ),
    evidence=(
        Evidence(
            "processor time of PHP that is spent on web, of both machines",
            on_web,
            at_least(80),
            unit="%",
        ).seen("php-fpm", "grep -s . /sys/fs/cgroup/cpu/cpuacct.usage /sys/fs/cgroup/cpu.stat"),
    ),
    asks=booking(seconds=20),
)
