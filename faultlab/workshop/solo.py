"""Solo: the page of one learner, a class with one seat whose stacks are the learner's own."""

import asyncio
import getpass
import os
import socket
import webbrowser
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import HTTPConnection

from faultlab.core import lock, naming, paths, scratch
from faultlab.core.defaults import LOOPBACK
from faultlab.core.terminal import Terminal
from faultlab.lab import curriculum
from faultlab.learn import progress
from faultlab.workshop import address, connections
from faultlab.workshop.access import Keys, Visitor
from faultlab.workshop.guard import Guard
from faultlab.workshop.journal import Journal
from faultlab.workshop.plan import ClassPlan
from faultlab.workshop.roster import Roster
from faultlab.workshop.site import Site
from faultlab.workshop.solo_session import OwnStacks, SoloSession, last_up

_ME = Visitor(1)  # at the only seat
_SOCKETS = {socket.AF_INET: Path("/proc/net/tcp"), socket.AF_INET6: Path("/proc/net/tcp6")}
_ESTABLISHED = "01"


@dataclass(frozen=True)
class Served:
    """The address of the page."""

    url: str


def learner(connection: HTTPConnection) -> Visitor | None:
    """Return the learner, when the other end of a connection is a socket of theirs.

    So the programs of one user alone are let in, and no token has to be copied.
    """
    client, server = connection.client, connection.scope.get("server")
    return _ME if client and server and owner(client, server) == os.getuid() else None


End = tuple[str, int]  # an address and a port


def owner(here: End, there: End) -> int | None:
    """Return the id of the user of the socket `here` of a TCP connection on this machine.

    Another user's socket can have the same address and port, with another end `there`. One that
    was closed, and has no inode, is of no user: the kernel lists it as root's.
    Source: proc(5), /proc/net/tcp.
    """
    family = socket.AF_INET6 if ":" in here[0] else socket.AF_INET
    wanted = [_as_listed(family, *end) for end in (here, there)]
    for line in _SOCKETS[family].read_text().splitlines()[1:]:
        _, local, remote, state, _, _, _, user, _, inode, *_ = line.split()
        if [local, remote] == wanted and state == _ESTABLISHED and inode != "0":
            return int(user)
    return None


def _as_listed(family: int, address: str, port: int) -> str:
    """Return an end of a connection as the kernel lists it: each 32 bits in its byte order."""
    packed = socket.inet_pton(family, address)
    words = [packed[i : i + 4][::-1] for i in range(0, len(packed), 4)]
    return f"{b''.join(words).hex().upper()}:{port:04X}"


def serve(term: Terminal, port: int) -> Served:
    """Serve the page on loopback until Ctrl-C, or tell where it is up. Raises Held, CannotRun."""
    name = f"{naming.prefix()}page"
    note = lock.folder() / f"{name}.url"
    try:
        with lock.hold(name, "page"):
            note.unlink(missing_ok=True)  # of one that was killed
            return _serve(term, port, note)
    except lock.Held:
        if not note.exists():  # it has only just begun, or is about to end
            raise
        told = Served(note.read_text())
        term.json(told)
        term.say("Your page is up already:")
        term.command(told.url)
        return told


def _serve(term: Terminal, port: int, note: Path) -> Served:
    """Serve the page. `note`: a file for its address."""
    every = curriculum.labs_in_order()
    first = (progress.following(every, progress.so_far(every).labs) or every[0]).code
    me = [getpass.getuser()]
    plan = ClassPlan(id="page", title="faultlab", seats=me, labs=[first], blind=False, later=0)
    hosts = address.hosts(LOOPBACK, [])
    with (
        scratch.folder("faultlab-page-") as here,
        scratch.noted(note),
        address.listening(LOOPBACK, port) as line,
    ):
        journal = Journal(here / "events.jsonl")
        session = SoloSession(plan, Roster(plan, [[first]]), journal, OwnStacks(plan))
        session.last = last_up()
        keys = Keys(here / "keys.json")
        guard = Guard(session, keys, hosts, secure=False, who=learner)
        site = Site(session, keys, guard, here / "alive")
        told = Served(address.url(LOOPBACK, hosts, line.getsockname()[1], secure=False))
        paths.write_whole(note, told.url)
        server = connections.Server(
            *(site.app(), 1, None, None), lambda: _say(term, told), ends=site.close
        )
        with suppress(KeyboardInterrupt):
            asyncio.run(server.serve(sockets=[line]))
        seat = session.roster.seat(_ME.number)
        if seat.turn.state not in ("waiting", "failed"):
            name = session.lab(seat.turn).alias
            term.say(f"{name} is still up. To remove it: make down-{name}")
    return told


def _say(term: Terminal, told: Served) -> None:
    term.json(told)
    term.say("Your page, for your own programs on this machine:")
    term.command(told.url)
    term.say("Ctrl-C stops it; a lab that is up stays up.")
    if os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        webbrowser.open(told.url)
