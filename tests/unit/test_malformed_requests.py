"""What no browser sends: 500 malformed requests and 200 malformed WebSocket messages, seeded.

They come whole, in pieces, and slowly. The server says nothing about them, and holds nothing.
"""

from __future__ import annotations

import json
import logging
import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from faultlab.workshop.access import TRAINER, Allowance
from tests.unit.served import Served, served
from tests.unit.test_malformed import NESTED, ODD, broken
from tests.waiting import until

REQUESTS, MESSAGES = 500, 200
HELD = 15.0  # seconds after which the server holds nothing of them
SLOW = 20  # each 20th is sent slowly: a byte each second, until the server hangs up


class Heard(logging.Handler):
    """What the server logs."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@pytest.fixture
def here(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Iterator[Served]:
    """A class of three that allows all that one can send, and what it must be like in the end."""
    heard, logs = Heard(), [logging.getLogger(name) for name in ("uvicorn.error", "asyncio")]
    with served(tmp_path, apart=0) as it:
        guard = it.site.guard
        for allowance in (guard._asked, guard._acts, guard._strangers):
            allowance.rate = allowance.stock = 1e9
        it.site.terminals._output = Allowance(1e9, 1e9)
        for log in logs:
            log.addHandler(heard)
        yield it
        began = time.monotonic()
        until(lambda: it.held == 0, HELD, lambda: it.front.places.all)
        until(lambda: not it.site.terminals.open and not it.session.doing, 5)
        assert time.monotonic() - began < HELD
        assert not +it.site.streams._open
        assert not it.front.places._waiting and not it.front.places.of
        for who in (1, 2, 3, TRAINER):
            assert it.get(who, "/").status_code == 303
        for log in logs:
            log.removeHandler(heard)
    said = "".join(capfd.readouterr())
    assert heard.lines == [] and "Traceback" not in said and said.strip() == "", (
        "\n".join(heard.lines) + said
    )


def good(here: Served, dice: random.Random) -> bytes:
    """Return a request of a browser."""
    who = dice.choice((1, 2, 3, 2, "x" * 43, None))
    body = json.dumps(dice.choice(({}, {"turn": 1}, {"daemon": "nginx", "cpus": 0.5}))).encode()
    match dice.randrange(6):
        case 0:
            return here.head(who, f"GET {dice.choice(PATHS)} HTTP/1.1")
        case 1 | 2:
            act = dice.choice(("hint", "check", "diagnose", "limit", "restart", "give-up"))
            length = {"Content-Length": str(len(body))}
            return here.head(who, f"POST /seat/2/{act} HTTP/1.1", **length) + body
        case 3:
            chunked = {"Transfer-Encoding": "chunked"}
            chunks = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
            return here.head(who, "POST /seat/3/limit HTTP/1.1", **chunked) + chunks
        case 4:
            return here.upgrade(who, "/seat/1/terminal/web")
        case _:
            return here.head(who, "GET / HTTP/1.1") + here.head(who, "GET /seat/1 HTTP/1.1")


PATHS = ("/", "/seat/1", "/seat/2/events", "/static/seat.js", "/join?token=x")
LINES: tuple[bytes, ...] = (
    b"Content-Length: -1",
    b"Content-Length: 99999999999999999999",
    b"Content-Length: 5\r\nContent-Length: 6",
    b"Transfer-Encoding: chunked\r\nContent-Length: 3",
    b"Transfer-Encoding: gzip, chunked",
    b"Expect: 100-continue\r\nContent-Length: 9",
    b"Upgrade: websocket\r\nConnection: Upgrade",
    b"Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings",
    b"Connection: close\r\nConnection: keep-alive",
    b"Host:",
    b"Host: [::1",
    b"Host: a@b:c\r\nHost: 127.0.0.1",
    b"Origin: null",
    b"Cookie: " + b"a=b; " * 3000,
    b"Cookie: faultlab-class=" + "é".encode() * 40,
    b"Sec-WebSocket-Key: x\r\nSec-WebSocket-Version: 99",
    b"Accept: text/html\xff\xfe",
    b"X: " + b"y" * 70_000,
    b" folded: line",
    b"no colon",
    b": no name",
    b"X\0Y: z",
)
STARTS: tuple[bytes, ...] = (
    b"GET / HTTP/1.0",
    b"GET / HTTP/9.9",
    b"GET /",
    b"get / http/1.1",
    b"PRI * HTTP/2.0",
    b"CONNECT 127.0.0.1:22 HTTP/1.1",
    b"OPTIONS * HTTP/1.1",
    b"TRACE / HTTP/1.1",
    b"GET http://evil.example/ HTTP/1.1",
    b"GET /%00%ff%2e%2e/%zz HTTP/1.1",
    b"GET /" + b"a" * 66_000 + b" HTTP/1.1",
    b"GET /seat/" + b"9" * 4000 + b" HTTP/1.1",
    b"GET /seat/1?" + b"&" * 3000 + b" HTTP/1.1",
    b"GET /join?token=%ff%fe%00 HTTP/1.1",
    b"POST /join?token=%ed%a0%80 HTTP/1.1",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"\r\n\r\n\r\nGET / HTTP/1.1",
)
BODIES: tuple[bytes, ...] = (
    b"[" * NESTED,
    b'{"turn": 1e999}',
    b'{"turn": NaN, "daemon": null}',
    b'{"daemon": "\\ud800"}',
    b'{"component": "\\ud800", "resource": "\\u0000", "cause": "\\udfff"}',
    b'{"daemon": "nginx", "cpus": 1e308}',
    b'{"daemon": "nginx", "memory": "99999999999999999999g"}',
    b'{"daemon": "nginx", "cpus": true, "memory": []}',
    b"9" * 4000,
    b"\xef\xbb\xbf{}",
    b"{" + b" " * 5000,
)


def malformed(here: Served, dice: random.Random) -> bytes:
    """Return a request with something wrong in its first line, its head or its body."""
    whole = good(here, dice)
    first, _, rest = whole.partition(b"\r\n")
    at, end = dice.randrange(len(whole)), dice.choice((b"\n", b"\r", b"\r\n ", b"\r\n\0"))
    body, act = dice.choice(BODIES), dice.choice(("hint", "limit", "diagnose", "restart"))
    length = {"Content-Length": str(len(body) + dice.choice((0, 0, 0, -1, 7)))}
    more = (b"0\r\n\r\n", b"zz\r\n", b"-5\r\n", whole, b"\xff" * 99)
    kinds = (
        dice.choice(STARTS) + b"\r\n" + rest,
        first + b"\r\n" + dice.choice(LINES) + b"\r\n" + rest,
        whole.replace(b"\r\n", end),
        here.head(2, f"POST /seat/2/{act} HTTP/1.1", **length) + body,
        whole + dice.choice(more),
        whole[:at] + dice.choice(ODD).encode() + whole[at:],
        broken(dice, whole),
    )
    return dice.choice(kinds)


SAID = (
    '{"input": "ls\\r"}',
    '{"columns": 80, "rows": 24}',
    '{"input": "\\ud800"}',
    '{"input": ""}',
)


def text(dice: random.Random) -> bytes:
    """Return what a page could say in a terminal, with something wrong."""
    return broken(dice, dice.choice(SAID).encode())


def frame(dice: random.Random) -> bytes:
    """Return a frame, or several, with something wrong in a head or in what it carries."""

    def made(first: int, data: bytes, masked: bool = True, size: int | None = None) -> bytes:
        size = len(data) if size is None else size
        mask, bit = (bytes(4), 0x80) if masked else (b"", 0)
        if size < 126:
            head = bytes([first, bit | size])
        elif size < 2**16:
            head = bytes([first, bit | 126]) + struct.pack("!H", size)
        else:
            head = bytes([first, bit | 127]) + struct.pack("!Q", size)
        return head + mask + data

    data = text(dice)
    kinds: tuple[Callable[[], bytes], ...] = (
        lambda: made(0x81, data),
        lambda: made(0x81, data, masked=False),
        lambda: made(0x81, b"\xff\xfe\xed\xa0\x80"),
        lambda: made(dice.choice((0x83, 0x87, 0x8B, 0x8F)), data),  # no such kind
        lambda: made(0x81 | dice.choice((0x40, 0x20, 0x10)), data),  # no such extension
        lambda: made(0x80, data),  # goes on with nothing
        lambda: made(0x01, data) + made(0x81, data),  # a message in another one
        lambda: made(0x01, data[:3]) + made(0x89, b"?") + made(0x80, data[3:]),
        lambda: made(0x09, b"half a ping") + made(0x89, b"x" * 126),
        lambda: made(0x81, b"x", size=dice.choice((2**63, 2**64 - 1, 2**31, 65_537))),
        lambda: made(0x82, dice.randbytes(300)),
        lambda: made(0x88, dice.choice((b"\0", b"\x03\xed", b"\x03\xe8\xff\xff", b"\x27\x0f"))),
        lambda: made(0x8A, b"a pong"),
        lambda: made(0x81, data)[: dice.randrange(1, 6)],
        lambda: dice.randbytes(dice.randrange(1, 200)),
        lambda: made(0x81, data) * 40,
        lambda: b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    )
    return dice.choice(kinds)()


def send(line: socket.socket, data: bytes, dice: random.Random, slowly: bool) -> bool:
    """Send it whole, in pieces or slowly, and go in some way; return whether it stays open."""
    with suppress(OSError):
        if slowly:
            for at in range(len(data) + 60):
                line.sendall(data[at : at + 1] or b"x")
                time.sleep(1)
        elif dice.random() < 0.3:
            size = max(1, len(data) // dice.randint(2, 9))
            for at in range(0, len(data), size):
                line.sendall(data[at : at + size])
                time.sleep(0.002)
        else:
            line.sendall(data)
        match dice.randrange(5):
            case 0:
                line.close()
            case 1:
                line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                line.close()
            case 2:
                line.shutdown(socket.SHUT_WR)
            case 3:
                line.settimeout(0.05)
                line.recv(65536)
    return line.fileno() != -1


def all_sent(
    count: int, kind: str, connect: Callable[[random.Random], tuple[socket.socket, bytes]]
) -> list[socket.socket]:
    """Send all of them, the slow ones meanwhile; return the connections that we have not closed."""
    left: list[socket.socket] = []

    def some(numbers: Iterable[int], slowly: bool) -> None:
        for number in numbers:
            dice = random.Random(f"{kind} {number}")
            with suppress(OSError):
                line, data = connect(dice)
                if send(line, data, dice, slowly):
                    left.append(line)

    slow, rest = range(0, count, SLOW), [n for n in range(count) if n % SLOW]
    threads = [threading.Thread(target=some, args=([number], True)) for number in slow]
    threads += [threading.Thread(target=some, args=(rest[i::8], False)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return left


def test_requests(here: Served) -> None:
    left = all_sent(REQUESTS, "request", lambda dice: (here.connect(), malformed(here, dice)))
    assert left


def test_messages(here: Served) -> None:
    def opened(dice: random.Random) -> tuple[socket.socket, bytes]:
        seat = dice.randint(1, 3)
        line = here.connect(here.upgrade(seat, f"/seat/{seat}/terminal/web"))
        if dice.random() < 0.9:  # else before it is open
            while b"\r\n\r\n" not in line.recv(4096, socket.MSG_PEEK):
                time.sleep(0.01)
            line.recv(4096)
        return line, frame(dice)

    left = all_sent(MESSAGES, "message", opened)
    for line in left:  # a page that is silent can stay: it answers pings, and its places are few
        line.close()
