"""Server: the pages of a class and what their buttons do, over HTTP and WebSockets.

Whoever has a seat's token may do what that seat may, the trainer everything; whatever else is
asked for is refused, and noted with the seat that asked. A page gets changes as server-sent events.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from jinja2 import Environment, FileSystemLoader, select_autoescape
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import HTTPConnection, Request
from starlette.responses import (
    FileResponse,
    HTMLResponse,
    JSONResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from faultlab.core.errors import BadInput, Problem
from faultlab.lab.model import Limit
from faultlab.workshop import export, tty, view
from faultlab.workshop import roster as what
from faultlab.workshop.access import TRAINER, Allowance, Keys, Visitor
from faultlab.workshop.roster import Seat, Turn
from faultlab.workshop.session import Session, now

_FOLDER = Path(__file__).parent
_REPORT_CSS = _FOLDER.parent / "report/report.css"  # pages look as reports do
_COOKIE = "faultlab"
_STANDING = ("red", "green", "over")  # the states in which a stack is there
_BEAT = 15.0  # seconds without a change after which a page hears that we are still there
_TICK = 1.0
_MOST_BODY = 4096  # bytes; no page of ours sends more
_MOST_TERMINALS = 12  # of a visitor at a seat, at once
_MOST_STREAMS = 4  # of a visitor, for each view
_PAUSE = 0.1  # seconds between views of a stream: several changes at once are one
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


@dataclass
class _Open:
    """A terminal that is open: whose, by which token, at which turn; `gone` ends it."""

    visitor: Visitor
    token: str
    seat: Seat
    turn: Turn
    gone: asyncio.Event


class Site:
    """The pages of one class."""

    def __init__(
        self, session: Session, keys: Keys, hosts: list[str], secure: bool, alive: Path
    ) -> None:
        """`hosts`: the names by which it may be called; `secure`: over TLS; `alive`: touched."""
        self.session = session
        self.keys = keys
        self.hosts = hosts
        self.secure = secure
        self.alive = alive
        self._terminals: list[_Open] = []
        self._streams: Counter[tuple[int, str]] = Counter()
        self._strangers = Allowance(rate=10 / 60, stock=20)  # wrong tokens, for each address
        self._asked = Allowance(rate=20, stock=100)  # requests, for each visitor
        self._acts = Allowance(rate=0.5, stock=10)  # what changes something, for each seat
        self._trainers = Allowance(rate=5, stock=100)
        self._noted = Allowance(rate=0.1, stock=20)  # refusals in the journal, for each seat
        self._open = asyncio.Event()  # set while what is typed counts

    def app(self) -> ASGIApp:
        """The ASGI application."""
        routes = [
            Route("/", self.start),
            Route("/join", self.join),
            Route("/seat/{seat:int}", self.seat_page),
            Route("/seat/{seat:int}/events", self.seat_events),
            Route("/seat/{seat:int}/{act:str}", self.seat_act, methods=["POST"]),
            WebSocketRoute("/seat/{seat:int}/terminal/{machine:str}", self.terminal),
            Route("/trainer", self.trainer_page),
            Route("/trainer/events", self.trainer_events),
            Route("/trainer/{act:str}", self.class_act, methods=["POST"]),
            Route("/trainer/seat/{seat:int}/{act:str}", self.trainer_act, methods=["POST"]),
            Route("/projector", self.projector_page),
            Route("/projector/events", self.projector_events),
            Route("/export.{kind:str}", self.export),
            Route("/static/report.css", lambda _: FileResponse(_REPORT_CSS)),
            Mount("/static", StaticFiles(directory=_FOLDER / "assets")),
        ]
        return Starlette(
            routes=routes,
            lifespan=self._life,
            middleware=[Middleware(_Guard, site=self)],
            exception_handlers={HTTPException: _refusal, Problem: _problem},  # type: ignore[dict-item]
        )

    @asynccontextmanager
    async def _life(self, _app: Starlette) -> AsyncIterator[None]:
        ticker = asyncio.create_task(self._tick())
        self.session.begin()
        yield
        ticker.cancel()
        await self.session.leave()

    async def _tick(self) -> None:
        """Once a second, and whenever something has changed."""
        while True:
            changed = self.session.change
            try:
                self.alive.touch()
                self.session.tick(now())
            except (Problem, OSError) as problem:  # a full disk: it may be well in a second
                print(f"faultlab: {problem}", file=sys.stderr)
            (self._open.clear if self.session.roster.paused else self._open.set)()
            self._end_terminals()
            with suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), _TICK)
            await asyncio.sleep(_PAUSE)

    def _end_terminals(self) -> None:
        """Those whose token does not hold any more, or whose stack is another one by now."""
        for one in self._terminals:
            there = one.seat.turn is one.turn and one.turn.state in _STANDING
            if not there or self.keys.visitor(one.token) != one.visitor:
                one.gone.set()

    # --- who is it -----------------------------------------------------------------------------

    def visitor(self, connection: HTTPConnection) -> Visitor | None:
        """Who has sent this, by their cookie."""
        return self.keys.visitor(connection.cookies.get(_COOKIE, ""))

    def refuse(self, connection: HTTPConnection) -> str:
        """Why nobody may send this, whoever it is; empty when they may."""
        if len(connection.scope["path"]) > _MOST_PATH:
            return "Too long."
        host = connection.headers.get("host", "")
        if _name(f"//{host}") not in self.hosts:
            return "This is not my name."
        if connection.scope["type"] == "http" and connection.scope["method"] in ("GET", "HEAD"):
            return ""
        scheme = "https" if self.secure else "http"
        if connection.headers.get("origin") != f"{scheme}://{host}":
            return "This does not come from a page of mine."
        return ""

    def _may(self, connection: HTTPConnection, seat: int | None) -> Visitor:
        """Who it is, if they may do it here (`seat` None: the trainer). Raises HTTPException."""
        visitor = self.visitor(connection)
        address = connection.client.host if connection.client else ""
        if visitor is None:
            known = self._strangers.take(address)
            raise HTTPException(401 if known else 429, "Open the link that you were given.")
        if not self._asked.take(str(visitor.number)):
            raise HTTPException(429, "Too many requests.")
        if not (visitor.trainer if seat is None else visitor.may(seat)):
            self.note_refusal(visitor, connection.url.path)
            raise HTTPException(403, "This is somebody else's.")
        if seat is not None and not 1 <= seat <= len(self.session.roster.seats):
            raise HTTPException(404, "There is no such seat.")
        return visitor

    def note_refusal(self, visitor: Visitor, asked: str) -> None:
        """In the journal, where the trainer sees it; not every one of somebody who goes on."""
        if not visitor.trainer and self._noted.take(str(visitor.number)):
            self.session.note(what.REFUSED, visitor.number, asked=asked[:_MOST_PATH])

    # --- pages ---------------------------------------------------------------------------------

    async def start(self, request: Request) -> Response:
        """Where the visitor belongs."""
        visitor = self.visitor(request)
        if visitor is None:
            return _page("start.html")
        return RedirectResponse(_home(visitor), 303)

    async def join(self, request: Request) -> Response:
        """A link that was given to somebody."""
        token = request.query_params.get("token", "")
        visitor = self.keys.visitor(token)
        if visitor is None:
            address = request.client.host if request.client else ""
            known = self._strangers.take(address)
            raise HTTPException(401 if known else 429, "This link does not hold, or not any more.")
        answer = RedirectResponse(_home(visitor), 303)
        answer.set_cookie(_COOKIE, token, httponly=True, secure=self.secure, samesite="lax")
        return answer

    async def seat_page(self, request: Request) -> Response:
        """The page of a participant; the trainer may look at it, too."""
        seat = request.path_params["seat"]
        visitor = self._may(request, seat)
        return _page("seat.html", seat=seat, trainer=visitor.trainer)

    async def trainer_page(self, request: Request) -> Response:
        """The roster."""
        self._may(request, None)
        return _page("trainer.html", title=self.session.plan.title)

    async def projector_page(self, request: Request) -> Response:
        """The roster without names."""
        self._may(request, None)
        return _page("projector.html", title=self.session.plan.title)

    async def export(self, request: Request) -> Response:
        """The results so far, as a file."""
        self._may(request, None)
        kind = request.path_params["kind"]
        if kind not in export.KINDS:
            raise HTTPException(404, "There is no such export.")
        name = f"{self.session.plan.id}.{kind}"
        return Response(
            export.text(self.session.roster, self.session.journal, kind, now()),
            media_type=export.KINDS[kind],
            headers={"Content-Disposition": f'attachment; filename="{name}"'},
        )

    # --- changes -------------------------------------------------------------------------------

    async def seat_events(self, request: Request) -> Response:
        """What a seat sees, whenever it changes."""
        number = request.path_params["seat"]
        visitor = self._may(request, number)
        seat = self.session.roster.seat(number)
        return self._events(request, visitor, number, lambda: view.seat(self.session, seat))

    async def trainer_events(self, request: Request) -> Response:
        """What the trainer sees, whenever it changes."""
        visitor = self._may(request, None)
        return self._events(request, visitor, None, lambda: view.roster(self.session))

    async def projector_events(self, request: Request) -> Response:
        """What the wall sees, whenever it changes."""
        visitor = self._may(request, None)
        return self._events(request, visitor, None, lambda: view.projector(self.session))

    def _events(
        self,
        request: Request,
        who: Visitor,
        seat: int | None,
        look: Callable[[], dict[str, Any]],
    ) -> Response:
        mine = (who.number, request.url.path)
        if self._streams[mine] >= _MOST_STREAMS:
            raise HTTPException(429, "This page is open too many times.")

        async def events() -> AsyncIterator[str]:
            self._streams[mine] += 1
            try:
                while True:
                    changed = self.session.change
                    visitor = self.visitor(request)  # the link may hold no more
                    if visitor != who:
                        yield "event: gone\ndata: {}\n\n"
                        return
                    yield f"data: {json.dumps(look())}\n\n"
                    with suppress(TimeoutError):
                        await asyncio.wait_for(changed.wait(), _BEAT)
                    await asyncio.sleep(_PAUSE)
            finally:
                self._streams[mine] -= 1

        return StreamingResponse(events(), media_type="text/event-stream")

    # --- what the buttons do -------------------------------------------------------------------

    async def seat_act(self, request: Request) -> Response:
        """A button of a participant. `turn`: of the page that it was pressed on."""
        number = request.path_params["seat"]
        visitor = self._may(request, number)
        seat = self.session.roster.seat(number)
        facts = await self._facts(request, visitor)
        if facts.get("turn", seat.at + 1) != seat.at + 1:
            raise HTTPException(409, "This was for another lab.")
        act = request.path_params["act"]
        if self.session.roster.paused and not visitor.trainer:
            raise HTTPException(409, "The class has ended or is paused.")
        match act:
            case "check":
                await self.session.check(seat)
            case "hint":
                self.session.hint(seat)
            case "diagnose":
                self.session.answer(seat, *_words(facts, "component", "resource", "cause"))
            case "restart":
                await self.session.restart(seat, *_words(facts, "daemon"))
            case "limit":
                (daemon,) = _words(facts, "daemon")
                await self.session.limit(seat, daemon, _limit(facts))
            case "give-up":
                self.session.give_up(seat)
            case "next":
                if not (seat.turn.told(self.session.plan.blind) or seat.turn.state == "failed"):
                    raise BadInput("First comes the debrief of this one.")
                self.session.next(seat)
            case _:
                raise HTTPException(404, "There is no such button.")
        return JSONResponse({})

    async def trainer_act(self, request: Request) -> Response:
        """A button of the trainer for one seat."""
        number = request.path_params["seat"]
        visitor = self._may(request, None)
        self._may(request, number)
        seat = self.session.roster.seat(number)
        await self._facts(request, visitor)
        match request.path_params["act"]:
            case "restore":
                self.session.restore(seat)
            case "next":
                self.session.next(seat)
            case "new-link":
                self.keys.replace(number, self.session.plan.hours)
                self.session.note(what.NEW_LINK, number)
                self._end_terminals()
                return JSONResponse({"link": self.link(request, number)})
            case "link":
                return JSONResponse({"link": self.link(request, number)})
            case _:
                raise HTTPException(404, "There is no such button.")
        return JSONResponse({})

    async def class_act(self, request: Request) -> Response:
        """A button of the trainer for all."""
        visitor = self._may(request, None)
        await self._facts(request, visitor)
        match request.path_params["act"]:
            case "pause":
                self.session.pause(True)
            case "resume":
                self.session.pause(False)
            case "end":
                await self.session.end()
            case _:
                raise HTTPException(404, "There is no such button.")
        return JSONResponse({})

    def link(self, request: Request, number: int) -> str:
        """What to give to somebody."""
        scheme = "https" if self.secure else "http"
        return f"{scheme}://{request.headers['host']}/join?token={self.keys.token(number)}"

    async def _facts(self, request: Request, who: Visitor) -> dict[str, Any]:
        if not (self._trainers if who.trainer else self._acts).take(str(who.number)):
            raise HTTPException(429, "Slowly: too many at once.")
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > _MOST_BODY:
                raise HTTPException(413, "Too long.")
        try:
            facts = json.loads(body or b"{}")
        except (ValueError, RecursionError) as error:
            raise HTTPException(400, "No JSON.") from error
        if not isinstance(facts, dict):
            raise HTTPException(400, "No JSON object.")
        return facts

    # --- terminals -----------------------------------------------------------------------------

    async def terminal(self, page: WebSocket) -> None:
        """A shell on a machine of a seat."""
        number, machine = page.path_params["seat"], page.path_params["machine"]
        visitor = self._may(page, number)
        seat = self.session.roster.seat(number)
        if seat.turn.state not in _STANDING:
            raise HTTPException(403, "There is no lab yet.")
        if machine not in self.session.machines(seat):
            raise HTTPException(403, "There is no such machine.")
        mine = [one for one in self._terminals if one.visitor == visitor and one.seat is seat]
        if len(mine) >= _MOST_TERMINALS:
            raise HTTPException(403, "Too many terminals.")
        token = page.cookies.get(_COOKIE, "")
        one = _Open(visitor, token, seat, seat.turn, asyncio.Event())
        self._terminals.append(one)
        try:
            await page.accept()
            await tty.serve(
                page, f"{self.session.stacks.name(seat)}-{machine}", self._open, one.gone
            )
        finally:
            self._terminals.remove(one)


def _words(facts: dict[str, Any], *names: str) -> list[str]:
    words = [facts.get(name) for name in names]
    if not all(isinstance(word, str) and len(word) < 100 for word in words):
        raise BadInput(f"Expected {', '.join(names)}.")
    return [str(word) for word in words]


def _limit(facts: dict[str, Any]) -> Limit:
    try:
        return Limit.model_validate({key: facts.get(key) for key in ("cpus", "memory")})
    except ValidationError as error:
        raise BadInput("Expected cpus (0.5, 1, …) or memory (512m, 1g).") from error


class _Guard:
    """What holds for every request, before anything looks at it."""

    def __init__(self, app: ASGIApp, site: Site) -> None:
        self.app = app
        self.site = site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        connection = HTTPConnection(scope)
        refused = self.site.refuse(connection)
        if refused:
            visitor = self.site.visitor(connection)
            if visitor is not None:
                self.site.note_refusal(visitor, refused)
            await JSONResponse({"error": refused}, 403, _HEADERS)(scope, receive, send)
            return

        async def with_headers(message: Any) -> None:
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                own = [(name.lower().encode(), value.encode()) for name, value in _HEADERS.items()]
                message = {**message, "headers": [*message.get("headers", []), *own]}
            await send(message)

        await self.app(scope, receive, with_headers)


async def _refusal(request: Request, error: HTTPException) -> Response:
    if "text/html" in request.headers.get("accept", ""):
        return _page("refused.html", error.status_code, why=error.detail)
    return JSONResponse({"error": error.detail}, error.status_code)


async def _problem(_request: Request, problem: Problem) -> Response:
    return JSONResponse({"error": problem.message}, 400 if isinstance(problem, BadInput) else 409)


def _home(visitor: Visitor) -> str:
    return "/trainer" if visitor.number == TRAINER else f"/seat/{visitor.number}"


def _name(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""


@cache
def _templates() -> Environment:
    return Environment(loader=FileSystemLoader(_FOLDER / "pages"), autoescape=select_autoescape())


def _page(name: str, status: int = 200, **facts: Any) -> Response:
    return HTMLResponse(_templates().get_template(name).render(**facts), status)
