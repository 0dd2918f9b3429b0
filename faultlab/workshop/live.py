"""Live: what the users of each seat meet, second by second, as long as a page shows it."""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from faultlab.core import lock
from faultlab.core.errors import Problem
from faultlab.engine.docker.docker_list import Part
from faultlab.run.mark import Mark, Marks, Restarts
from faultlab.run.visit import LATELY, Page, Visit, share
from faultlab.workshop.roster import Roster, Seat
from faultlab.workshop.stacks import Stacks

SECONDS = 300  # that a page shows
_GLANCE = 1.0  # seconds between two looks whether a page still shows it
_LINGER = 5.0  # seconds without a page, as while it is loaded again
_AGAIN = 2.0  # seconds after which a stack that could not be visited is tried again


@dataclass
class Graph:
    """The visits to one seat lately. `begun`: the number of its stacks so far."""

    pages: list[Page] = field(default_factory=list)
    begun: int = 0
    number: int = 0  # of visits to this stack
    visits: deque[Visit] = field(default_factory=partial(deque, maxlen=SECONDS))
    marks: list[Mark] = field(default_factory=list)
    restarts: deque[Mark] = field(default_factory=partial(deque, maxlen=20))
    pauses: bool = False  # a look is taken
    viewers: int = 0
    # The next visit sets it. Take it before looking, to miss none.
    fresh: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    _record: Marks | None = None
    _started: Restarts = field(default_factory=Restarts)

    def begin(self, pages: list[Page], record: Marks) -> None:
        """Show another stack, or the same one again."""
        if self._record is None or self._record.run != record.run:
            self.restarts.clear()
            self._started = Restarts()
        self.pages, self._record = pages, record
        self.begun += 1
        self.number = 0
        self.visits.clear()
        self.show()

    def add(self, visit: Visit) -> None:
        """Show one more visit."""
        self.visits.append(visit)
        self.number += 1
        self.show()

    def see(self, parts: Mapping[str, Part]) -> None:
        """Note which daemons were started again, by the containers of the stack."""
        now = time.time()
        began = {name: 0.0 if part.up is None else now - part.up for name, part in parts.items()}
        if found := self._started.seen(began.items()):
            self.restarts.extend(found)
            self.show()

    def show(self) -> None:
        """Wake the pages that show it."""
        self.marks = self._record.now() if self._record else []
        self.fresh.set()
        self.fresh = asyncio.Event()

    def since(self, begun: int, number: int) -> dict[str, Any] | None:
        """Return what is new for a page that has seen so much; None before the first stack."""
        if not self.begun:
            return None
        new = self.number - number if begun == self.begun else self.number
        visits = [*self.visits]
        now = time.time()
        return {
            "begun": self.begun,
            "now": round(now, 3),
            "span": SECONDS,
            "pages": [page.name for page in self.pages],
            "points": [
                [one.at, one.seconds, int(one.served)]
                for one in visits[max(0, len(visits) - new) :]
            ],
            "marks": [
                [mark.at, mark.what]
                for mark in sorted([*self.marks, *self.restarts], key=lambda mark: mark.at)
                if mark.at > now - SECONDS
            ],
            "says": share(visits[-LATELY:]).words,
            "last": visits[-1].words if visits and not visits[-1].served else "",
            "pauses": self.pauses,
        }


class Live:
    """The graphs of all seats. All methods run in one event loop."""

    def __init__(self, roster: Roster, stacks: Stacks) -> None:
        self._roster = roster
        self._stacks = stacks
        self._graphs: dict[int, Graph] = {}

    @contextmanager
    def shown(self, seat: int) -> Iterator[Graph]:
        """Keep the graph of a seat up to date while the body shows it."""
        graph = self._graphs.setdefault(seat, Graph())
        graph.viewers += 1
        if graph.task is None or graph.task.done():
            work = self._keep(self._roster.seat(seat), graph)
            graph.task = asyncio.get_running_loop().create_task(work)
        try:
            yield graph
        finally:
            graph.viewers -= 1

    def see(self, stacks: Mapping[str, Mapping[str, Part]]) -> None:
        """Note which daemons were started again, by the containers of all stacks."""
        for number, graph in self._graphs.items():
            if graph.task and not graph.task.done():
                name = self._stacks.name(self._roster.seat(number))
                graph.see(stacks.get(name, {}))

    def end(self) -> None:
        """End all visits."""
        for graph in self._graphs.values():
            if graph.task:
                graph.task.cancel()

    async def _keep(self, seat: Seat, graph: Graph) -> None:
        """Visit the stack of a seat whenever it has one, until no page shows the graph."""
        seen = time.monotonic()
        while time.monotonic() < seen + _LINGER:
            if graph.viewers:
                seen = time.monotonic()
            if seat.turn.up:
                await self._visit(seat, graph)
            await asyncio.sleep(_AGAIN)

    async def _visit(self, seat: Seat, graph: Graph) -> None:
        """Visit a stack in a thread of its own until no page shows that, or the stack is gone."""
        loop, turn, over = asyncio.get_running_loop(), seat.turn, threading.Event()
        stack, seen = self._stacks.name(seat), time.monotonic()

        def here(act: Callable[..., None]) -> Callable[..., None]:
            def do(*facts: Any) -> None:
                if not over.is_set():
                    act(*facts)

            def told(*facts: Any) -> None:
                with suppress(RuntimeError):  # the loop has ended
                    loop.call_soon_threadsafe(do, *facts)

            return told

        def work() -> None:
            with suppress(Problem):  # it is gone, or its engine does not respond
                self._stacks.visits(seat, here(graph.begin), here(graph.add), over)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        try:
            while thread.is_alive() and seat.turn is turn and turn.up:
                await asyncio.sleep(_GLANCE)
                if graph.viewers:
                    seen = time.monotonic()
                elif time.monotonic() > seen + _LINGER:
                    return
                pauses = lock.looks(stack)
                if pauses != graph.pauses:
                    graph.pauses = pauses
                    graph.show()
        finally:
            over.set()
