"""What a stranger, or another seat, can try at the server of a class."""

from __future__ import annotations

import json
import re
import socket
import time
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Route, WebSocketRoute
from websockets.exceptions import ConnectionClosed

from faultlab.workshop import (
    view,
)
from faultlab.workshop.access import TRAINER
from faultlab.workshop.guard import Guard
from faultlab.workshop.site import Site
from tests.unit.served import (
    Mirror,
    Served,
)

OWN = ("/", "/join", "/static", "/static/report.css")


def every_route(site: Starlette) -> list[tuple[str, bool]]:
    """Each path that belongs to somebody, for seat 2, and whether it is a WebSocket."""
    found = []
    for route in site.routes:
        path = getattr(route, "path", "")
        if path in OWN:
            continue
        assert isinstance(route, Route | WebSocketRoute), route
        path = path.replace("{seat:int}", "2").replace("{machine:str}", "web")
        path = path.replace("{act:str}", "check" if "/seat/2" in path[:7] else "next")
        found.append((path.replace("{kind:str}", "json"), isinstance(route, WebSocketRoute)))
    return found


def test_every_route_asks_whose_it_is(here: Served, tmp_path: Path) -> None:
    """Without a token, with a wrong one, and with that of another seat; and it is noted."""
    guard = Guard(here.session, here.keys, [], False)
    app = Site(here.session, here.keys, guard, tmp_path / "x").app()
    assert isinstance(app, Starlette)
    routes = every_route(app)
    assert len(routes) == 13
    here.keys.make([9], -1)  # a token that has expired
    for path, is_terminal in routes:
        for who, wanted in (
            (None, {401, 429}),
            ("x" * 43, {401, 429}),
            (1, {403}),
            (9, {401, 429}),
        ):
            before = here.session.roster.seat(1).refused
            if is_terminal:
                code = here.status(who, path)
            else:
                get, post = here.get(who, path).status_code, here.post(who, path).status_code
                code = get if post == 405 else post
                assert {get, post} <= {405, *wanted}, (path, who, get, post)
            assert code in wanted, (path, who, code)
            if who == 1:
                assert here.session.roster.seat(1).refused > before, path
    assert all(turn.state == "red" for turn in (here.session.roster.seat(2).turn,))
    assert Mirror.opened == []
    asked = [event["asked"] for event in here.session.journal.events if event["event"] == "refused"]
    assert {"/seat/2/terminal/web", "/seat/2/check", "/trainer"} <= set(asked)


def test_a_link_takes_no_one_out_of_their_seat(here: Served) -> None:
    """A page of another server, or a message, can lead a browser to a link of another seat.

    It asks first, and only our own page can answer.
    """
    with httpx.Client(base_url=here.url) as page:
        mine, other = (f"/join?token={here.keys.token(number)}" for number in (1, 2))
        own = {"origin": here.url}
        assert page.get(mine).status_code == 303
        assert page.get(mine).status_code == 303  # the same link again
        asked = page.get(other)
        assert (asked.status_code, "set-cookie" in asked.headers) == (200, False)
        assert (
            "Ada" in asked.text and "Grace" in asked.text and here.keys.token(2) not in asked.text
        )
        assert page.get("/seat/1").status_code == 200
        for origin in ({}, {"origin": "http://evil.example"}, {"origin": "null"}):
            assert page.post(other, headers=origin).status_code == 403
        assert page.post("/join?token=x", headers=own).status_code == 401
        assert page.get("/seat/1").status_code == 200
        answer = page.post(other, headers=own)
        assert (answer.status_code, answer.json()) == (200, {"home": "/seat/2"})
        assert (page.get("/seat/1").status_code, page.get("/seat/2").status_code) == (403, 200)
        here.keys.replace(2, 1)
        assert page.get(mine).status_code == 303  # an old cookie is of no seat
        assert page.get(f"/join?token={here.keys.token(TRAINER)}").status_code == 200


def test_guessing_tokens_ends_soon(here: Served) -> None:
    codes = [here.get(f"{'x' * 42}{i % 10}", "/seat/1").status_code for i in range(40)]
    assert codes[0] == 401 and codes[-1] == 429
    assert here.get(1, "/seat/1").status_code == 200  # a client that has one is let in


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "", "https://127.0.0.1"])
def test_a_forged_origin(origin: str, here: Served) -> None:
    assert here.post(1, "/seat/1/give-up", origin=origin).status_code == 403
    assert here.status(1, "/seat/1/terminal/web", origin=origin) == 403
    assert here.session.roster.seat(1).turn.state == "red"
    assert here.session.roster.seat(1).refused == 2


def test_no_origin_at_all_and_another_name_for_us(here: Served) -> None:
    cookie = here.headers(1)["cookie"]
    answer = httpx.post(f"{here.url}/seat/1/give-up", headers={"cookie": cookie})
    assert answer.status_code == 403
    rebound = {"host": "evil.example", "origin": "http://evil.example"}
    assert here.post(1, "/seat/1/give-up", **rebound).status_code == 403
    assert here.get(1, "/seat/1", **rebound).status_code == 403
    assert here.session.roster.seat(1).turn.state == "red"


