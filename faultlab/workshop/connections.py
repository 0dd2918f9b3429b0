"""Connections: how many there can be, and how long one can take to send a request or to read.

A request, with its head and its body, has a deadline: the first one of a connection and each later
one. So has a response that its client does not read, and a connection that ends. Where an address
or the server has as many connections as it can have, a new one takes the place of the one that has
waited longest without a request.
"""

from __future__ import annotations

import asyncio
import asyncio.constants
import ipaddress
import logging
import resource
import socket
import time
from collections import defaultdict, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from faultlab.workshop.tty import MOST_BYTES

# Connections of one address: a class behind one router has this many for each seat, and some more.
_FOR_A_SEAT, _MORE = 20, 100
_PATIENCE = 10.0  # seconds: for a request, for a response that is not read, for an end
_AT_ONCE = 16  # connections that are accepted before anything else happens
_NOT_TAKEN = 256 * 1024  # bytes of responses that can wait for a client that does not read them
_OWING = (h11.IDLE, h11.SEND_BODY)  # the states of a client that has not sent a whole request


@dataclass(eq=False)
class Line:
    """One connection, whatever protocol it has now."""

    address: str
    transport: asyncio.Transport
    deadline: float | None = None  # for its request, once a part of it or nothing has come
    full: float | None = None  # since when its client has not read
    ended: float | None = None  # since when it has been closing


class Places:
    """All connections of a server; each address can have half of them."""

    def __init__(self, most: int) -> None:
        """Prepare the places. `most`: connections of an address."""
        self.most = most
        self.in_all = 2 * most
        self.patience = _PATIENCE
        self.all: dict[Line, None] = {}
        self.of: defaultdict[str, set[Line]] = defaultdict(set)
        # Those that wait for a request, in the order in which they began to.
        self._waiting: dict[Line, None] = {}
        self._waiting_of: defaultdict[str, dict[Line, None]] = defaultdict(dict)
        # When those came whose TLS is not established yet. They have no place, and no `Line`.
        self._coming: defaultdict[str, deque[float]] = defaultdict(deque)

    def comes(self, address: str) -> bool:
        """Count a connection that has just come; return False if too many have not got further."""
        self._forget_those_that_came()
        mine = self._coming[address]
        if len(mine) >= self.most or sum(map(len, self._coming.values())) >= self.in_all:
            return False
        mine.append(time.monotonic())
        return True

    def enter(self, line: Line) -> bool:
        """Count a connection, perhaps in the place of another; return False if all are busy."""
        if coming := self._coming.get(line.address):
            coming.popleft()
        if len(self.of[line.address]) >= self.most:
            give_way = self._waiting_of[line.address]
        elif len(self.all) >= self.in_all:
            give_way = self._waiting
        else:
            give_way = {line: None}
        first = next(iter(give_way), None)
        if first is None:
            return False
        if first is not line:
            self.leave(first)
            first.transport.abort()
        self.all[line] = None
        self.of[line.address].add(line)
        return True

    def leave(self, line: Line) -> None:
        """Count a connection no longer."""
        self.all.pop(line, None)
        self.waits(line, False)
        self.of[line.address].discard(line)
        if not self.of[line.address]:
            del self.of[line.address]

    def waits(self, line: Line, waits: bool) -> None:
        """Note whether a connection waits for a request."""
        if waits and line in self.all:
            self._waiting.setdefault(line)
            self._waiting_of[line.address].setdefault(line)
        elif not waits:
            self._waiting.pop(line, None)
            self._waiting_of[line.address].pop(line, None)
            if not self._waiting_of[line.address]:
                del self._waiting_of[line.address]

    def watch(self, now: float) -> None:
        """End the connections whose time is up."""
        for line in list(self.all):
            if line.transport.is_closing():
                line.ended = line.ended or now
            for since in (line.ended, line.full):
                if since is not None and now - since > self.patience:
                    line.transport.abort()
            if line.deadline is not None and now > line.deadline:
                line.deadline = None
                line.transport.close()

    def _forget_those_that_came(self) -> None:
        """Forget the connections whose handshake asyncio has ended; each has had the same time."""
        for address, times in list(self._coming.items()):
            while times and time.monotonic() - times[0] >= self.patience:
                times.popleft()
            if not times:
                del self._coming[address]


class _Writing(asyncio.Protocol):
    """The part of a connection that notes since when its client has not read."""

    line: Line
    loop: asyncio.AbstractEventLoop

    def pause_writing(self) -> None:
        """Stop writing to a client that does not read."""
        super().pause_writing()
        self.line.full = self.loop.time()

    def resume_writing(self) -> None:
        """Go on writing."""
        super().resume_writing()
        self.line.full = None


