"""port-range: nginx has 51 local ports for its connections to PHP-FPM."""

from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.check import Check, Measure, Sign
from faultlab.lab.limits import at_least, at_least_times, at_most, at_most_times
from faultlab.probes import log, wrk


@dataclass(frozen=True)
class Look:
    """A thousand users of a page that PHP makes."""

    load: wrk.Load


@dataclass(frozen=True)
class Watch:
    """The complaints of nginx that no port was free."""

    no_address: int


def look(at: Stack) -> Look:
    """A second of load over kept-alive connections."""
    return Look(
        wrk.load(
            at["client"],
            "http://web/index.php",
            connections=at.pace.connections(1000),
            seconds=at.pace.seconds(1),
        )
    )


def watch(at: Stack) -> Watch:
    """Count the log lines."""
    return Watch(log.count(at["web"], log.NGINX_ERROR, "(99: Cannot assign requested address)"))


CHECK = Check(
    look=look,
    watch=watch,
    symptom=(
        Measure(
            "requests that fail", lambda r: 100 * r.load.failed_share, at_most(1), at_least(40), "%"
        ),
        Measure(
            "good requests",
            lambda r: r.load.good_per_second,
            at_least_times(0.5),
            at_most_times(0.34),
            "/s",
        ),
    ),
    evidence=(
        Sign(
            "nginx finds no local address",
            lambda before, after: after.no_address - before.no_address,
            at_least(100),
            at="web",
            command="grep -c '(99: Cannot assign requested address)' /var/log/nginx/error.log",
            unit="lines",
        ),
    ),
)
