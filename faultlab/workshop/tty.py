"""Tty: a terminal on a machine of a seat, for a browser, over a WebSocket.

The browser sends JSON, `{"input": "ls\\r"}` or `{"columns": 80, "rows": 24}`. The output of the
shell goes back as bytes. Anything else ends the connection. If the page goes, the shell and its
foreground processes get SIGHUP, as when a real terminal is closed.
"""

import asyncio
import json
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from starlette.websockets import WebSocket, WebSocketDisconnect

from faultlab.core.errors import CannotRun
from faultlab.engine.contract import Shelled
from faultlab.workshop.access import Allowance

MOST_BYTES = 64 * 1024  # of one message
_BYTES_A_SECOND = 64 * 1024
_APART = 0.25  # seconds between two sizes of a window: each is a call of the engine, of 2 ms
_AT_ONCE = 16 * 1024  # bytes that go to a page in one message
_PAUSE = 0.05  # seconds
_LOOK = 3.0  # seconds between two looks at whether the shell is still there
_MOST_WAITING = 64  # messages that a shell has not read yet
_OVER, _NOT_UNDERSTOOD, _TOO_MUCH, _GONE = 1000, 1007, 1008, 1011
# Separate threads, so that a slow container of one seat delays no other page.
_hands = ThreadPoolExecutor(max_workers=32, thread_name_prefix="tty")


class Malformed(Exception):
    """A message that our pages never send."""


def understood(text: str) -> str | tuple[int, int]:
    """Parse a message: typed text, or the size of the window. Raises Malformed."""
    try:
        told = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Malformed from error
    match told:
        case {"input": str(typed)} if len(told) == 1:
            return typed
        case {"columns": int(columns), "rows": int(rows)} if len(told) == 2:
            if 1 <= columns <= 1000 and 1 <= rows <= 1000:
                return columns, rows
    raise Malformed


async def serve(
    page: WebSocket,
    found: Callable[[], Shelled],
    allowed: asyncio.Event,
    gone: asyncio.Event,
    printed: Callable[[int], bool],
) -> None:
    """Connect an accepted page with a new shell until one of them ends, or `gone` is set.

    `found`: returns the terminal of a machine, not yet open. Input while `allowed` is not set is
    dropped. `printed`: takes the number of bytes to send from the allowance. While it returns
    False, the shell waits, as it does for a slow terminal.
    """
    shell: Shelled | None = None
    loop = asyncio.get_running_loop()
    tasks: list[asyncio.Task[int]] = []
    try:
        shell = await loop.run_in_executor(_hands, found)
        line = await loop.run_in_executor(_hands, shell.open)
        typed: asyncio.Queue[bytes] = asyncio.Queue(_MOST_WAITING)
        sizes: asyncio.Queue[tuple[int, int]] = asyncio.Queue(1)
        hear, type_ = _from_page(page, typed, sizes, allowed), _to_shell(line, typed)
        show = _to_page(page, shell.first, line, printed)
        fit, ends = _to_window(shell, sizes), (_when(gone), _when_ended(shell))
        tasks = [asyncio.create_task(one) for one in (hear, type_, show, fit, *ends)]
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        codes = [task.result() for task in done if not task.exception()]
        await _close(page, codes[0] if codes else _GONE)
    except CannotRun as problem:
        with suppress(RuntimeError, WebSocketDisconnect):
            await page.send_bytes(f"{problem.message}\r\n".encode())
        await _close(page, _GONE)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if shell is not None:
            _hands.submit(shell.close)


async def _close(page: WebSocket, code: int) -> None:
    with suppress(RuntimeError, WebSocketDisconnect):  # it can have ended first
        await page.close(code)


async def _when(gone: asyncio.Event) -> int:
    await gone.wait()
    return _OVER


async def _when_ended(shell: Shelled) -> int:
    while True:
        await asyncio.sleep(_LOOK)
        if await asyncio.get_running_loop().run_in_executor(_hands, shell.ended):
            return _OVER


async def _from_page(
    page: WebSocket,
    typed: asyncio.Queue[bytes],
    sizes: asyncio.Queue[tuple[int, int]],
    allowed: asyncio.Event,
) -> int:
    """Read from the page. It never waits for the shell, so it notices when the page goes."""
    speed = Allowance(_BYTES_A_SECOND, 4 * MOST_BYTES)
    while True:
        try:
            text = await page.receive_text()
        except WebSocketDisconnect:
            return _OVER
        except KeyError:  # bytes, which our pages never send
            return _NOT_UNDERSTOOD
        try:
            said = understood(text)
        except Malformed:
            return _NOT_UNDERSTOOD
        if not speed.take("", len(text)) or typed.full():
            return _TOO_MUCH
        if isinstance(said, tuple):
            with suppress(asyncio.QueueEmpty):  # only the last one counts
                sizes.get_nowait()
            sizes.put_nowait(said)
        elif allowed.is_set():
            typed.put_nowait(said.encode())


async def _to_window(shell: Shelled, sizes: asyncio.Queue[tuple[int, int]]) -> int:
    while True:
        size = await sizes.get()
        await asyncio.get_running_loop().run_in_executor(_hands, shell.resize, *size)
        await asyncio.sleep(_APART)


async def _to_shell(line: socket.socket, typed: asyncio.Queue[bytes]) -> int:
    while True:
        await asyncio.get_running_loop().sock_sendall(line, await typed.get())


async def _to_page(
    page: WebSocket, first: bytes, line: socket.socket, printed: Callable[[int], bool]
) -> int:
    if first:
        await page.send_bytes(first)
    while data := await asyncio.get_running_loop().sock_recv(line, _AT_ONCE):
        while not printed(len(data)):
            await asyncio.sleep(_PAUSE)
        await page.send_bytes(data)
    return _OVER
