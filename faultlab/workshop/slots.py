"""Slots: how many labs of a class can be measured at a time, and which one is next.

And the pace at which a seat can open terminals.
"""

import asyncio
import heapq
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from faultlab.lab.model import Lab


class Slots:
    """A priority queue for the machine. Labs without load share it; a lab with load has it alone.

    If the machine has several slots of CPUs, that holds for each of these `parts`. A check goes
    before a start, because a participant waits for it.
    """

    def __init__(self, count: int, parts: int = 1) -> None:
        self._free = count * parts
        self._count = count
        self._waiting: list[tuple[int, int, asyncio.Event]] = []  # a heap: urgency, number
        self._number = 0

    @asynccontextmanager
    async def take(self, lab: Lab, urgent: bool) -> AsyncIterator[None]:
        """Wait for a turn, and keep it while the body runs."""
        wanted = self._count if lab.load else 1
        mine = (0 if urgent else 1, self._number, asyncio.Event())
        self._number += 1
        heapq.heappush(self._waiting, mine)
        try:
            while self._waiting[0] is not mine or self._free < wanted:
                mine[2].clear()
                await mine[2].wait()
        finally:
            self._waiting.remove(mine)
            heapq.heapify(self._waiting)
            self._wake()
        self._free -= wanted
        self._wake()
        try:
            yield
        finally:
            self._free += wanted
            self._wake()

    def _wake(self) -> None:
        if self._waiting:
            self._waiting[0][2].set()


class Pace:
    """Lets one pass at a time, with some seconds between two; the others wait in order."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._line = asyncio.Lock()
        self._next = 0.0

    async def pass_(self) -> None:
        """Wait for a turn. A caller that is cancelled takes none."""
        async with self._line:
            clock = asyncio.get_running_loop().time
            await asyncio.sleep(max(0.0, self._next - clock()))
            self._next = clock() + self._seconds
