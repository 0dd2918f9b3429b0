"""Guard: the checks of every request: its host, its origin, its token, and its rate."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from faultlab.workshop.access import Allowance, Keys, Visitor
from faultlab.workshop.journal import Event
from faultlab.workshop.session import Session

_MOST_BODY = 4096  # bytes; our pages send no more
_MOST_PATH = 300  # characters
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self'"
        " data:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self';"
        " frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Guard:
    """The checks of all requests of one class, and the limits on their number.

    A seat's token gives access to that seat, the trainer's to everything. Any other request is
    refused and recorded with the seat that sent it.
    """

    def __init__(
        self,
        session: Session,
        keys: Keys,
        hosts: Sequence[str],
        secure: bool,
        who: Callable[[HTTPConnection], Visitor | None] | None = None,
    ) -> None:
        """Prepare the checks. `hosts`: the names of the pages; `secure`: served over TLS.

        `who`: tells who sent a request. Without it the token in the cookie does.
        """
        self._who = who
        self.session = session
        self.keys = keys
        self.hosts = hosts
        self.secure = secure
        # A browser sends a cookie to every port of a host, so each class has its own cookie. With
        # this prefix no other host of the domain, and no page without TLS, can set it.
        self.cookie = f"{'__Host-' if secure else ''}faultlab-{session.plan.id}"
        self._strangers = Allowance(rate=10 / 60, stock=20)  # wrong tokens, for each address
        self._asked = Allowance(rate=20, stock=100)  # requests, for each visitor
        self._acts = Allowance(rate=0.5, stock=10)  # requests that change something, for each seat
        self._trainers = Allowance(rate=5, stock=100)
        self._noted = Allowance(rate=0.1, stock=20)  # refusals in the journal, for each seat

    def origin(self, connection: HTTPConnection) -> str:
        """Return the origin of our own pages, under the name in this request."""
        return f"{'https' if self.secure else 'http'}://{connection.headers.get('host', '')}"

    def visitor(self, connection: HTTPConnection) -> Visitor | None:
        """Return the visitor who sent this request."""
        return self._who(connection) if self._who else self.keys.visitor(self.token(connection))

    def token(self, connection: HTTPConnection) -> str:
        """Return the token in the cookie of a request."""
        return connection.cookies.get(self.cookie, "")

    def admits(self, visitor: Visitor, token: str) -> bool:
        """Return whether a visitor who was admitted with this token still is."""
        return self._who is not None or self.keys.visitor(token) == visitor

    def refusal(self, connection: HTTPConnection) -> str:
        """Return why this request is refused for every visitor; empty if it is acceptable."""
        if len(connection.scope["path"]) > _MOST_PATH:
            return "Too long."
        # Not Starlette's TrustedHostMiddleware: see docs/decisions/036-libraries-not-taken.md.
        if _hostname(f"//{connection.headers.get('host', '')}") not in self.hosts:
            return "This host name is not one of this server's."
        if connection.scope["type"] == "http" and connection.scope["method"] in ("GET", "HEAD"):
            return ""
        if connection.headers.get("origin") != self.origin(connection):
            return "This request does not come from a page of this server."
        return ""

    def admit(self, connection: HTTPConnection, seat: int | None) -> Visitor:
        """Return the visitor if they can use this seat (`seat` None: the trainer's pages).

        Raises HTTPException.
        """
        visitor = self.visitor(connection)
        if visitor is None:
            raise self.stranger(connection, "Open the link that you were given.")
        if not self._asked.take(str(visitor.number)):
            raise HTTPException(429, "Too many requests.")
        if not (visitor.trainer if seat is None else visitor.may(seat)):
            self.note(visitor, connection.url.path)
            raise HTTPException(403, "This belongs to another seat.")
        if seat is not None and not 1 <= seat <= len(self.session.roster.seats):
            raise HTTPException(404, "There is no such seat.")
        return visitor

    def stranger(self, connection: HTTPConnection, why: str) -> HTTPException:
        """Count a wrong token, and return the error for it."""
        address = connection.client.host if connection.client else ""
        return HTTPException(401 if self._strangers.take(address) else 429, why)

    def note(self, visitor: Visitor, asked: str) -> None:
        """Record a refusal in the journal for the trainer; if there are many, only some of them."""
        if not visitor.trainer and self._noted.take(str(visitor.number)):
            self.session.note(Event.REFUSED, visitor.number, asked=asked[:_MOST_PATH])

    async def facts(self, request: Request, visitor: Visitor) -> dict[str, Any]:
        """Return the JSON object of an action. Raises HTTPException."""
        allowance = self._trainers if visitor.trainer else self._acts
        if not allowance.take(str(visitor.number)):
            raise HTTPException(429, "Too many requests at once. Wait a moment.")
        body = b""
        try:
            async for part in request.stream():
                body += part
                if len(body) > _MOST_BODY:
                    raise HTTPException(413, "Too long.")
        except ClientDisconnect as error:
            raise HTTPException(400, "This request was cut off.") from error
        try:
            facts = json.loads(body or b"{}")
        except (ValueError, RecursionError) as error:
            raise HTTPException(400, "Not valid JSON.") from error
        if not isinstance(facts, dict):
            raise HTTPException(400, "Not a JSON object.")
        return facts


@dataclass(frozen=True)
class GuardMiddleware:
    """Refuses a request before it is processed, and adds the same headers to each response."""

    app: ASGIApp
    guard: Guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        connection = HTTPConnection(scope)
        refused = self.guard.refusal(connection)
        if refused:
            visitor = self.guard.visitor(connection)
            if visitor is not None:
                self.guard.note(visitor, refused)
            await JSONResponse({"error": refused}, 403, _HEADERS)(scope, receive, send)
            return

        async def with_headers(message: Any) -> None:
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                own = [(name.lower().encode(), value.encode()) for name, value in _HEADERS.items()]
                message = {**message, "headers": [*message.get("headers", []), *own]}
            await send(message)

        await self.app(scope, receive, with_headers)


def _hostname(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""
