"""Site: the routes of a class over HTTP and WebSockets, and its clock."""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from faultlab.core.errors import BadInput, Problem
from faultlab.workshop.access import Keys
from faultlab.workshop.actions import Actions
from faultlab.workshop.guard import Guard, GuardMiddleware
from faultlab.workshop.master import Master
from faultlab.workshop.page import TEMPLATES, Pages
from faultlab.workshop.session import Session, in_one_line
from faultlab.workshop.streams import Streams, wait
from faultlab.workshop.terminals import Terminals

_FOLDER = Path(__file__).parent
_REPORT_CSS = _FOLDER.parent / "report/report.css"  # pages look like reports
_TICK = 1.0
_POLL = 2.0  # seconds between two looks at the disk, at least


class Site:
    """The site of one class."""

    def __init__(self, session: Session, keys: Keys, guard: Guard, alive: Path) -> None:
        """`alive`: a file that is touched once a second."""
        self.session = session
        self.alive = alive
        self.ticks, self.polls = _TICK, _POLL  # seconds from one to the next
        self.guard = guard
        self.master = Master(session)
        self.pages = Pages(session, keys, self.guard)
        self.streams = Streams(session, self.guard)
        self.terminals = Terminals(session, self.guard)
        self.actions = Actions(session, self.master, keys, self.guard, self.terminals)

    def app(self) -> ASGIApp:
        """Return the ASGI application."""
        return Starlette(
            routes=self._routes(),
            lifespan=self._life,
            middleware=[Middleware(GuardMiddleware, guard=self.guard)],
            exception_handlers={HTTPException: _refusal, Problem: _problem},  # type: ignore[dict-item]
        )

    def close(self) -> None:
        """End the streams and the terminals, which would keep the server up."""
        self.streams.closed = True
        self.terminals.end_all()
        self.session.show()

    def _routes(self) -> list[BaseRoute]:
        pages, streams, actions = self.pages, self.streams, self.actions
        return [
            Route("/", pages.start),
            Route("/join", pages.join, methods=["GET", "POST"]),
            Route("/seat/{seat:int}", pages.seat),
            Route("/seat/{seat:int}/events", streams.seat),
            Route("/seat/{seat:int}/{act:str}", actions.seat, methods=["POST"]),
            WebSocketRoute("/seat/{seat:int}/terminal/{machine:str}", self.terminals.serve),
            Route("/trainer", pages.trainer),
            Route("/trainer/events", streams.trainer),
            Route("/trainer/{act:str}", actions.everybody, methods=["POST"]),
            Route("/trainer/seat/{seat:int}/{act:str}", actions.trainer, methods=["POST"]),
            Route("/projector", pages.projector),
            Route("/projector/events", streams.projector),
            Route("/seat/{seat:int}/read/{path:path}", pages.document),
            Route("/export.{kind:str}", pages.export),
            Route("/review", pages.review),
            Route("/static/report.css", lambda _: FileResponse(_REPORT_CSS)),
            Mount("/static", StaticFiles(directory=_FOLDER / "assets")),
        ]

    @asynccontextmanager
    async def _life(self, _app: Starlette) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(each) for each in (self._tick(), self._poll())]
        self.session.begin()
        self.master.begin()
        yield
        for task in tasks:
            task.cancel()
        await self.master.leave()
        await self.session.leave()

    async def _tick(self) -> None:
        """Check the clock once a second, and after every change."""
        while True:
            change = self.session.change
            try:
                now = self.session.journal.now()
                self.alive.touch()
                os.utime(self.alive, (now, now))  # by the clock of the class
                self.session.tick(now)
                self.master.tick(now)
                self.terminals.update()
            except Exception as error:  # a full disk can be free again in a second
                print(f"faultlab: {in_one_line(error)}", file=sys.stderr)
            await wait(change, self.ticks)

    async def _poll(self) -> None:
        """Check the disk repeatedly, without keeping Docker busy with it."""
        last = ""
        while True:
            began = time.monotonic()
            try:
                await self.session.poll()
            except Exception as error:
                if last != in_one_line(error):  # once, because Docker can be away for a long time
                    last = in_one_line(error)
                    print(f"faultlab: {last}", file=sys.stderr)
            await asyncio.sleep(max(self.polls, 20 * (time.monotonic() - began)))


async def _refusal(request: Request, error: HTTPException) -> Response:
    if "text/html" in request.headers.get("accept", ""):
        facts = {"why": error.detail}
        return TEMPLATES.TemplateResponse(request, "refused.html", facts, error.status_code)
    return JSONResponse({"error": error.detail}, error.status_code)


async def _problem(_request: Request, problem: Problem) -> Response:
    return JSONResponse({"error": problem.message}, 400 if isinstance(problem, BadInput) else 409)
