"""port-range: nginx has 51 local ports for its connections to PHP-FPM."""

from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.asks import php
from faultlab.lab.check import Check
from faultlab.lab.limits import at_least
from faultlab.lab.measures import grows, made, rate, share
from faultlab.probes import fpm, log, wrk

COMPLAINT = "(99: Cannot assign requested address)"


@dataclass(frozen=True)
class Inspection:
    """How often nginx has logged that no local port was free."""

    no_address: int


def look(stack: Stack) -> fpm.Look:
    """Let a thousand users ask for a page of PHP for a second, over connections that stay open."""
    users, seconds = stack.pace.connections(stack.dice.randint(1050, 1250)), stack.pace.seconds(1)
    pool = stack.sidecar("php-fpm")
    before = fpm.work(pool)
    load = wrk.load(stack.user(), "http://web/index.php", connections=users, seconds=seconds)
    return fpm.Look(load, fpm.work(pool).share(before, load.good))


def inspect(stack: Stack) -> Inspection:
    """Count these lines of the log."""
    return Inspection(log.count(stack.sidecar("web"), log.NGINX_ERROR, COMPLAINT))


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        share("requests that fail", "load.failed_share", good=1, bad=40).says(
            "Hardly any request fails.", "Some requests fail."
        ),
        rate("good requests", "load.good_per_second", good=0.5, bad=0.34).says(
            "About as many pages come as before.", "Far fewer pages come than before."
        ),
        made(),
    ),
    evidence=(
        grows("nginx finds no local address", "no_address", at_least(100), "lines").seen(
            "web", f"grep -c '{COMPLAINT}' {log.NGINX_ERROR}"
        ),
    ),
    asks=php(),
)