class Connection(_Writing, H11Protocol):
    """An HTTP connection."""

    def __init__(self, places: Places, **facts: Any) -> None:
        super().__init__(**facts)
        self.places = places

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a place; drop the connection if all are busy."""
        super().connection_made(transport)
        self.line = Line(_network(transport.get_extra_info("peername")), transport)
        if self.places.enter(self.line):
            self._owes(True)
            self.line.deadline = self.loop.time() + self.places.patience
        else:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Give the place back."""
        self.places.leave(self.line)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read a part of a request, or several."""
        if self.line.deadline is None:
            self.line.deadline = self.loop.time() + self.places.patience
        super().data_received(data)

    def handle_events(self) -> None:
        """Go on with what has come."""
        super().handle_events()
        self._owes(self.conn.their_state in _OWING)

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._owes(self.conn.their_state in _OWING)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Hand the connection over, with its place."""
        super().handle_websocket_upgrade(event)
        self._owes(False)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no request, also in the middle of a response.

        The head of a request can have been handed over before its body turned out to be none.
        """
        try:
            super().send_400_response(msg)
        except h11.LocalProtocolError:
            self.transport.close()
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    def _owes(self, owes: bool) -> None:
        """Note whether the client has to send something before anything else happens."""
        self.places.waits(self.line, owes)
        if not owes:
            self.line.deadline = None


class Socket(_Writing, WebSocketsSansIOProtocol):
    """A WebSocket. uvicorn answers every ping, even if many answers wait; browsers send none."""

    places: Places

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take over the connection, with its place."""
        assert isinstance(transport, asyncio.Transport)
        before = transport.get_protocol()
        assert isinstance(before, Connection)
        self.line, self.places = before.line, before.places
        super().connection_made(transport)

    def handle_ping(self) -> None:
        """Answer, or drop a connection that does not read the answers."""
        super().handle_ping()
        if self.transport.get_write_buffer_size() > _NOT_TAKEN:
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Read messages, or a part of one, which has a deadline as a request has."""
        super().data_received(data)
        if not (self.conn.reader.buffer or self.frames):
            self.line.deadline = None
        elif self.line.deadline is None:
            self.line.deadline = self.loop.time() + self.places.patience

    def handle_parser_exception(self) -> None:
        """End a connection that sends no frames, also one that sends them before it is open."""
        if self.conn.close_sent is None:
            self.disconnected = self.handshake_complete = True
            self.transport.close()
        else:
            super().handle_parser_exception()

    async def send(self, message: Any) -> None:
        """Send an answer. One that refuses ends the handshake, which uvicorn takes for none."""
        await super().send(message)
        if self.close_sent or self.transport.is_closing():
            self.handshake_complete = True

    def connection_lost(self, exc: Exception | None) -> None:
        """Give the place back."""
        self.places.leave(self.line)
        super().connection_lost(exc)


class Gate(socket.socket):
    """A listening socket that drops what comes while too much of its address is not established."""

    def __init__(self, line: socket.socket, places: Places) -> None:
        super().__init__(line.family, line.type, line.proto, socket.dup(line.fileno()))
        self._places = places
        self._at_once = 0

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection. Raises ConnectionAbortedError for one too many.

        asyncio accepts all that wait before it looks at any. After a moment without CPU they are
        more than may come at once, and clients that ask would be dropped with those that do not.
        So it is sent on after a few, and comes back.
        """
        self._at_once = (self._at_once + 1) % _AT_ONCE
        if self._at_once == 0:
            raise BlockingIOError
        found, peer = super().accept()
        if self._places.comes(_network(peer)):
            return found, peer
        found.close()
        raise ConnectionAbortedError


class Server(uvicorn.Server):
    """A uvicorn server that reports when it can be reached, and watches its connections."""

    def __init__(
        self,
        app: Any,
        seats: int,
        cert: str | None,
        key: str | None,
        ready: Callable[[], None],
        *,
        ends: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare. `ready` is called when it can be reached, `ends` before it waits for the end of
        its connections.
        """
        self._ends = ends
        self.places = Places(_MORE + _FOR_A_SEAT * seats)
        super().__init__(_config(app, self.places, cert, key))
        self._ready = ready

    def stop(self) -> None:
        """Make it end soon."""
        self.should_exit = True

    async def startup(self, sockets: Any = None) -> None:
        """Begin to serve."""
        await super().startup([Gate(line, self.places) for line in sockets])
        self._ready()

    async def shutdown(self, sockets: Any = None) -> None:
        """End: first what would never end by itself, then the connections."""
        self._ends()
        await super().shutdown(sockets)

    async def on_tick(self, counter: int) -> bool:
        """Look after the connections; uvicorn calls it ten times a second."""
        self.places.watch(asyncio.get_running_loop().time())
        return await super().on_tick(counter)


def _network(peer: Any) -> str:
    """Return what one client can choose its addresses from: of IPv6, the first 64 bits."""
    address = str((peer or ("",))[0])
    with suppress(ValueError):
        found = ipaddress.IPv6Address(address.partition("%")[0])
        return address if found.ipv4_mapped else str(ipaddress.ip_network((found, 64), False))
    return address


def _matters(record: logging.LogRecord) -> bool:
    """Return whether a line of uvicorn's log is for people.

    Connections cut by Ctrl-C are not, with how many they were, and neither is text of a client that
    is not UTF-8.
    """
    if str(record.msg).startswith("Cancel "):
        return False
    kind = record.exc_info[0] if record.exc_info else None
    return not (kind and issubclass(kind, asyncio.CancelledError | UnicodeDecodeError))


def _config(app: Any, places: Places, cert: str | None, key: str | None) -> uvicorn.Config:
    """Return uvicorn's configuration, with file descriptors for every connection."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    # A connection counts once TLS is established. Until then only this limits it, and uvicorn has
    # no option for it. The default is a minute.
    asyncio.constants.SSL_HANDSHAKE_TIMEOUT = _PATIENCE
    logging.getLogger("uvicorn.error").addFilter(_matters)
    return uvicorn.Config(
        app,
        http=partial(Connection, places),  # type: ignore[arg-type]
        ws=Socket,
        ws_max_size=MOST_BYTES,
        lifespan="on",
        log_level="error",  # its warnings are about requests that are not understood
        access_log=False,  # it would contain the tokens of links
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=20,
        timeout_graceful_shutdown=2,
        ssl_certfile=cert,
        ssl_keyfile=key,
    )
