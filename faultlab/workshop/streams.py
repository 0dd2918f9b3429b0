"""Streams: server-sent events that send a page its whole view after every change."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from faultlab.workshop import view
from faultlab.workshop.guard import Guard
from faultlab.workshop.session import Session

_BEAT = 15.0  # seconds without a change after which a page gets a sign of life
_MOST = 4  # of a visitor, for each view
_PAUSE = 0.1  # seconds between views of a stream, so that several changes become one


@dataclass
class Streams:
    """The event streams of one class."""

    session: Session
    guard: Guard
    closed: bool = False
    _open: Counter[tuple[int, str]] = field(default_factory=Counter)

    async def seat(self, request: Request) -> Response:
        """Stream the view of a seat."""
        number = request.path_params["seat"]
        return self._stream(
            request, number, lambda: view.seat(self.session, self.session.roster.seat(number)), True
        )

    async def trainer(self, request: Request) -> Response:
        """Stream the view of the trainer."""
        return self._stream(request, None, lambda: view.roster(self.session))

    async def projector(self, request: Request) -> Response:
        """Stream the view for a projector."""
        return self._stream(request, None, lambda: view.projector(self.session))

    def _stream(
        self,
        request: Request,
        seat: int | None,
        look: Callable[[], dict[str, Any]],
        live: bool = False,
    ) -> Response:
        """Stream a view after each change; with `live` also each visit to the stack of the seat."""
        visitor = self.guard.admit(request, seat)
        mine = (visitor.number, f"{request.scope['route'].path} {seat}")  # /seat/01 is /seat/1
        if self._open[mine] >= _MOST:
            raise HTTPException(429, "This page is open too many times.")

        async def events() -> AsyncIterator[str]:
            self._open[mine] += 1
            shown = self.session.live.shown(seat) if live and seat else nullcontext()
            try:
                with shown as graph:
                    is_due, sent = True, (0, 0)
                    while not self.closed:
                        change, fresh = self.session.change, graph.fresh if graph else None
                        if self.guard.visitor(request) != visitor:  # its link can be replaced
                            yield "event: gone\ndata: {}\n\n"
                            return
                        if is_due:
                            yield f"data: {json.dumps(look())}\n\n"
                        if graph and (told := graph.since(*sent)):
                            sent = graph.begun, graph.number
                            yield f"event: visits\ndata: {json.dumps(told)}\n\n"
                        await wait(change, _BEAT, *filter(None, [fresh]))
                        is_due = change.is_set() or not (fresh and fresh.is_set())
            finally:
                self._open[mine] -= 1

        return StreamingResponse(events(), media_type="text/event-stream")


async def wait(change: asyncio.Event, seconds: float, *others: asyncio.Event) -> None:
    """Wait for one of these changes, at most `seconds`, and then a moment for further ones."""
    waiting = [asyncio.ensure_future(each.wait()) for each in (change, *others)]
    try:
        await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waiting:
            each.cancel()
    await asyncio.sleep(_PAUSE)
