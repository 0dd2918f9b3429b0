"""Probe: PHP-FPM's own status page. Source: PHP manual, "FPM Status Page"."""

from dataclasses import dataclass
from typing import Any

from faultlab.engine.shell import Shell, json_of
from faultlab.probes import wrk

SECONDS = 5  # without a response in this time, no worker was free


def _asking(query: str, socket: str) -> str:
    """Return the command that asks for the status page, by FastCGI without nginx."""
    return (
        f"SCRIPT_NAME=/status SCRIPT_FILENAME=/status QUERY_STRING={query} REQUEST_METHOD=GET"
        f" timeout {SECONDS} cgi-fcgi -bind -connect {socket}"
    )


# Of the pool itself, because nginx can be stuck or have no local port left.
COMMAND = _asking("json", "$(sed -n 's/^listen = //p' /etc/php/*/fpm/pool.d/www.conf)")
# The status page has a socket of its own, which takes no port and no worker.
_OWN_SOCKET = "/run/php/status.sock"
WORK = _asking("'json&full'", _OWN_SOCKET)
# The folder of the socket is shared with the machine, so another program can listen there. The
# kernel says which process does: it must be in the control groups of the daemon.
_NOT_THE_DAEMON = 3
_OWNED = f"""python3 - {{0}} {{1}} <<'_end_' || exit
import socket, struct, sys
one = socket.socket(socket.AF_UNIX)
one.connect(sys.argv[1])
peer = one.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
pid = struct.unpack("3i", peer)[0]
its, wanted = f"/proc/{{{{pid}}}}/cgroup", sys.argv[2].removesuffix("root") + "cgroup"
if open(its).read() != open(wanted).read():
    sys.exit({_NOT_THE_DAEMON})
_end_
"""


@dataclass(frozen=True)
class Look:
    """A load of users who ask for pages of PHP, and the share of the good ones that it made."""

    load: wrk.Load
    made: float


@dataclass(frozen=True)
class Work:
    """The connections that PHP-FPM has accepted, and the requests of the workers that are there."""

    accepted: int
    requests: int

    def share(self, before: "Work", pages: int) -> float:
        """Return the share of these pages that PHP-FPM has worked on since `before`, 0 to 1.

        One connection can bring many requests, and a worker that is replaced takes its count along.
        """
        done = max(self.accepted - before.accepted, self.requests - before.requests)
        return min(1.0, done / pages) if pages else 1.0


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
    """Read the status page from beside the daemon, even if no worker is free."""
    return parse(daemon.must(_asking("json", daemon.root + _OWN_SOCKET)))


def work(daemon: Shell) -> Work:
    """Read from beside the daemon how much the pool has done; another program has done nothing."""
    socket = daemon.root + _OWN_SOCKET
    done = daemon.run(_OWNED.format(socket, daemon.root) + _asking("'json&full'", socket))
    if done.code == _NOT_THE_DAEMON:
        return Work(0, 0)
    return parse_work(done.out)


def parse_work(out: str) -> Work:
    """Parse the JSON of the full status page. Raises CannotRun for anything else."""
    facts = _facts(out)
    return Work(facts["accepted conn"], sum(each["requests"] for each in facts["processes"]))


def _facts(out: str) -> dict[str, Any]:
    """Parse the JSON that follows the headers. Raises CannotRun for anything else."""
    facts: dict[str, Any] = json_of(out[max(0, out.find("{")) :], "PHP-FPM")
    return facts


def parse(out: str) -> Status:
    """Parse the JSON of the status page. Raises CannotRun for anything else."""
    facts = _facts(out)
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