@pytest.mark.parametrize(
    "path",
    [
        *("/static/../server.py", "/static/%2e%2e/server.py", "/static/..%2fserver.py"),
        *("/static//etc/passwd", "/static/%00", "/seat/1/../../keys.json", "/seat/..%2f2"),
        *("/seat/0", "/seat/99", "/seat/-1", "/seat/1e3", "/export.json/../x", "/keys.json"),
    ],
)
def test_paths_that_lead_elsewhere(path: str, here: Served) -> None:
    with socket.create_connection(("127.0.0.1", here.port), 10) as line:  # sent as it is
        cookie = here.headers(TRAINER)["cookie"]
        line.sendall(
            f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: {cookie}\r\n"
            "Connection: close\r\n\r\n".encode()
        )
        said = b""
        while part := line.recv(65536):
            said += part
    assert said.split()[1] in (b"400", b"403", b"404"), said[:200]
    assert b"root:" not in said and b"import" not in said


def test_too_much_at_once(here: Served) -> None:
    """Of terminals, of what is typed, of buttons, of a body."""
    with (
        here.terminal(1, "/seat/1/terminal/web") as page,
        pytest.raises(ConnectionClosed) as caught,
    ):
        for _ in range(100):
            page.send(json.dumps({"input": "x" * 60_000}))
        page.recv(5)
        for _ in range(200):
            page.recv(5)
    assert caught.value.rcvd is not None and caught.value.rcvd.code == 1008
    with ExitStack() as pages:
        for _ in range(12):
            pages.enter_context(here.terminal(2, "/seat/2/terminal/web"))
        assert here.status(2, "/seat/2/terminal/web") == 403
    assert here.post(3, "/seat/3/diagnose", b"{" + b" " * 5000).status_code == 413
    assert here.post(3, "/seat/3/diagnose", b"\xff").status_code == 400
    assert here.post(3, "/seat/3/diagnose", [1]).status_code == 400
    assert here.post(3, "/seat/3/diagnose", {"component": 1}).status_code == 400
    codes = {here.post(3, "/seat/3/hint").status_code for _ in range(20)}
    assert 429 in codes


def test_a_thousand_connections(here: Served) -> None:
    """From one address: the most is a bound, and somebody at another address notices nothing."""
    here.front.places.patience = 3.0
    lines = []
    for _ in range(1000):
        line = socket.create_connection(("127.0.0.1", here.port), 10, ("127.0.0.2", 0))
        line.settimeout(10)
        lines.append(line)
    began = time.monotonic()
    assert here.get(1, "/seat/1").status_code == 200
    assert len(here.front.places.of["127.0.0.2"]) <= here.front.places.most
    assert time.monotonic() - began < 5

    def dropped(line: socket.socket) -> bool:
        try:
            return line.recv(1) == b""
        except ConnectionResetError:
            return True

    assert all(dropped(line) for line in lines)  # most at once, the rest after their patience
    for line in lines:
        line.close()


def test_who_looks_too_often(here: Served) -> None:
    """Open pages of one view are bounded; so is what the journal keeps of refusals."""
    with ExitStack() as pages:
        for _ in range(4):
            next(pages.enter_context(here.events(1, "/seat/1/events")))
        assert here.get(1, "/seat/1/events").status_code == 429
        assert here.get(1, "/seat/01/events").status_code == 429
        next(pages.enter_context(here.events(TRAINER, "/seat/1/events")))
    for _ in range(60):
        here.get(1, "/trainer", host="evil.example")
    assert here.session.roster.seat(1).refused <= 25
    assert here.get(1, "/seat/" + "9" * 5000).status_code == 403
    assert here.post(1, "/seat/1/hint", b"[" * 4000).status_code == 400


def test_every_answer_says_what_a_page_may_do(here: Served) -> None:
    for answer in (
        here.get(1, "/seat/1"),
        here.get(1, "/trainer"),
        here.get(None, "/static/seat.js"),
        here.get(None, "/", host="evil.example"),
    ):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "script-src 'self';" in policy
        assert "connect-src 'self'" in policy and "form-action 'self'" in policy
        assert "base-uri 'none'" in policy and "frame-ancestors 'none'" in policy
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["cross-origin-opener-policy"] == "same-origin"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
    assert "server" not in here.get(1, "/seat/1").headers


def test_pages_load_nothing_from_elsewhere() -> None:
    folder = Path(view.__file__).parent
    for file in (*folder.glob("pages/*"), *folder.glob("assets/*.css")):
        assert not re.search(
            r"(?:src|href)=\"(?:https?:)?//|url\(\s*['\"]?https?:", file.read_text()
        )
