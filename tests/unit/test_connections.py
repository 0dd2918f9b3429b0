"""Connections that send too slowly, read too slowly, or are too many; no Docker."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from faultlab.workshop import access
from tests.unit.served import Served, served
from tests.waiting import until

PATIENCE = 1.0  # seconds


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Served]:
    """A class of three whose server is impatient."""
    with served(tmp_path, patience=PATIENCE) as it:
        yield it


def response(line: socket.socket) -> bytes:
    """Read a response to its end."""
    said = b""
    while b"\r\n\r\n" not in said:
        said += line.recv(65536)
    head, _, body = said.partition(b"\r\n\r\n")
    size = int(head.lower().partition(b"content-length: ")[2].split()[0])
    while len(body) < size:
        body += line.recv(65536)
    return head


def dropped(line: socket.socket, seconds: float) -> bool:
    """Return whether a connection is closed within some seconds; what it says is read."""
    line.settimeout(seconds)
    try:
        while line.recv(65536):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        pass
    return True


def test_one_byte_after_a_response(here: Served) -> None:
    """It ended the wait for the next request, and nothing else began: held without end."""
    lines = [here.connect(here.head(None, "GET / HTTP/1.1")) for _ in range(60)]
    for line in lines:
        assert b" 200 " in response(line)
        line.sendall(b"G")
    assert here.held == 60
    until(lambda: here.held == 0, PATIENCE + 2, here)
    assert all(dropped(line, 1) for line in lines)


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("body", [False, True])
def test_a_request_that_comes_byte_by_byte(body: bool, later: bool, here: Served) -> None:
    """Its head or its body, the first request or a later one: it has a deadline as a whole."""
    line = here.connect()
    if later:
        line.sendall(here.head(None, "GET / HTTP/1.1"))
        assert b" 200 " in response(line)
    if body:
        line.sendall(here.head(1, "POST /seat/1/hint HTTP/1.1", **{"Content-Length": "99"}))
    began = time.monotonic()
    with suppress(ConnectionError):
        for byte in b"POST / HTTP/1.1\r\nx: " + b"x" * 50:
            line.sendall(bytes([byte]))
            time.sleep(0.1)
    assert time.monotonic() - began < PATIENCE + 2
    until(lambda: here.held == 0, 2, here)


@pytest.mark.parametrize("close", [False, True])
def test_a_response_that_is_not_read(close: bool, here: Served) -> None:
    """Neither in the middle of it nor in what is left when the connection is closed."""
    more = {"Connection": "close"} if close else {}
    asked = here.head(None, "GET /static/xterm.js HTTP/1.1", **more)
    lines = [here.connect(asked * (1 if close else 30), SO_RCVBUF=1) for _ in range(20)]
    until(lambda: here.held == 20, 5, here)
    until(lambda: here.held == 0, 2 * PATIENCE + 3, here)
    for line in lines:
        line.close()


def test_a_response_that_is_read_slowly(here: Served) -> None:
    """It comes to its end, however long it takes."""
    line = here.connect(here.head(None, "GET /static/xterm.js HTTP/1.1"), SO_RCVBUF=2048)
    size, began = 0, time.monotonic()
    while size < 480_000:
        size += len(line.recv(4096))
        time.sleep(0.02)
    assert time.monotonic() - began > 2 * PATIENCE
    line.close()


def test_others_at_an_address_whose_connections_are_used_up(here: Served) -> None:
    """A class behind one router: who sends nothing gives way to who does."""
    most = here.front.places.most
    slow = [here.connect(b"GET / HT") for _ in range(most)]
    ends = time.monotonic() + 2 * PATIENCE
    stop = threading.Event()

    def again() -> None:
        while not stop.is_set():
            with suppress(OSError):
                slow.append(here.connect(b"GET / HT"))
            time.sleep(0.01)

    attack = threading.Thread(target=again)
    attack.start()
    try:
        while time.monotonic() < ends:
            assert here.get(1, "/seat/1").status_code == 200
            assert here.held <= most
            time.sleep(0.1)
    finally:
        stop.set()
        attack.join()
        for line in slow:
            line.close()


@pytest.mark.parametrize("first", [True, False])
def test_many_have_come_while_the_server_could_not_look(first: bool, here: Served) -> None:
    """On a busy machine: whoever asks is answered, whether the silent came before or after."""
    here.loop.call_soon_threadsafe(time.sleep, 1)  # as a machine that has no CPU for it
    many = range(here.front.places.most)
    asks = here.connect(here.head(None, "GET / HTTP/1.1")) if first else None
    lines = [here.connect() for _ in many]
    asks = asks or here.connect(here.head(None, "GET / HTTP/1.1"))
    assert b" 200 " in response(asks)
    for line in (asks, *lines):
        line.close()


def test_a_limit_for_all_addresses(here: Served) -> None:
    here.front.places.in_all = 50
    lines = []
    for number in range(100):
        line = socket.create_connection(("127.0.0.1", here.port), 10, (f"127.0.0.{number + 2}", 0))
        lines.append(line)
    until(lambda: here.held <= 50, 5, here)
    assert here.get(1, "/seat/1").status_code == 200
    for line in lines:
        line.close()


def test_handshakes_that_are_never_finished(tmp_path: Path) -> None:
    """TLS is not established, so none of them is a connection yet; an address has a limit of them.

    They have 10 seconds, and then their places are free.
    """
    cert, key = access.certificate(tmp_path, ["127.0.0.1"])
    trust = ssl.create_default_context(cafile=str(cert))
    with served(tmp_path, tls=(str(cert), str(key))) as it:
        most, lines = it.front.places.most, []
        for _ in range(2 * most):
            line = socket.create_connection(("127.0.0.1", it.port), 10, ("127.0.0.2", 0))
            lines.append(line)

        def gone() -> int:
            return sum(dropped(line, 0.001) for line in lines)

        until(lambda: gone() >= most, 5)
        assert httpx.get(f"https://127.0.0.1:{it.port}/", verify=trust).status_code == 200
        until(lambda: gone() == len(lines), 15)
        transport = httpx.HTTPTransport(verify=trust, local_address="127.0.0.2")
        with httpx.Client(transport=transport) as page:
            assert page.get(f"https://127.0.0.1:{it.port}/").status_code == 200
        for line in lines:
            line.close()
