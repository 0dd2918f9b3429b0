"""Probe: PHP-FPM's own status page. Source: PHP manual, "FPM Status Page"."""

from __future__ import annotations

import json
from dataclasses import dataclass

from faultlab.core.errors import CannotRun
from faultlab.engine.shell import Shell

FASTCGI_SECONDS = 5  # without an answer in that time no worker was free

# Over FastCGI itself: nginx may be the one that is stuck, or have no local port left.
FASTCGI = (
    "SCRIPT_NAME=/status SCRIPT_FILENAME=/status QUERY_STRING=json REQUEST_METHOD=GET"
    f" timeout {FASTCGI_SECONDS} cgi-fcgi -bind"
    " -connect $(sed -n 's/^listen = //p' /etc/php/*/fpm/pool.d/www.conf)"
)


@dataclass(frozen=True)
class Status:
    """A pool since PHP-FPM was started.

    `max_children_reached`: how often a dynamic pool could not grow any more; a static one, which
    never grows, says 0. `max_listen_queue`: the most connections that waited to be accepted.
    """

    mode: str
    active: int
    idle: int
    listen_queue: int
    max_listen_queue: int
    max_children_reached: int
    slow_requests: int


def status(machine: Shell) -> Status:
    """Read the status page on the machine itself; it waits in the queue like any other page."""
    return parse(machine.must("curl -sS --max-time 20 'http://127.0.0.1/status?json'"))


def parse(out: str) -> Status:
    """Read its JSON. Raises CannotRun for anything else."""
    try:
        facts = json.loads(out)
    except ValueError as error:
        raise CannotRun(f"PHP-FPM gave no status: {out[:60]!r}") from error
    return Status(
        mode=facts["process manager"],
        active=facts["active processes"],
        idle=facts["idle processes"],
        listen_queue=facts["listen queue"],
        max_listen_queue=facts["max listen queue"],
        max_children_reached=facts["max children reached"],
        slow_requests=facts["slow requests"],
    )


def parse_fastcgi(out: str) -> Status:
    """Read the same behind the headers, as FASTCGI in the daemon's own container prints it."""
    return parse(out[out.find("{") :])
