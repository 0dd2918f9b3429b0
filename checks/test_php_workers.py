"""php-workers: PHP-FPM has five workers for a page that waits 50 ms."""

from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.check import Check, Measure, Sign
from faultlab.lab.limits import at_least, at_least_times, at_most, at_most_times
from faultlab.probes import fpm, log, wrk


@dataclass(frozen=True)
class Look:
    """Two hundred guests who ask for a table."""

    load: wrk.Load


@dataclass(frozen=True)
class Watch:
    """PHP-FPM's complaints about its pool, and the pool's status."""

    complaints: int
    status: fpm.Status


def look(at: Stack) -> Look:
    """Four seconds of load, for the pool complains late; a guest waits for one second."""
    return Look(
        wrk.load(at["client"], "http://web/availability.php", connections=200, seconds=4, timeout=1)
    )


def watch(at: Stack) -> Watch:
    """Read its log and its status page."""
    return Watch(
        log.count(at["web"], log.PHP_FPM, "reached pm.max_children"), fpm.status(at["web"])
    )


CHECK = Check(
    look=look,
    watch=watch,
    symptom=(
        Measure(
            "answered requests",
            lambda r: r.load.good_per_second,
            at_least_times(0.7),
            at_most_times(0.33),
            "/s",
        ),
        Measure(
            "guests who wait over a second",
            lambda r: 100 * r.load.failed_share,
            at_most(2),
            at_least(15),
            "%",
        ),
    ),
    evidence=(
        Sign(
            "the log says that the pool is full",
            lambda before, after: after.complaints - before.complaints,
            at_least(1),
            at="web",
            command="grep 'reached pm.max_children' /var/log/php/fpm.log",
            unit="lines",
        ),
        Sign(
            "times that the pool was full",
            lambda before, after: after.status.max_children_reached,
            at_least(1),
            at="web",
            command="curl -s http://127.0.0.1/status",
        ),
    ),
)
