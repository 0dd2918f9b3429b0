"""The terminals of a class: real connections to a server, and a mirror in place of a shell."""

from __future__ import annotations

import json
import socket
import threading
import time
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed

from faultlab.workshop import (
    tty,
)
from faultlab.workshop.access import TRAINER
from tests.unit.served import (
    Mirror,
    Served,
    served,
)
from tests.waiting import until


def test_a_terminal(here: Served) -> None:
    with here.terminal(1, "/seat/1/terminal/web") as page:
        page.send(json.dumps({"columns": 100, "rows": 30}))
        assert page.recv(5) == b"100x30"
        page.send(json.dumps({"input": "ls\r"}))
        assert page.recv(5) == b"ls\r"
    assert Mirror.opened == ["faultlab-class-1-mystery-web"]
    assert here.status(1, "/seat/1/terminal/host") == 403
    assert here.status(1, "/seat/1/terminal/..%2f..%2fweb") in (403, 404)
    with here.terminal(TRAINER, "/seat/1/terminal/client"):  # who may help
        until(lambda: len(Mirror.opened) == 2)
    assert here.status(1, "/seat/1/terminal/faultlab-class-2-mystery-web") == 403
    assert Mirror.opened[1:] == ["faultlab-class-1-mystery-client"]


def test_terminals_are_opened_one_a_second(tmp_path: Path) -> None:
    """Each costs the engine CPU time that no limit of a seat counts. The others wait in order.

    A page that goes while it waits costs nothing; another seat does not wait.
    """
    with served(tmp_path, apart=1) as it:
        began = time.monotonic()

        def opens() -> None:
            while time.monotonic() < began + 2.5:
                with it.terminal(1, "/seat/1/terminal/web"):
                    pass

        pages = [threading.Thread(target=opens) for _ in range(4)]
        for page in pages:
            page.start()
        path = "/seat/1/terminal/client"
        for _ in range(3):  # these go before their turn
            with it.connect(it.upgrade(1, path)):
                pass
        with it.terminal(2, "/seat/2/terminal/web"):
            assert time.monotonic() < began + 1
        for page in pages:
            page.join()
        of_seat = [name for name in Mirror.opened if "-1-" in name]
        assert len(of_seat) <= time.monotonic() - began + 1
        assert {name.rpartition("-")[2] for name in of_seat} == {"web"}
        until(lambda: it.site.terminals.open == [], shown=it.site.terminals.open)


def test_a_window_that_is_dragged_is_resized_now_and_then(here: Served) -> None:
    """Each size is a call of the engine; the last one counts."""
    with here.terminal(1, "/seat/1/terminal/web") as page:
        for columns in range(1, 201):
            page.send(json.dumps({"columns": columns, "rows": 30}))
        said = b""
        while not said.endswith(b"200x30"):
            said += page.recv(5)
    assert said.count(b"x30") < 10


def test_nothing_typed_counts_in_a_pause(here: Served) -> None:
    with here.terminal(1, "/seat/1/terminal/web") as page:
        here.post(TRAINER, "/trainer/pause")
        until(lambda: not here.site.terminals.typing.is_set())
        page.send(json.dumps({"input": "lost"}))
        page.send(json.dumps({"columns": 9, "rows": 9}))
        assert page.recv(5) == b"9x9"  # so what was sent before it has been heard
        here.post(TRAINER, "/trainer/resume")
        until(here.site.terminals.typing.is_set)
        page.send(json.dumps({"input": "kept"}))
        assert page.recv(5) == b"kept"


def test_a_shell_that_ended_with_its_container(
    here: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection can stay open; the page is told all the same, and offers a new shell."""
    monkeypatch.setattr(tty, "_LOOK", 0.05)
    with here.terminal(1, "/seat/1/terminal/web") as page:
        page.send(json.dumps({"input": "x"}))
        assert page.recv(5) == b"x"
        Mirror.last.is_gone = True
        with pytest.raises(ConnectionClosed):
            page.recv(5)


def test_a_terminal_that_prints_without_end(here: Served) -> None:
    """A program that prints without end waits, as at a slow terminal; no other page does."""
    rate, stock = here.site.terminals._output.rate, here.site.terminals._output.stock
    with here.terminal(1, "/seat/1/terminal/web") as page:
        page.send(json.dumps({"input": "x"}))
        assert page.recv(5) == b"x"
        flood = threading.Thread(target=Mirror.last.flood, args=(2 * int(stock),), daemon=True)
        began, got = time.monotonic(), 0
        flood.start()
        while got < 1.25 * stock:
            got += len(page.recv(10))
            took = time.monotonic() - began
            assert got <= stock + rate * (took + 0.1) + tty._AT_ONCE
        with here.terminal(2, "/seat/2/terminal/web") as other:
            other.send(json.dumps({"input": "y"}))
            assert other.recv(1) == b"y"


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("x" * (tty.MOST_BYTES + 1), 1009),
        ("{", 1007),
        ("[]", 1007),
        ('{"input": 7}', 1007),
        ('{"input": "x", "more": 1}', 1007),
        ('{"columns": 0, "rows": 5}', 1007),
        ('{"columns": 5, "rows": 1000000}', 1007),
        ('{"columns": true, "rows": "5"}', 1007),
        (b"\x00\xff", 1007),
    ],
)
def test_messages_that_no_page_sends(message: str | bytes, code: int, here: Served) -> None:
    with here.terminal(1, "/seat/1/terminal/web") as page:
        page.send(message)
        with pytest.raises(ConnectionClosed) as caught:
            page.recv(5)
        assert caught.value.rcvd is not None and caught.value.rcvd.code == code
    assert here.get(1, "/seat/1").status_code == 200


def test_terminals_end_with_their_stack_and_with_their_token(here: Served) -> None:
    with here.terminal(1, "/seat/1/terminal/web") as page:
        here.post(TRAINER, "/trainer/seat/1/restore")
        with pytest.raises(ConnectionClosed):
            page.recv(5)
    with here.terminal(2, "/seat/2/terminal/web") as page:
        here.keys._tokens[2] = (here.keys.token(2), time.time() - 1)
        with pytest.raises(ConnectionClosed):
            page.recv(5)


def test_a_shell_that_takes_nothing_keeps_nobody(
    here: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its page can go, and the next one can come."""
    monkeypatch.setattr(Mirror, "_echo", lambda self: None)
    for _ in range(15):
        with here.terminal(1, "/seat/1/terminal/web") as page:
            for _ in range(4):
                page.send(json.dumps({"input": "x" * 60_000}))
    until(lambda: here.site.terminals.open == [], shown=here.site.terminals.open)


def test_pings_whose_answers_nobody_takes(here: Served) -> None:
    ping = bytes([0x89, 0x80 + 125]) + bytes(4) + b"x" * 125
    with socket.create_connection(("127.0.0.1", here.port), 10) as deaf:
        deaf.sendall(here.upgrade(1, "/seat/1/terminal/web"))
        assert deaf.recv(12) == b"HTTP/1.1 101"
        with pytest.raises(ConnectionError):  # the kernel's own buffers take some megabytes
            for _ in range(64):
                deaf.sendall(ping * 8000)
