"""Probe: PHP-FPM's own status page. Source: PHP manual, "FPM Status Page"."""

from dataclasses import dataclass

from faultlab.engine.shell import Shell, json_of

SECONDS = 5  # without a response in this time, no worker was free

# By FastCGI directly, because nginx can be stuck or have no local port left.
COMMAND = (
    "SCRIPT_NAME=/status SCRIPT_FILENAME=/status QUERY_STRING=json REQUEST_METHOD=GET"
    f" timeout {SECONDS} cgi-fcgi -bind"
    " -connect $(sed -n 's/^listen = //p' /etc/php/*/fpm/pool.d/www.conf)"
)


@dataclass(frozen=True)
class Status:
    """The figures of a pool since PHP-FPM was started.

    `max_children_reached`: how often a dynamic pool could not grow; for a static pool, which never
    grows, it is 0. `max_listen_queue`: the most connections that waited to be accepted. `accepted`:
    those that were; 0 in records from before they were counted.
    """

    mode: str
    active: int
    idle: int
    listen_queue: int
    max_listen_queue: int
    max_children_reached: int
    slow_requests: int
    accepted: int = 0


def status(daemon: Shell) -> Status:
    """Read the status page in the daemon itself; it waits in the queue like any other page."""
    return parse(daemon.must(COMMAND))


def parse(out: str) -> Status:
    """Parse its JSON, which follows headers. Raises CannotRun for anything else."""
    facts = json_of(out[max(0, out.find("{")) :], "PHP-FPM")
    return Status(
        mode=facts["process manager"],
        active=facts["active processes"],
        idle=facts["idle processes"],
        listen_queue=facts["listen queue"],
        max_listen_queue=facts["max listen queue"],
        max_children_reached=facts["max children reached"],
        slow_requests=facts["slow requests"],
        accepted=facts["accepted conn"],
    )
