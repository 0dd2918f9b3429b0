"""Connections: how many each address can have, and how long one can stay silent."""

import asyncio
import asyncio.constants
import logging
import resource
from collections.abc import Callable
from typing import Any, ClassVar

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from faultlab.workshop.tty import MOST_BYTES

# Connections of one address: a class behind one router has this many for each seat, and some more.
_FOR_A_SEAT, _MORE = 20, 100
_PATIENCE = 10.0  # seconds until a connection must have sent a request
_NOT_TAKEN = 256 * 1024  # bytes of responses that can wait for a client that does not read them


class Connection(H11Protocol):
    """A connection. One too many is dropped at once, a silent one after a while."""

    most: ClassVar[int] = _MORE
    _from: ClassVar[dict[str, set[asyncio.Transport]]] = {}

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count a new connection of its address; drop it if there are too many."""
        super().connection_made(transport)
        address = str((transport.get_extra_info("peername") or ("",))[0])
        for known, lines in list(self._from.items()):
            lines -= {one for one in lines if one.is_closing()}
            if not lines:
                del self._from[known]
        mine = self._from.setdefault(address, set())
        if len(mine) >= self.most:
            transport.abort()
            return
        mine.add(transport)
        self.loop.call_later(_PATIENCE, self._ask)

    def _ask(self) -> None:
        here = self.transport
        if self.cycle is None and not here.is_closing() and here.get_protocol() is self:
            here.close()


class Socket(WebSocketsSansIOProtocol):
    """A WebSocket. uvicorn answers every ping, even if many answers wait; browsers send none."""

    def handle_ping(self) -> None:
        """Answer, or drop a connection that does not read the answers."""
        super().handle_ping()
        if self.transport.get_write_buffer_size() > _NOT_TAKEN:
            self.transport.abort()


class Server(uvicorn.Server):
    """A uvicorn server that reports when it can be reached."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    def stop(self) -> None:
        """Make it end soon."""
        self.should_exit = True

    async def startup(self, sockets: Any = None) -> None:
        """Begin to serve."""
        await super().startup(sockets)
        self._ready()


def _matters(record: logging.LogRecord) -> bool:
    """Return whether a line of uvicorn's log is for people; connections cut by Ctrl-C are not."""
    kind = record.exc_info[0] if record.exc_info else None
    return not (kind and issubclass(kind, asyncio.CancelledError))


def config(app: Any, seats: int, cert: str | None, key: str | None) -> uvicorn.Config:
    """Return uvicorn's configuration, with file descriptors for every connection."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    Connection.most = _MORE + _FOR_A_SEAT * seats
    # A connection counts once TLS is established. Until then only this limits it, and uvicorn has
    # no option for it. The default is a minute.
    asyncio.constants.SSL_HANDSHAKE_TIMEOUT = _PATIENCE
    logging.getLogger("uvicorn.error").addFilter(_matters)
    return uvicorn.Config(
        app,
        http=Connection,
        ws=Socket,
        ws_max_size=MOST_BYTES,
        lifespan="on",
        log_level="warning",
        access_log=False,  # it would contain the tokens of links
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=20,
        timeout_graceful_shutdown=2,
        ssl_certfile=cert,
        ssl_keyfile=key,
    )
