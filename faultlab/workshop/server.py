"""Server: serves the site of a class until Ctrl-C or the end of the class."""

import asyncio
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

from faultlab.core.terminal import Terminal
from faultlab.workshop import access, address, connections
from faultlab.workshop.access import TRAINER, Keys
from faultlab.workshop.address import At
from faultlab.workshop.export import ClassId
from faultlab.workshop.folder import Folder
from faultlab.workshop.guard import Guard
from faultlab.workshop.journal import Event
from faultlab.workshop.roster import Roster
from faultlab.workshop.session import Session, in_one_line
from faultlab.workshop.site import Site


def serve(
    term: Terminal, session: Session, folder: Folder, names: Sequence[str], **at: Unpack[At]
) -> None:
    """Serve the pages of a session, and print their addresses. Raises BadInput, CannotRun."""
    plan, roster = session.plan, session.roster
    listen, cert, key = at["listen"], at["cert"], at["key"]
    secure = bool(cert) or not address.loopback(listen)
    hosts = address.hosts(listen, names)
    own = secure and not cert
    if own:
        cert, key = map(str, access.certificate(folder.path, hosts))
    if cert and key:
        access.usable(cert, key)
    keys = Keys(folder.keys, session.journal.now)
    keys.make([TRAINER, *(seat.number for seat in roster.seats)], plan.hours)
    with address.listening(listen, at["port"]) as line:
        session.note(Event.OPENED, alive=folder.last_alive())
        url = address.url(listen, hosts, line.getsockname()[1], secure)
        site = Site(session, keys, Guard(session, keys, hosts, secure), folder.alive)
        server = connections.Server(
            *(site.app(), len(plan.seats), cert, key),
            lambda: term.json(welcome(term, roster, keys, url, cert if own else None)),
            ends=site.close,
        )
        with suppress(KeyboardInterrupt):
            asyncio.run(_serve(server, line, session, folder.end))


async def _serve(
    server: connections.Server, line: socket.socket, session: Session, sign: Path
) -> None:
    ending = asyncio.create_task(_end_when_told(session, sign, server.stop))
    await server.serve(sockets=[line])
    ending.cancel()


async def _end_when_told(session: Session, sign: Path, done: Callable[[], None]) -> None:
    """End the class once the file exists that says so."""
    while not sign.exists():
        await asyncio.sleep(0.5)
    sign.unlink()
    try:
        await session.end()
    except Exception as error:
        print(f"faultlab: {in_one_line(error)}", file=sys.stderr)
    finally:
        done()


@dataclass(frozen=True)
class Opened:
    """The links of a class, for the trainer only."""

    class_: ClassId
    url: str
    trainer: str
    seats: dict[str, str]


def welcome(term: Terminal, roster: Roster, keys: Keys, url: str, cert: str | None) -> Opened:
    """Print and return all links, for the trainer only."""
    plan = roster.plan
    term.heading(f"{plan.title}: {len(plan.seats)} seats")
    links = {seat.name: f"{url}/join?token={keys.token(seat.number)}" for seat in roster.seats}
    trainer = f"{url}/join?token={keys.token(TRAINER)}"
    term.say("You, the trainer:")
    term.command(trainer)
    for name, link in links.items():
        term.say(f"{name}:")
        term.command(link)
    if cert:
        term.say("The certificate is self-signed. Browsers must show this SHA-256:")
        digest = access.fingerprint(Path(cert))
        term.say(f"  {digest[:48]}")
        term.say(f"  {digest[48:]}")
    term.say("Ctrl-C stops the pages. The same command continues the class.")
    return Opened(plan.id, url, trainer, links)
